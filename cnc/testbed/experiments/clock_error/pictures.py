"""The picture of a clock error: how many frames are late, and how late the worst is, over it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.experiment import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cnc.testbed.experiments.clock_error.figures import Point

US_PER_NS = 1e-3
PERCENT = 100
SIDES = (
    (-1, "clock behind, gates late", "o-", pictures.BLUE),
    (1, "clock ahead, gates early", "s--", pictures.ORANGE),
)


def clock_error_pictures(points: Sequence[Point], planned_ns: int) -> list[Picture]:
    """One. Its scales are linear up to 1 µs, and logarithmic beyond."""
    return [
        Picture(
            "clock-error",
            "Late frames, and how far the worst frame was from its bound, over the error of the "
            "clock. Shaded: the error that the network was planned for.",
            _over_errors(points, planned_ns),
        )
    ]


def _over_errors(points: Sequence[Point], planned_ns: int) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        share, worst = figure.subplots(2, sharex=True)
        for axes in share, worst:
            axes.axvspan(0, planned_ns * US_PER_NS, color=pictures.GREEN, alpha=0.15, linewidth=0)
        worst.axhline(0, color="black", linewidth=1)
        worst.annotate(
            "bound",
            (1, 0),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
        )
        for sign, label, style, colour in SIDES:
            side = sorted(
                (point for point in points if point.error_ns * sign >= 0),
                key=lambda point: abs(point.error_ns),
            )
            errors = [abs(point.error_ns) * US_PER_NS for point in side]
            late = [PERCENT * (point.late + point.lost) / point.frames for point in side]
            beyond = [
                math.nan
                if point.worst_over_bound_ns is None
                else point.worst_over_bound_ns * US_PER_NS
                for point in side
            ]
            share.plot(errors, late, style, color=colour, linewidth=1, label=label)
            worst.plot(errors, beyond, style, color=colour, linewidth=1)
        share.set_ylabel("late or lost, %")
        share.set_ylim(-4, PERCENT + 4)
        share.legend(loc="upper left")
        worst.set_ylabel("worst beyond\nits bound, µs")
        worst.set_yscale("symlog", linthresh=1)
        low, high = worst.dataLim.intervaly
        worst.set_ylim(min(1.5 * low, -1.5), max(2.5 * high, 1.5))
        worst.yaxis.set_major_formatter("{x:g}")
        worst.set_xscale("symlog", linthresh=1)
        ticks = sorted({abs(point.error_ns) * US_PER_NS for point in points})
        # Matplotlib leaves a lot of room beside values near zero.
        worst.set_xlim(-0.05, 1.15 * ticks[-1])
        worst.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        worst.set_xticks([], minor=True)
        worst.set_xlabel("error of the clock, µs")

    return draw
