"""The picture of a lab's clocks: how far each was from the first switch's, and what it followed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from cnc.model import NS_PER_S
from cnc.testbed.experiments.experiment import Picture
from cnc.testbed.experiments.pictures import BLUE, GREEN, ORANGE, Axes, legend_above
from cnc.testbed.lab.kernels.ptp_log import Role

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cnc.testbed.lab.kernels.clock_history import ClockHistory

US_PER_NS = 1e-3
_POINTS_MAX = 1_000
_BAND_INCHES, _HEAD_INCHES, _CURVES_INCHES = 0.24, 1.3, 2.8
_CHARACTER_PART = 0.012  # of the width, in a grandmaster's name
_COLOURS = {
    Role.STARTING: "#d9d9d9",
    Role.UNCALIBRATED: "#e69f00",
    Role.FOLLOWS: GREEN,
    Role.GRANDMASTER: BLUE,
    Role.FAULTY: ORANGE,
}


def clock_picture(history: ClockHistory) -> Picture:
    """Distances from the first switch over time, and a band for each node with its role."""
    allowed = f"{history.intent.network.clock_error_ns * US_PER_NS:g} µs"
    return Picture(
        "clocks",
        f"True distance of each clock from that of {history.reference} since the lab began, on a "
        f"scale that is linear up to {allowed}, which the plan allows (shaded); and what each "
        "was to others, with the grandmaster that it followed.",
        _draw(history),
    )


def thinned(distances: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """At most a thousand of them: of each span of time the one that is furthest off."""
    begin_ns, end_ns = distances[0][0], distances[-1][0]
    span_ns = max(1, -(-(end_ns - begin_ns + 1) // _POINTS_MAX))
    for _, its in groupby(distances, key=lambda each: (each[0] - begin_ns) // span_ns):
        yield max(its, key=lambda each: abs(each[1]))


def _draw(history: ClockHistory) -> Callable[[Figure], None]:
    nodes = list(history.roles)

    def draw(figure: Figure) -> None:
        bands_inches = _BAND_INCHES * len(nodes)
        figure.set_figheight(_HEAD_INCHES + _CURVES_INCHES + bands_inches)
        above, below = figure.subplots(2, sharex=True, height_ratios=[_CURVES_INCHES, bands_inches])
        _draw_distances(above, history, nodes)
        _draw_roles(below, history, nodes)

    return draw


def _draw_distances(axes: Axes, history: ClockHistory, nodes: Sequence[str]) -> None:
    import matplotlib  # noqa: PLC0415

    allowed_us = history.intent.network.clock_error_ns * US_PER_NS
    axes.axhspan(-allowed_us, allowed_us, color=GREEN, alpha=0.12, linewidth=0)
    others = [node for node in nodes if node != history.reference]
    colours = matplotlib.colormaps["viridis"]
    for number, node in enumerate(others):
        shown = [*thinned(history.offsets.distances(node, history.reference))]
        axes.plot(
            [time_ns / NS_PER_S for time_ns, _ in shown],
            [distance_ns * US_PER_NS for _, distance_ns in shown],
            color=colours(number / len(others)),
            linewidth=1,
            label=node,
        )
    axes.set_yscale("symlog", linthresh=allowed_us)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylabel(f"ahead of {history.reference}, µs")
    legend_above(axes, len(others))


def _draw_roles(axes: Axes, history: ClockHistory, nodes: Sequence[str]) -> None:
    from matplotlib.patches import Patch  # noqa: PLC0415

    times_ns, _ = history.offsets.series(history.reference)
    end_ns = times_ns[-1]
    shown = set()
    for row, node in enumerate(nodes):
        spans = history.roles[node]
        until_ns = [*(span.time_ns for span in spans[1:]), end_ns]
        for span, to_ns in zip(spans, until_ns, strict=bool(spans)):
            shown.add(span.role)
            begin_s, length_s = span.time_ns / NS_PER_S, (to_ns - span.time_ns) / NS_PER_S
            axes.barh(row, length_s, left=begin_s, height=0.8, color=_COLOURS[span.role])
            name = f" {span.grandmaster or ''} "
            if to_ns - span.time_ns >= _CHARACTER_PART * len(name) * end_ns:
                axes.text(begin_s, row, name, va="center", color="white", fontsize=8)
    axes.set_yticks(range(len(nodes)), nodes)
    axes.set_ylim(len(nodes) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.set_xlabel("true time since the lab began, s")
    axes.legend(
        handles=[Patch(color=_COLOURS[role], label=role) for role in Role if role in shown],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.9 / len(nodes) - 0.12),
        ncols=len(shown) or 1,
    )
