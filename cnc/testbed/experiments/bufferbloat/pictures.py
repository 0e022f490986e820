"""Pictures of what buffers cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.bufferbloat.figures import APART, NAMES, TOGETHER, Point
from cnc.testbed.experiments.experiment import Picture
from cnc.testbed.experiments.step_responses.pictures import SHADES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MS_PER_NS = 1e-6


def bufferbloat_pictures(points: Sequence[Point]) -> list[Picture]:
    return [
        Picture(
            "bufferbloat",
            "Mean latency and loss of the flow over how many frames a port of a switch holds, a "
            "line for each interval at which it is sent. Dashes: in a queue of its own.",
            _means_and_losses(points),
        )
    ]


def _means_and_losses(points: Sequence[Point]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        from matplotlib.ticker import LogLocator  # noqa: PLC0415

        left, right = figure.subplots(1, 2)
        intervals_ns = sorted({point.interval_ns for point in points})
        for queues, style in ((TOGETHER, "o-"), (APART, "s--")):
            for number, interval_ns in enumerate(intervals_ns):
                its = [p for p in points if (p.queues, p.interval_ns) == (queues, interval_ns)]
                if not its:
                    continue
                label = f"{interval_ns * MS_PER_NS:g} ms"
                label += f", {NAMES[APART]}" if queues == APART else ""
                look = {"color": pictures.GREY if queues == APART else SHADES[number % len(SHADES)]}
                buffers = [point.buffer for point in its]
                means_ms = [point.latency.mean_ns * MS_PER_NS for point in its]
                left.plot(buffers, means_ms, style, label=label, **look)
                right.plot(buffers, [point.loss_percent for point in its], style, **look)
        left.set_yscale("log")
        left.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        left.yaxis.set_major_formatter("{x:g}")
        left.set_ylabel("mean latency, ms")
        right.set_ylabel("lost, %")
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_xticks(sorted({point.buffer for point in points}))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.minorticks_off()
            axes.set_xlabel("buffer of a port, frames")
        figure.legend(
            *left.get_legend_handles_labels(),
            title="sent every",
            loc="outside upper center",
            ncols=len(intervals_ns) + 1,
            fontsize=9,
        )

    return draw
