"""What makes late frames late: causes counted among outliers (X-LAP, section 3.3.3).

A frame is an outlier of its flow if its total is above the third quartile plus 1.5 times the
interquartile range. A part of it is a cause if it is such an outlier among the same parts.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cnc.traffic.trace.account import Account, Layer

_WHISKER = 1.5  # interquartile ranges


@dataclass(frozen=True, slots=True)
class Outliers:
    """The outliers of one flow by one path. `causes` has how many of them each part made late, the
    most frequent first; one may have several causes, or none."""

    flow: str
    path: int
    frames: int
    threshold_ns: float
    seqs: tuple[int, ...]
    causes: tuple[tuple[str, Layer, int], ...]


def threshold_ns(durations_ns: Sequence[int]) -> float:
    """Beyond what a duration is an outlier: Q3 + 1.5 IQR, quartiles interpolated linearly."""
    if len(durations_ns) == 1:
        return durations_ns[0]
    first, _, third = statistics.quantiles(durations_ns, n=4, method="inclusive")
    return third + _WHISKER * (third - first)


def outliers(accounts: Iterable[Account]) -> list[Outliers]:
    """Of each flow and path, of frames without an absent part."""
    by_way: dict[tuple[str, int], list[Account]] = {}
    for each in accounts:
        if each.row.is_complete:
            by_way.setdefault((each.row.flow.name, each.row.path or 0), []).append(each)
    return [_of_way(flow, path, same) for (flow, path), same in by_way.items()]


def _of_way(flow: str, path: int, accounts: Sequence[Account]) -> Outliers:
    limit_ns = threshold_ns([each.total_ns or 0 for each in accounts])
    late = [each for each in accounts if (each.total_ns or 0) > limit_ns]
    limits_ns = [
        threshold_ns([part.duration_ns or 0 for part in same])
        for same in zip(*(each.parts for each in accounts), strict=True)
    ]
    causes = Counter(
        (part.place, part.layer)
        for each in late
        for part, part_limit_ns in zip(each.parts, limits_ns, strict=True)
        if (part.duration_ns or 0) > part_limit_ns
    )
    return Outliers(
        flow=flow,
        path=path,
        frames=len(accounts),
        threshold_ns=limit_ns,
        seqs=tuple(each.row.seq for each in late),
        causes=tuple((*which, count) for which, count in causes.most_common()),
    )
