"""The picture of launch times: how many frames left later than so much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cnc.support.format import duration
from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.experiment import Picture
from cnc.testbed.experiments.launch_time.figures import LAUNCHES, NAMES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cnc.testbed.experiments.launch_time.figures import Point

US_PER_NS = 1e-3
COLOURS = (pictures.BLUE, pictures.ORANGE, pictures.GREEN, pictures.GREY)


def launch_time_pictures(points: Sequence[Point], *, is_drawn: bool) -> list[Picture]:
    """One; both scales are logarithmic from 1 µs on."""
    return [
        Picture(
            "launch-time",
            "How many frames left later than so much after their instant. Dashed: without a time "
            "of transmission.",
            _later(points, is_drawn=is_drawn),
        )
    ]


def _later(points: Sequence[Point], *, is_drawn: bool) -> Callable[[Figure], None]:
    beside = list(dict.fromkeys((point.lateness_ns, point.busy) for point in points))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for point in points:
            late_us = sorted(max(0, time_ns) * US_PER_NS for time_ns in point.late_ns)
            if not late_us:
                continue
            share = [100 * (len(late_us) - n) / len(late_us) for n in range(len(late_us))]
            what = (
                f"up to {duration(point.lateness_ns)} late"
                if is_drawn
                else f"{point.busy} busy programs"
            )
            axes.step(
                late_us,
                share,
                where="post",
                linestyle="-" if point.way == LAUNCHES else "--",
                color=COLOURS[beside.index((point.lateness_ns, point.busy)) % len(COLOURS)],
                label=f"{NAMES[point.way]}, {what}",
            )
        axes.set_xscale("symlog", linthresh=1)
        axes.set_yscale("log")
        axes.set_xlim(left=0)
        axes.set_xlabel("later than the instant, µs")
        axes.set_ylabel("frames, %")
        pictures.legend_above(axes)

    return draw
