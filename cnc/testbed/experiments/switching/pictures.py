"""Pictures of switching: cumulated shares of jitter, as in figure 3 of the paper, and the noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cnc.support.format import counted
from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.experiment import Picture
from cnc.testbed.experiments.switching.figures import AF_XDP, BRIDGE, CABLE, NAMES, XDP

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cnc.testbed.experiments.switching.figures import Turn

US_PER_NS = 1e-3
# In per cent, closer together towards the end, where the scale of times is coarser.
SHARES = [*(n / 5 for n in range(1, 490)), *(98 + n / 50 for n in range(101))]
LEAST_US = 0.01  # what is nearer to the median is drawn there: the scale is logarithmic
COLOURS = {
    CABLE: pictures.GREY,
    BRIDGE: pictures.BLUE,
    XDP: pictures.GREEN,
    AF_XDP: pictures.ORANGE,
}


def switching_pictures(turns: Sequence[Turn]) -> list[Picture]:
    """The jitter, and the noise beside it."""
    return [
        Picture(
            "switching",
            "Cumulated shares of packets over how far each was from the median of its turn, of all "
            "rounds together.",
            _panels(turns, _jitter_us, "from the median, µs"),
        ),
        Picture(
            "switching-noise",
            "How late this machine woke the talker meanwhile: what it adds to all that is measured "
            "on it.",
            _panels(turns, _late_us, "the talker woke late by, µs"),
        ),
    ]


def _jitter_us(turns: Sequence[Turn]) -> list[float]:
    return [time_ns * US_PER_NS for turn in turns for time_ns in turn.jitter_ns()]


def _late_us(turns: Sequence[Turn]) -> list[float]:
    return [time_ns * US_PER_NS for turn in turns for time_ns in turn.late_ns]


def quantile(ordered: Sequence[float], share_percent: float) -> float:
    """What so many keep to."""
    return ordered[max(0, math.ceil(len(ordered) * share_percent / 100) - 1)]


def _panels(
    turns: Sequence[Turn], figures_us: Callable[[Sequence[Turn]], list[float]], label: str
) -> Callable[[Figure], None]:
    """One for each load."""
    loads = list(dict.fromkeys(turn.busy for turn in turns))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(loads), sharey=True, squeeze=False)[0]
        for axes, busy in zip(panels, loads, strict=True):
            for way, colour in COLOURS.items():
                its = [turn for turn in turns if (turn.way, turn.busy) == (way, busy)]
                if its:
                    values_us = sorted(max(LEAST_US, each) for each in figures_us(its))
                    drawn = [quantile(values_us, share) for share in SHARES]
                    axes.plot(drawn, SHARES, color=colour, label=NAMES[way])
            axes.set_xscale("log")
            axes.set_ylim(0, 101)
            axes.set_xlabel(label)
            axes.set_title(counted(busy, "busy program") if busy else "idle", fontsize=10)
        panels[0].set_ylabel("packets, %")
        figure.legend(
            *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(COLOURS)
        )

    return draw
