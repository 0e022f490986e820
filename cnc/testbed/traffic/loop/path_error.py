"""How well a path was followed: how far the output was from where it was to be at its samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cnc.loops.model import Accepted, Arm, Loop
from cnc.loops.paths import Point
from cnc.testbed.traffic.loop.axes import planned


@dataclass(frozen=True, slots=True)
class PathError:
    """In the unit of the output, over all samples; None: an output was beyond all numbers."""

    root_mean_square: float | None
    maximum: float | None

    def is_good(self, accepted: Accepted) -> bool:
        """Whether it is within the limit that the operator accepts."""
        most = accepted.path_error
        return most is None or (self.maximum is not None and self.maximum <= most)


def driven(loop: Loop, axes: Sequence[Sequence[float]]) -> list[Point]:
    """Where the output was at each sample, given the samples of each axis."""
    points = [*zip(*axes, strict=True)]
    return [*map(loop.plant.tip, points)] if isinstance(loop.plant, Arm) else points


def distances(loop: Loop, axes: Sequence[Sequence[float]]) -> list[float]:
    """How far the output was from its path's point of that instant, at each sample."""
    return [*map(math.dist, planned(loop), driven(loop, axes))]


def path_error(loop: Loop, axes: Sequence[Sequence[float]]) -> PathError | None:
    """Of the samples of each axis; None: the loop follows no path."""
    if loop.path is None:
        return None
    off = distances(loop, axes)
    root_mean_square = math.hypot(*off) / math.sqrt(len(off))
    if not math.isfinite(root_mean_square):
        return PathError(None, None)
    return PathError(root_mean_square, max(off))
