"""Pictures of a trace: the figures of X-LAP (Reif and others, RTN 2017) for the frames of a lab.

`layers` is its figure 4, `frames` figure 3, `causes` figure 5; figure 6 is here `correlation`, for
all layers and flows at once. Where there are more flows than a picture has room for, it has those
whose total varies most.
"""

from __future__ import annotations

import bisect
import statistics
from collections.abc import Callable, Sequence
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

from cnc.experiments.experiment import Picture
from cnc.experiments.pictures import BLUE, GREEN, GREY, ORANGE, Axes
from cnc.traffic.trace.account import Layer
from cnc.traffic.trace.columns import PathColumns
from cnc.traffic.trace.correlation import correlations
from cnc.traffic.trace.drift import drifts
from cnc.traffic.trace.outliers import outliers
from cnc.traffic.trace.stages import Stage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

US_PER_NS = 1e-3
MS_PER_NS = 1e-6
_LONG_NS = 10_000_000  # from here on labels in microseconds run into each other
FLOWS_MAX = 6
_TITLE_SIZE = 11
_CURVE_POINTS_MAX = 1_000
_ROW_INCHES, _HEAD_INCHES = 0.34, 1.5
_DARK = 0.6  # a correlation of this colour, which white text is legible on
_WHISKER = 1.5  # interquartile ranges, as of an outlier
# Of Okabe and Ito, distinguishable with red-green colour blindness, and in their order.
_LAYER_COLOURS = {
    Layer.WAKE_UP: "#e69f00",
    Layer.SOCKET: "#f0e442",
    Layer.QDISC: "#56b4e9",
    Layer.PROCESSING: GREEN,
    Layer.GATE_CLOSED: BLUE,
    Layer.OWN_CLASS: "#cc79a7",
    Layer.OTHER_CLASS: ORANGE,
    Layer.WIRE: "#b3b3b3",
    Layer.LISTENER_WAKE_UP: "#882255",
    Layer.LISTENER: "#332288",
}
_STAGE_TITLES = {
    Stage.SENDER: "sender, with its port",
    Stage.CHANNEL: "channel",
    Stage.RECEIVER: "receiver",
}
_FLOW_COLOURS = (BLUE, ORANGE, GREEN, "#cc79a7", "#e69f00", GREY)


def pictures_of(paths: Sequence[PathColumns], start_ns: int) -> list[Picture]:
    """The pictures of a trace that began at `start_ns` (TAI); none if no frame is complete."""
    whole = [path for path in paths if len(path)]
    if not whole:
        return []
    shown = _most_varying(whole)
    more = f" ({len(shown)} of {len(whole)} flows)" if len(shown) < len(whole) else ""
    drawn: list[tuple[str, str, Callable[[Figure], None]]] = [
        (
            "layers",
            "Time of frames in each layer: quartiles, 1.5 interquartile ranges, and outliers",
            lambda figure: _layers(figure, shown),
        ),
        (
            "frames",
            "The frame with the median total of each flow, and the latest, layer after layer",
            lambda figure: _frames(figure, shown),
        ),
        (
            "stages",
            "How long frames were in each stage: cumulated share",
            lambda figure: _stages(figure, shown),
        ),
        (
            "causes",
            "Outliers of the total, by the layers that made them late",
            lambda figure: _causes(figure, shown),
        ),
        (
            "correlation",
            "Correlation of the time in each layer with the total",
            lambda figure: _correlation(figure, shown),
        ),
        (
            "drift",
            "Total of frames over the run: median and quartiles of ten blocks",
            lambda figure: _drift(figure, shown, start_ns),
        ),
    ]
    return [
        Picture(name, caption + more, _titled(caption + more, draw))
        for name, caption, draw in drawn
    ]


def _titled(title: str, draw: Callable[[Figure], None]) -> Callable[[Figure], None]:
    def draw_titled(figure: Figure) -> None:
        draw(figure)
        if figure.legends:  # it has the place of a title, and can have one
            figure.legends[0].set_title(title)
            figure.legends[0].get_title().set_fontsize(_TITLE_SIZE)
        else:
            figure.suptitle(title, fontsize=_TITLE_SIZE)

    return draw_titled


def _most_varying(paths: Sequence[PathColumns]) -> list[PathColumns]:
    by_range = sorted(paths, key=lambda path: min(path.total_ns) - max(path.total_ns))
    chosen = by_range[:FLOWS_MAX]
    return [path for path in paths if path in chosen]


def _layers_of(paths: Sequence[PathColumns]) -> list[Layer]:
    """Those that the way of any of them has."""
    known = {layer for path in paths for _, layer in path.places}
    return [layer for layer in Layer if layer in known]


