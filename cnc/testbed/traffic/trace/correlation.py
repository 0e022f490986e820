"""Which layers the total of a flow's frames varies with (X-LAP, section 3.3.4).

A layer that varies with the total need not be what makes frames late: both may have one reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cnc.testbed.traffic.trace.account import Layer
from cnc.testbed.traffic.trace.columns import PathColumns

FRAMES_MIN = 10
"""With fewer a correlation is mostly chance: two frames always have one of 1 or -1."""


@dataclass(frozen=True, slots=True)
class LayerCorrelation:
    """How the total of frames varies with their time in a layer.

    `correlation` is Pearson's, -1 to 1; `slope` by how many nanoseconds the total is longer for
    each in the layer, by least squares. None: the layer has the same time in all frames, or the
    total is the same.
    """

    layer: Layer
    is_constant: bool
    correlation: float | None
    slope: float | None


@dataclass(frozen=True, slots=True)
class Correlations:
    """Of the frames of a flow by one path. `frames` are those that it is computed from, `absent`
    those that are lost or incomplete. `layers` is empty if there are fewer than FRAMES_MIN."""

    flow: str
    path: int
    frames: int
    absent: int
    is_total_constant: bool
    layers: tuple[LayerCorrelation, ...]


def correlations(paths: Iterable[PathColumns]) -> list[Correlations]:
    """One for each flow and path, with the layers that its way has."""
    return [_of_path(each) for each in paths]


def _of_path(path: PathColumns) -> Correlations:
    is_enough = len(path) >= FRAMES_MIN
    return Correlations(
        flow=path.flow,
        path=path.path,
        frames=len(path),
        absent=path.lost + path.incomplete,
        is_total_constant=is_enough and _is_constant(path, path.total_ns),
        layers=tuple(
            _of_layer(path, layer, durations_ns)
            for layer in Layer
            if is_enough and (durations_ns := path.layer_ns(layer))
        ),
    )


def _of_layer(path: PathColumns, layer: Layer, durations_ns: Sequence[int]) -> LayerCorrelation:
    if _is_constant(path, durations_ns):
        return LayerCorrelation(layer, is_constant=True, correlation=None, slope=None)
    return correlation(layer, zip(durations_ns, path.total_ns, strict=True))


def _is_constant(path: PathColumns, durations_ns: Sequence[int]) -> bool:
    return max(durations_ns) - min(durations_ns) <= path.off_ns


def correlation(layer: Layer, pairs: Iterable[tuple[int, int]]) -> LayerCorrelation:
    """Of pairs of the time in a layer and the total. The sums are exact, whatever the size of the
    durations: what is constant has a variance of 0, and nothing else has."""
    count = sum_x = sum_y = sum_xx = sum_xy = sum_yy = 0
    for x, y in pairs:
        count += 1
        sum_x += x
        sum_y += y
        sum_xx += x * x
        sum_xy += x * y
        sum_yy += y * y
    # Each of these is count² times a (co)variance.
    varies_x = count * sum_xx - sum_x * sum_x
    varies_y = count * sum_yy - sum_y * sum_y
    together = count * sum_xy - sum_x * sum_y
    if not varies_x or not varies_y:
        return LayerCorrelation(layer, is_constant=not varies_x, correlation=None, slope=None)
    coefficient = together / (math.sqrt(varies_x) * math.sqrt(varies_y))
    slope = coefficient * math.sqrt(varies_y / varies_x)
    return LayerCorrelation(layer, is_constant=False, correlation=coefficient, slope=slope)
