"""The picture of cyclic queuing: how many frames took how many intervals, by switches crossed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.experiment import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cnc.testbed.experiments.cyclic_queuing.figures import Way

BINS_PER_INTERVAL = 20
PERCENT = 100


def cyclic_queuing_pictures(ways: Sequence[Way]) -> list[Picture]:
    """One, of ways in the order of the switches that they cross."""
    return [
        Picture(
            "cyclic-queuing",
            "How long frames took, in intervals T, over h switches. Dashed: h - 1 and h + 1, as "
            "annex T of IEEE 802.1Q has it; orange: the least bound of the plan.",
            _distributions([way for way in ways if way.measured.latencies_ns]),
        )
    ]


def _distributions(ways: Sequence[Way]) -> Callable[[Figure], None]:
    groups = [(h, [*its]) for h, its in groupby(ways, key=lambda way: way.measured.switches)]

    def draw(figure: Figure) -> None:
        panels = figure.subplots(len(groups), sharex=True, squeeze=False)[:, 0]
        last = max(h for h, _ in groups) + 2
        for axes, (switches, its) in zip(panels, groups, strict=True):
            took = [
                time_ns / way.interval_ns for way in its for time_ns in way.measured.latencies_ns
            ]
            bins = [number / BINS_PER_INTERVAL for number in range(last * BINS_PER_INTERVAL + 1)]
            weights = [PERCENT / len(took)] * len(took)
            axes.hist(took, bins=bins, weights=weights, color=pictures.BLUE)
            for edge in (switches - 1, switches + 1):
                axes.axvline(edge, color=pictures.GREY, linestyle="--", linewidth=1)
            least = min(way.measured.bound_ns / way.interval_ns for way in its)
            axes.axvline(least, color=pictures.ORANGE, linewidth=2)
            axes.set_ylabel(f"h = {switches}\n% of frames")
            axes.set_xlim(1, last)
        panels[-1].set_xlabel("latency, T")

    return draw
