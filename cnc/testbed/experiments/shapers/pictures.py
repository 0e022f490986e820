"""The picture of shapers: how long frames of each stream took, and the bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cnc.support.format import microseconds
from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.experiment import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cnc.testbed.experiments.beside_load import Measured

BINS = 100
PERCENT = 100
_BESIDE = 1.02  # of the bound: where the axis ends


def shapers_pictures(found: Sequence[Measured]) -> list[Picture]:
    """One, a panel for each stream at each listener."""
    return [
        Picture(
            "shapers",
            "How long frames took, as a part of the bound of their stream (orange), with the "
            "theory that it follows from.",
            _distributions([its for its in found if its.latencies_ns]),
        )
    ]


def _distributions(found: Sequence[Measured]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        panels = figure.subplots(max(1, len(found)), sharex=True, squeeze=False)[:, 0]
        for axes, its in zip(panels, found, strict=False):
            took = [PERCENT * time_ns / its.bound_ns for time_ns in its.latencies_ns]
            weights = [PERCENT / len(took)] * len(took)
            axes.hist(took, bins=range(BINS + 1), weights=weights, color=pictures.BLUE)
            axes.axvline(PERCENT, color=pictures.ORANGE, linewidth=2)
            axes.set_xlim(0, PERCENT * _BESIDE)
            told = f"{its.name}\n{its.planned.theory}, {microseconds(its.bound_ns)} µs"
            axes.set_ylabel(told, rotation=0, ha="right", va="center", fontsize="small")
            axes.tick_params(labelsize="small")
        panels[-1].set_xlabel("latency, % of the bound; upwards: % of the frames")

    return draw
