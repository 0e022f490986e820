"""What makes totals vary: causes of outliers (figure 5 of X-LAP) and correlation (figure 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cnc.testbed.experiments.trace_pictures.style import (
    FLOW_COLOURS,
    HEAD_INCHES,
    ROW_INCHES,
    layers_of,
    legend,
    name_of,
    unit_of,
)
from cnc.testbed.traffic.trace.columns import PathColumns
from cnc.testbed.traffic.trace.correlation import correlations
from cnc.testbed.traffic.trace.outliers import outliers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DARK = 0.6  # a correlation of this colour, which white text is legible on


def causes(figure: Figure, paths: Sequence[PathColumns]) -> None:
    layers = layers_of(paths)
    figure.set_size_inches(9, HEAD_INCHES + len(layers) * ROW_INCHES)
    axes = figure.subplots()
    reached = dict.fromkeys(layers, 0)
    ways = zip(paths, outliers(paths), FLOW_COLOURS, strict=False)
    for path, way, colour in ways:
        counts = dict.fromkeys(layers, 0)
        for _, layer, count in way.causes:
            counts[layer] += count
        scale, unit = unit_of(way.threshold_ns)
        limit = f"{way.threshold_ns * scale:.1f} {unit}"
        axes.barh(
            range(len(layers)),
            list(counts.values()),
            0.6,
            list(reached.values()),
            color=colour,
            label=f"{name_of(path, paths)}: {len(way.seqs)} of {way.frames} beyond {limit}",
        )
        reached = {layer: reached[layer] + counts[layer] for layer in layers}
    axes.set_yticks(range(len(layers)), [str(layer) for layer in layers])
    axes.invert_yaxis()
    axes.set_xlim(0, max(*reached.values(), 1) * 1.05)
    if not any(reached.values()):
        axes.text(0.5, 0.5, "no outlier", ha="center", transform=axes.transAxes)
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("parts of outliers, at all places, that were outliers themselves")
    legend(figure, axes, 2)


def correlation(figure: Figure, paths: Sequence[PathColumns]) -> None:
    layers = layers_of(paths)
    found = correlations(paths)
    cells = [
        [{each.layer: each.correlation for each in flow.layers}.get(layer) for layer in layers]
        for flow in found
    ]
    figure.set_size_inches(9, HEAD_INCHES + 0.5 + 0.45 * len(paths))
    axes = figure.subplots()
    drawn = [[float("nan") if each is None else each for each in row] for row in cells]
    image = axes.imshow(drawn, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    axes.set_facecolor("#f0f0f0")  # of what has no correlation
    for row, its in enumerate(cells):
        for column, value in enumerate(its):
            text = "–" if value is None else f"{round(value, 2) + 0.0:.2f}"  # noqa: RUF001
            is_dark = value is not None and abs(value) > _DARK
            colour = "white" if is_dark else "black"
            axes.text(column, row, text, ha="center", va="center", fontsize=9, color=colour)
    axes.set_xticks(range(len(layers)), [str(layer) for layer in layers], rotation=25, ha="right")
    axes.set_yticks(range(len(paths)), [name_of(path, paths) for path in paths])
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("– is a layer that takes the same time in all frames", fontsize=9)  # noqa: RUF001
    figure.colorbar(image, label="Pearson's correlation")
