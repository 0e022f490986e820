"""Pictures of curves over round-trip time and loss, and of the search for gains."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cnc.loops.model import Accepted
from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.control_loop.pictures import MS_PER_NS, SHOWN
from cnc.testbed.experiments.experiment import Picture
from cnc.testbed.experiments.step_responses.figures import PERCENT, Cell
from cnc.testbed.experiments.step_responses.tuning import Comparison, Gains, Tried

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MS_PER_S = 1e3
# From the shortest round-trip time to the longest, and again from the first.
SHADES = ("#0072b2", "#009e73", "#cc79a7", "#d55e00", "#7a1f00", "#000000")


def step_responses_pictures(
    cells: Sequence[Cell], accepted: Accepted, comparison: Comparison | None
) -> list[Picture]:
    """Of the curves and, where gains were searched, of these."""
    drawn = [
        Picture(
            "step-responses",
            "Step responses over round-trip time and loss, a line for each seed. Dashes: computed, "
            "where nothing is lost.",
            _curves(cells, accepted),
        )
    ]
    if comparison and comparison.found:
        drawn.append(
            Picture(
                "tuning",
                "Left: the separation of the curves by gains, where these are allowed. Right: the "
                "computed curves with the gains that were found.",
                _tuning(comparison, comparison.found),
            )
        )
    return drawn


def _curves(cells: Sequence[Cell], accepted: Accepted) -> Callable[[Figure], None]:
    losses = sorted({cell.loss_percent for cell in cells})
    round_trips_ns = sorted({cell.round_trip_ns for cell in cells})

    def draw(figure: Figure) -> None:
        (every,) = figure.subplots(1, len(losses), sharey=True, sharex=True, squeeze=False)
        for axes, loss in zip(every, losses, strict=True):
            for cell in (each for each in cells if each.loss_percent == loss):
                _cell(axes, cell, _shade(round_trips_ns.index(cell.round_trip_ns)))
            if accepted.overshoot_percent is not None:
                limit = 1 + accepted.overshoot_percent / PERCENT
                axes.axhline(limit, color=pictures.GREY, linewidth=0.8, linestyle=":")
            axes.set_title(f"{loss} % lost", fontsize=10)
            axes.set_xlabel("time, ms")
            axes.set_ylim(*SHOWN)
            axes.set_xlim(0, _shown_ms(cells))
        every[0].set_ylabel("output of the plant, in parts of the step")
        figure.legend(
            *every[0].get_legend_handles_labels(),
            title="round trip",
            loc="outside upper center",
            ncols=len(round_trips_ns),
            fontsize=9,
        )

    return draw


def _shown_ms(cells: Sequence[Cell]) -> float:
    """Until the last curve that settles has done so: what follows are oscillations that go on."""
    curves = [each for cell in cells for each in cell.curves]
    settled_ns = [ns for each in curves if (ns := each.response.settling_time_ns) is not None]
    return MS_PER_NS * max(settled_ns, default=max(each.curve.loop.duration_ns for each in curves))


def _cell(axes: pictures.Axes, cell: Cell, colour: str) -> None:
    """The curves of longer round trips lie behind the others, which are less far from 1."""
    for number, each in enumerate(cell.curves):
        reference = float(each.curve.loop.reference)
        times_ms = [n * each.curve.loop.period_ns * MS_PER_NS for n in range(len(each.expected))]
        axes.plot(
            times_ms,
            [output / reference for output in each.curve.outputs],
            color=colour,
            linewidth=0.8 if each.seed is not None else 2,
            alpha=0.6 if each.seed is not None else 1,
            zorder=2 + 1 / (1 + cell.round_trip_ns * MS_PER_NS),
            label=f"{cell.round_trip_ns * MS_PER_NS:g} ms" if number == 0 else None,
        )
        if each.seed is None:
            expected = [output / reference for output in each.expected]
            axes.plot(times_ms, expected, color="black", linewidth=0.6, linestyle="--", zorder=4)


def _shade(number: int) -> str:
    return SHADES[number % len(SHADES)]


def _tuning(comparison: Comparison, found: Tried) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        _surface(figure, left, comparison)
        curves = zip(comparison.round_trips_ns, found.outputs, strict=True)
        for number, (round_trip_ns, outputs) in enumerate(curves):
            right.plot(
                [n * comparison.period_ns * MS_PER_NS for n in range(len(outputs))],
                [output / comparison.reference for output in outputs],
                color=_shade(number),
                label=f"{round_trip_ns * MS_PER_NS:g} ms",
            )
        right.legend(title="round trip", loc="lower right")
        right.set_ylim(*SHOWN)
        right.set_xlabel("time, ms")
        right.set_ylabel("output of the plant, in parts of the step")

    return draw


def _surface(figure: Figure, axes: pictures.Axes, comparison: Comparison) -> None:
    """The separation at each point of the first grid."""
    surface = comparison.surface
    kps = sorted({gains.kp for gains in surface})
    kis = sorted({gains.ki_per_s for gains in surface})
    values = [
        [math.nan if (s := surface[Gains(kp, ki)]) is None else s * MS_PER_S for ki in kis]
        for kp in kps
    ]
    mesh = axes.pcolormesh(
        [*map(float, kis)], [*map(float, kps)], values, shading="nearest", cmap="cividis"
    )
    figure.colorbar(mesh, ax=axes, label="separation, ms", location="top")
    for name, its in comparison.by_name.items():
        marker = "D" if its is comparison.found else "o"
        place = float(its.gains.ki_per_s), float(its.gains.kp)
        axes.plot(*place, marker, color=pictures.ORANGE, markeredgecolor="white", label=name)
    axes.legend(loc="upper left", frameon=True)
    axes.set_xlabel("ki, 1/s")
    axes.set_ylabel("kp")
