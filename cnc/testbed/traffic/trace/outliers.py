"""What makes late frames late: causes counted among outliers (X-LAP, section 3.3.3).

A frame is an outlier of its flow if its total is above the third quartile plus 1.5 times the
interquartile range, and by which durations may be off. A part of it is a cause if it is such an
outlier among the same parts.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cnc.testbed.traffic.trace.account import Layer
from cnc.testbed.traffic.trace.columns import PathColumns

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


def outliers(paths: Iterable[PathColumns]) -> list[Outliers]:
    """Of each flow and path, of frames without an absent part."""
    return [_of_path(each) for each in paths if len(each)]


def _of_path(path: PathColumns) -> Outliers:
    limit_ns = threshold_ns(path.total_ns) + path.off_ns
    late = [index for index, total_ns in enumerate(path.total_ns) if total_ns > limit_ns]
    causes = []
    for (place, layer), durations_ns in zip(path.places, path.parts_ns, strict=True):
        part_limit_ns = threshold_ns(durations_ns) + path.off_ns
        if count := sum(durations_ns[index] > part_limit_ns for index in late):
            causes.append((place, layer, count))
    return Outliers(
        flow=path.flow,
        path=path.path,
        frames=len(path),
        threshold_ns=limit_ns,
        seqs=tuple(path.seqs[index] for index in late),
        causes=tuple(sorted(causes, key=lambda cause: cause[2], reverse=True)),
    )