def _name(path: PathColumns, paths: Sequence[PathColumns]) -> str:
    alone = sum(each.flow == path.flow for each in paths) == 1 and path.path == 0
    return path.flow if alone else f"{path.flow}, path {path.path + 1}"


def _panels(figure: Figure, paths: Sequence[PathColumns], row_inches: float) -> list[Axes]:
    """A panel for each flow, two beside each other, with its name."""
    columns = min(2, len(paths))
    rows = -(-len(paths) // columns)
    figure.set_size_inches(9, _HEAD_INCHES / 2 + rows * row_inches)
    axes: list[Axes] = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in axes[len(paths) :]:
        spare.remove()
    for each, path in zip(axes, paths, strict=False):
        each.set_title(_name(path, paths), fontsize=10, loc="left")
    return axes[: len(paths)]


def _unit(most_ns: float) -> tuple[float, str]:
    """How many units of an axis that reaches so far a nanosecond is, and which."""
    return (MS_PER_NS, "ms") if most_ns >= _LONG_NS else (US_PER_NS, "µs")


def _layers(figure: Figure, paths: Sequence[PathColumns]) -> None:
    layers = [layer for layer in Layer if any(any(path.layer_ns(layer)) for path in paths)]
    panels = _panels(figure, paths, _HEAD_INCHES / 2 + 0.25 * len(layers))
    for number, (axes, path) in enumerate(zip(panels, paths, strict=True)):
        ordered_ns = {layer: sorted(path.layer_ns(layer)) for layer in layers}
        scale, unit = _unit(max(its[-1] for its in ordered_ns.values() if its))
        for row, layer in enumerate(layers):
            if ordered_ns[layer]:
                _box(axes, row, ordered_ns[layer], scale, _LAYER_COLOURS[layer])
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


_OUTLIER = {"markersize": 2.5, "markerfacecolor": "none", "color": GREY, "markeredgewidth": 0.6}


def _frames(figure: Figure, paths: Sequence[PathColumns]) -> None:
    figure.set_size_inches(9, _HEAD_INCHES + 2 * len(paths) * _ROW_INCHES)
    axes = figure.subplots()
    labels: list[tuple[float, str]] = []
    scale, unit = _unit(max(max(path.total_ns) for path in paths))
    seen = set()
    for number, path in enumerate(paths):
        order = sorted(range(len(path)), key=path.total_ns.__getitem__)
        for which, index in (("median", order[(len(order) - 1) // 2]), ("latest", order[-1])):
            row = len(labels) + number * 0.5
            begin_ns = 0
            for (_, layer), column in zip(path.places, path.parts_ns, strict=True):
                lasted_ns = column[index]
                if lasted_ns:
                    axes.barh(
                        *(row, lasted_ns * scale, 0.8, begin_ns * scale),
                        color=_LAYER_COLOURS[layer],
                        edgecolor="white",
                        linewidth=0.4,
                        label=None if layer in seen else str(layer),
                    )
                    seen.add(layer)
                begin_ns += lasted_ns
            labels.append((row, f"{_name(path, paths)}/{path.seqs[index]}, {which}"))
    axes.set_yticks([row for row, _ in labels], [label for _, label in labels])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    is_on_one_clock = Stage.CHANNEL in paths[0].stages
    axes.set_xlabel(
        f"{unit} after the planned instant" if is_on_one_clock else f"{unit}, without the channel"
    )
    _legend(figure, axes, 5, [str(layer) for layer in Layer])


def _legend(figure: Figure, axes: Axes, columns: int, order: Sequence[str] = ()) -> None:
    """One legend for the whole figure above its panels; names in `order` if there is one."""
    handles, names = axes.get_legend_handles_labels()
    labelled = dict(zip(names, handles, strict=True))
    names = [name for name in order or names if name in labelled]
    figure.legend(
        [labelled[name] for name in names],
        names,
        loc="outside upper center",
        ncols=columns,
        fontsize=9,
    )


def _stages(figure: Figure, paths: Sequence[PathColumns]) -> None:
    figure.set_size_inches(9, 4.2)
    stages = paths[0].stages
    panels: Sequence[Axes] = figure.subplots(1, len(stages), sharey=True)
    for axes, stage in zip(panels, stages, strict=True):
        scale, unit = _unit(max(max(path.stage_ns(stage)) for path in paths))
        # The first lines are wide, for others often lie upon them.
        for number, (path, colour) in enumerate(zip(paths, _FLOW_COLOURS, strict=False)):
            axes.step(
                *_curve(path.stage_ns(stage), scale),
                where="post",
                color=colour,
                linewidth=1 + 0.6 * (len(paths) - 1 - number),
                label=_name(path, paths),
            )
        axes.set_title(_STAGE_TITLES[stage], fontsize=10, loc="left")
        axes.set_xlabel(unit)
        axes.ticklabel_format(axis="x", useOffset=False)
    panels[0].set_ylabel("share of frames")
    _legend(figure, panels[0], 3)


def _curve(durations_ns: Sequence[int], scale: float) -> tuple[list[float], list[float]]:
    """Durations, times `scale`, and the share of frames that take no longer; of many, evenly chosen
    ones."""
    counts = [(each, sum(1 for _ in same)) for each, same in groupby(sorted(durations_ns))]
    upto = list(accumulate(count for _, count in counts))
    chosen = range(0, len(counts), -(-len(counts) // _CURVE_POINTS_MAX))
    indices = sorted({*chosen, len(counts) - 1})
    times = [counts[index][0] * scale for index in indices]
    return [times[0], *times], [0, *(upto[index] / len(durations_ns) for index in indices)]


def _causes(figure: Figure, paths: Sequence[PathColumns]) -> None:
    layers = _layers_of(paths)
    figure.set_size_inches(9, _HEAD_INCHES + len(layers) * _ROW_INCHES)
    axes = figure.subplots()
    reached = dict.fromkeys(layers, 0)
    ways = zip(paths, outliers(paths), _FLOW_COLOURS, strict=False)
    for path, way, colour in ways:
        counts = dict.fromkeys(layers, 0)
        for _, layer, count in way.causes:
            counts[layer] += count
        scale, unit = _unit(way.threshold_ns)
        limit = f"{way.threshold_ns * scale:.1f} {unit}"
        axes.barh(
            range(len(layers)),
            list(counts.values()),
            0.6,
            list(reached.values()),
            color=colour,
            label=f"{_name(path, paths)}: {len(way.seqs)} of {way.frames} beyond {limit}",
        )
        reached = {layer: reached[layer] + counts[layer] for layer in layers}
    axes.set_yticks(range(len(layers)), [str(layer) for layer in layers])
    axes.invert_yaxis()
    axes.set_xlim(0, max(*reached.values(), 1) * 1.05)
    if not any(reached.values()):
        axes.text(0.5, 0.5, "no outlier", ha="center", transform=axes.transAxes)
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("parts of outliers, at all places, that were outliers themselves")
    _legend(figure, axes, 2)


def _correlation(figure: Figure, paths: Sequence[PathColumns]) -> None:
    layers = _layers_of(paths)
    found = correlations(paths)
    cells = [
        [{each.layer: each.correlation for each in flow.layers}.get(layer) for layer in layers]
        for flow in found
    ]
    figure.set_size_inches(9, _HEAD_INCHES + 0.5 + 0.45 * len(paths))
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
    axes.set_yticks(range(len(paths)), [_name(path, paths) for path in paths])
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("– is a layer that takes the same time in all frames", fontsize=9)  # noqa: RUF001
    figure.colorbar(image, label="Pearson's correlation")


def _drift(figure: Figure, paths: Sequence[PathColumns], start_ns: int) -> None:
    panels = _panels(figure, paths, 1.9)
    for axes, path, drift in zip(panels, paths, drifts(paths), strict=True):
        if drift.trend is None:
            axes.text(0.5, 0.5, "too few frames", ha="center", transform=axes.transAxes)
            continue
        slope, within = drift.slope_ns_per_s or 0, drift.confidence_ns_per_s or 0
        axes.set_title(
            f"{_name(path, paths)}: {round(slope):+,d} ± {within:,.0f} ns/s, {drift.trend}",
            fontsize=10,
            loc="left",
        )
        at_ms = [(block.begin_ns - start_ns) * MS_PER_NS for block in drift.blocks]
        scale, unit = _unit(max(block.third_quartile_ns for block in drift.blocks))
        quartiles = [
            [value * scale for value in same]
            for same in zip(
                *((b.first_quartile_ns, b.median_ns, b.third_quartile_ns) for b in drift.blocks),
                strict=True,
            )
        ]
        axes.fill_between(at_ms, quartiles[0], quartiles[2], color=BLUE, alpha=0.2, linewidth=0)
        axes.plot(at_ms, quartiles[1], "o-", color=BLUE, markersize=3, linewidth=1)
        axes.ticklabel_format(axis="y", useOffset=False)
        axes.set_xlabel("ms after the start")
        axes.set_ylabel(f"total, {unit}")
