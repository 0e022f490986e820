"""How the time of frames spreads: in layers (figure 4 of X-LAP), and stages (equations 1 to 3)."""

from __future__ import annotations

import bisect
import statistics
from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

from cnc.testbed.experiments.pictures import GREY, Axes
from cnc.testbed.experiments.trace_pictures.style import (
    FLOW_COLOURS,
    HEAD_INCHES,
    LAYER_COLOURS,
    legend,
    name_of,
    panels_of,
    unit_of,
)
from cnc.testbed.traffic.trace.account import Layer
from cnc.testbed.traffic.trace.columns import PathColumns
from cnc.testbed.traffic.trace.stages import Stage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CURVE_POINTS_MAX = 1_000
_WHISKER = 1.5  # interquartile ranges, as of an outlier
_OUTLIER = {"markersize": 2.5, "markerfacecolor": "none", "color": GREY, "markeredgewidth": 0.6}
_STAGE_TITLES = {
    Stage.SENDER: "sender, with its port",
    Stage.CHANNEL: "channel",
    Stage.RECEIVER: "receiver",
}


def layers(figure: Figure, paths: Sequence[PathColumns]) -> None:
    layers = [layer for layer in Layer if any(any(path.layer_ns(layer)) for path in paths)]
    panels = panels_of(figure, paths, HEAD_INCHES / 2 + 0.25 * len(layers))
    for number, (axes, path) in enumerate(zip(panels, paths, strict=True)):
        ordered_ns = {layer: sorted(path.layer_ns(layer)) for layer in layers}
        scale, unit = unit_of(max(its[-1] for its in ordered_ns.values() if its))
        for row, layer in enumerate(layers):
            if ordered_ns[layer]:
                _box(axes, row, ordered_ns[layer], scale, LAYER_COLOURS[layer])
        axes.set_yticks(
            range(len(layers)), [str(layer) for layer in layers] if not number % 2 else ()
        )
        axes.set_ylim(len(layers) - 0.5, -0.5)
        axes.set_xlim(left=-0.01 * axes.get_xlim()[1])  # so that a median of 0 is seen
        axes.set_xlabel(unit)


def _box(axes: Axes, row: int, ordered_ns: Sequence[int], scale: float, colour: str) -> None:
    """A box plot from the figures of sorted durations: a million points are too many to draw."""
    first, median, third = (
        (ordered_ns[0],) * 3
        if len(ordered_ns) == 1
        else statistics.quantiles(ordered_ns, n=4, method="inclusive")
    )
    reach_ns = _WHISKER * (third - first)
    least = ordered_ns[bisect.bisect_left(ordered_ns, first - reach_ns)]
    most = ordered_ns[bisect.bisect_right(ordered_ns, third + reach_ns) - 1]
    axes.hlines(row, least * scale, most * scale, color="black", linewidth=0.8)
    width = (third - first) * scale
    axes.barh(row, width, 0.6, first * scale, color=colour, edgecolor="black", linewidth=0.6)
    axes.vlines(median * scale, row - 0.3, row + 0.3, color="black", linewidth=1.6)
    beyond = [each for each, _ in groupby(ordered_ns) if not least <= each <= most]
    axes.plot([each * scale for each in beyond], [row] * len(beyond), "o", **_OUTLIER)


def stages(figure: Figure, paths: Sequence[PathColumns]) -> None:
    figure.set_size_inches(9, 4.2)
    stages = paths[0].stages
    panels: Sequence[Axes] = figure.subplots(1, len(stages), sharey=True)
    for axes, stage in zip(panels, stages, strict=True):
        scale, unit = unit_of(max(max(path.stage_ns(stage)) for path in paths))
        # The first lines are wide, for others often lie upon them.
        for number, (path, colour) in enumerate(zip(paths, FLOW_COLOURS, strict=False)):
            axes.step(
                *_curve(path.stage_ns(stage), scale),
                where="post",
                color=colour,
                linewidth=1 + 0.6 * (len(paths) - 1 - number),
                label=name_of(path, paths),
            )
        axes.set_title(_STAGE_TITLES[stage], fontsize=10, loc="left")
        axes.set_xlabel(unit)
        axes.ticklabel_format(axis="x", useOffset=False)
    panels[0].set_ylabel("share of frames")
    legend(figure, panels[0], 3)


def _curve(durations_ns: Sequence[int], scale: float) -> tuple[list[float], list[float]]:
    """Durations, times `scale`, and the share of frames that take no longer; of many, evenly chosen
    ones."""
    counts = [(each, sum(1 for _ in same)) for each, same in groupby(sorted(durations_ns))]
    upto = list(accumulate(count for _, count in counts))
    chosen = range(0, len(counts), -(-len(counts) // _CURVE_POINTS_MAX))
    indices = sorted({*chosen, len(counts) - 1})
    times = [counts[index][0] * scale for index in indices]
    return [times[0], *times], [0, *(upto[index] / len(durations_ns) for index in indices)]
