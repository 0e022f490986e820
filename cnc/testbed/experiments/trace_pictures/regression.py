"""The total of frames over the layer that it varies most with: figure 6 of X-LAP."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cnc.testbed.experiments.pictures import BLUE, GREY, ORANGE
from cnc.testbed.experiments.trace_pictures.style import LAYER_COLOURS, name_of, sized, unit_of
from cnc.testbed.traffic.trace.columns import PathColumns
from cnc.testbed.traffic.trace.correlation import LayerCorrelation, correlations

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

_PANEL_INCHES = 3.2
_POINTS_MAX = 2_000  # of a panel; more are one image in it
_BINS = 30
_LEAST_COUNT = 0.7  # the end of a logarithmic axis at which one frame is seen


def regression(figure: Figure, paths: Sequence[PathColumns]) -> None:
    """A panel for each flow: a point for each frame, the least-squares line, and histograms."""
    shape = sized(figure, len(paths), _PANEL_INCHES)
    places: list[SubFigure] = list(figure.subfigures(*shape, squeeze=False).flat)
    for place, path, found in zip(places, paths, correlations(paths), strict=False):
        varying = [each for each in found.layers if each.correlation is not None]
        name = name_of(path, paths)
        if not varying:
            place.suptitle(name, fontsize=10)
            place.text(0.5, 0.5, _why_none(found.layers), ha="center", color=GREY)
            continue
        best = max(varying, key=lambda each: abs(each.correlation or 0))
        _panel(place, name, path, best)


def _why_none(layers: Sequence[LayerCorrelation]) -> str:
    return "all frames take the same time" if layers else "too few frames"


def _panel(place: SubFigure, name: str, path: PathColumns, best: LayerCorrelation) -> None:
    times_ns, totals_ns = path.layer_ns(best.layer), path.total_ns
    slope, correlation = best.slope or 0, best.correlation or 0
    intercept_ns = statistics.fmean(totals_ns) - slope * statistics.fmean(times_ns)
    # One unit for both axes, so that the slope is that of the line.
    scale, unit = unit_of(max(totals_ns))
    axes: Any = place.subplots(
        *(2, 2), sharex="col", sharey="row", width_ratios=(4, 1), height_ratios=(1, 4)
    )
    (above, corner), (points, beside) = axes
    corner.remove()
    pairs = sorted(set(zip(times_ns, totals_ns, strict=True)))
    points.plot(
        [time_ns * scale for time_ns, _ in pairs],
        [total_ns * scale for _, total_ns in pairs],
        *("o",),
        markersize=3,
        alpha=0.5,
        color=BLUE,
        markeredgewidth=0,
        rasterized=len(pairs) > _POINTS_MAX,
    )
    ends_ns = min(times_ns), max(times_ns)
    line = [(intercept_ns + slope * end_ns) * scale for end_ns in ends_ns]
    points.plot([end_ns * scale for end_ns in ends_ns], line, color=ORANGE, linewidth=1.2)
    points.set_xlabel(f"{best.layer}, {unit}")
    points.set_ylabel(f"total, {unit}")
    points.ticklabel_format(useOffset=False)
    bars = {"bins": _BINS, "log": True}
    above.hist([each * scale for each in times_ns], color=LAYER_COLOURS[best.layer], **bars)
    beside.hist([each * scale for each in totals_ns], orientation="horizontal", color=GREY, **bars)
    above.set_ylim(bottom=_LEAST_COUNT)
    beside.set_xlim(left=_LEAST_COUNT)
    above.set_ylabel("frames", fontsize=8)
    beside.set_xlabel("frames", fontsize=8)
    sign = "-" if slope < 0 else "+"
    line_is = f"total = {intercept_ns * scale:.3f} {unit} {sign} {abs(slope):.3f} · {best.layer}"
    place.suptitle(f"{name}\n{line_is}, r = {correlation:.3f}", fontsize=9)
