"""The picture of clocks that are set: how far each is off, over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cnc.model import NS_PER_S
from cnc.support.format import duration
from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.experiment import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cnc.testbed.experiments.clock_steps.figures import Turn

_US_PER_NS = 1e-3
_COLOURS = (pictures.BLUE, pictures.ORANGE, pictures.GREEN, "#cc79a7", pictures.GREY)


def clock_steps_pictures(turns: Sequence[Turn], allowed_ns: int) -> list[Picture]:
    """One picture of all steps."""
    return [
        Picture(
            "clock-steps",
            "How far the clock that was set was from the first switch's, in true time, from the "
            "step on; either way, on a logarithmic scale. Shaded: what the plan allows.",
            _over_time(turns, allowed_ns),
        )
    ]


def _over_time(turns: Sequence[Turn], allowed_ns: int) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        allowed_us = allowed_ns * _US_PER_NS
        axes.axhspan(allowed_us / 100, allowed_us, color=pictures.GREEN, alpha=0.12, linewidth=0)
        for number, turn in enumerate(turns):
            distances = turn.distances_ns()
            axes.plot(
                [time_ns / NS_PER_S for time_ns, _ in distances],
                # A logarithm has no 0.
                [max(1, abs(off_ns)) * _US_PER_NS for _, off_ns in distances],
                color=_COLOURS[number % len(_COLOURS)],
                linewidth=1.2,
                label=f"a step of {duration(turn.push.by_ns)}",
            )
        axes.set_yscale("log")
        axes.set_ylim(bottom=allowed_us / 100)
        axes.yaxis.set_major_formatter("{x:,.10g}")
        axes.set_xlabel("true time since the step, s")
        axes.set_ylabel("off, µs")
        pictures.legend_above(axes)

    return draw
