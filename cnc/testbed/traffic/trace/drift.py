"""How the total of a flow's frames moves over a run: a trend that neither mean nor outliers show.

Frames that follow one another are not independent of each other (they come in periods, and wait for
the same gates), so a confidence that is computed from single frames would be far too good. It
is computed from the means of ten blocks of a run.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from cnc.model import NS_PER_S
from cnc.testbed.traffic.trace.columns import PathColumns

BLOCKS = 10
FRAMES_MIN = 2 * BLOCKS
_STUDENT_95 = 2.306  # two-sided 95 % quantile of Student's t, BLOCKS - 2 degrees of freedom


class Trend(StrEnum):
    """Which way a total moves. `STEADY`: 0 is within the confidence of the slope."""

    RISING = "rising"
    FALLING = "falling"
    STEADY = "steady"


@dataclass(frozen=True, slots=True)
class Block:
    """The totals of frames that follow one another, the first planned for `begin_ns` (TAI).

    Quartiles are interpolated linearly.
    """

    begin_ns: int
    frames: int
    mean_ns: float
    first_quartile_ns: float
    median_ns: float
    third_quartile_ns: float


@dataclass(frozen=True, slots=True)
class Drift:
    """The frames of a flow by one path, without those that are lost or incomplete.

    `slope_ns_per_s` is by how much the total moves in a second of the run: least squares through
    the means of the blocks. The true one is within `confidence_ns_per_s` of it with 95 %.
    `moved_ns` is the median of the last block minus that of the first. All are None and there are
    no blocks with fewer than FRAMES_MIN frames, or if all are planned for one instant.
    """

    flow: str
    path: int
    frames: int
    slope_ns_per_s: float | None
    confidence_ns_per_s: float | None
    moved_ns: float | None
    blocks: tuple[Block, ...]

    @property
    def trend(self) -> Trend | None:
        if self.slope_ns_per_s is None or self.confidence_ns_per_s is None:
            return None
        if abs(self.slope_ns_per_s) <= self.confidence_ns_per_s:
            return Trend.STEADY
        return Trend.RISING if self.slope_ns_per_s > 0 else Trend.FALLING


def drifts(paths: Iterable[PathColumns]) -> list[Drift]:
    """One for each flow and path."""
    return [_of_path(each) for each in paths]


def _of_path(path: PathColumns) -> Drift:
    if len(path) < FRAMES_MIN or path.planned_ns[0] == path.planned_ns[-1]:
        return Drift(path.flow, path.path, len(path), None, None, None, ())
    bounds = [len(path) * number // BLOCKS for number in range(BLOCKS + 1)]
    origin_ns = path.planned_ns[0]
    blocks = []
    middles_ns = []  # mean planned instants, which the means belong to
    for begin, end in pairwise(bounds):
        planned_ns = path.planned_ns[begin:end]
        blocks.append(_block(planned_ns[0], path.total_ns[begin:end]))
        middles_ns.append(statistics.fmean(each - origin_ns for each in planned_ns))
    means_ns = [block.mean_ns for block in blocks]
    slope, confidence = slope_and_confidence(middles_ns, means_ns)
    return Drift(
        flow=path.flow,
        path=path.path,
        frames=len(path),
        slope_ns_per_s=slope * NS_PER_S,
        confidence_ns_per_s=confidence * NS_PER_S,
        moved_ns=blocks[-1].median_ns - blocks[0].median_ns,
        blocks=tuple(blocks),
    )


def _block(begin_ns: int, totals_ns: Sequence[int]) -> Block:
    first, median, third = statistics.quantiles(totals_ns, n=4, method="inclusive")
    return Block(begin_ns, len(totals_ns), statistics.fmean(totals_ns), first, median, third)


def slope_and_confidence(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """The slope of y over x, of BLOCKS values each, by least squares, and half the width of its
    95 % confidence interval."""
    slope, intercept = statistics.linear_regression(x, y)
    residuals = (b - intercept - slope * a for a, b in zip(x, y, strict=True))
    variance = math.fsum(each * each for each in residuals) / (len(x) - 2)
    middle = statistics.fmean(x)
    varies_x = math.fsum((each - middle) ** 2 for each in x)
    return slope, _STUDENT_95 * math.sqrt(variance / varies_x)
