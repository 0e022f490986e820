"""Pictures of signals at the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.edge_intelligence.figures import RAMP, TOGGLE, Run
from cnc.testbed.experiments.experiment import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

S_PER_NS = 1e-9
NAMES = {"none": "no prediction", "hold": "hold", "line": "line"}
COLOURS = {"none": pictures.ORANGE, "hold": pictures.BLUE, "line": pictures.GREEN}


def edge_intelligence_pictures(runs: Sequence[Run], period_ns: int) -> list[Picture]:
    toggles = [each for each in runs if each.signal == TOGGLE]
    ramps = [each for each in runs if each.signal == RAMP]
    return [
        Picture(
            "toggles",
            "A signal that changes at each interval, at the device: over a cable that loses "
            "nothing, over a lossy one, and over that with an edge that holds the last value.",
            _each_in_a_panel(toggles, period_ns),
        ),
        Picture(
            "ramp",
            "A ramp at the device, over the lossy cable, in grey the ramp itself.",
            _each_in_a_panel(ramps, period_ns),
        ),
    ]


def _each_in_a_panel(runs: Sequence[Run], period_ns: int) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        every = figure.subplots(len(runs), 1, sharex=True, sharey=True)
        for axes, each in zip(every, runs, strict=True):
            times_s = [n * period_ns * S_PER_NS for n in range(len(each.periods))]
            if each.signal == RAMP:
                axes.plot(times_s, each.truth, color=pictures.GREY, linewidth=3, alpha=0.4)
            positions = [period.position for period in each.periods]
            axes.step(times_s, positions, where="post", color=COLOURS[each.predictor], linewidth=1)
            lost = f"{each.loss_percent} % lost" if each.loss_percent else "nothing lost"
            axes.set_title(f"{lost}, {NAMES[each.predictor]}", fontsize=10, loc="left")
        figure.supylabel("position of the device", fontsize=10)
        every[-1].set_xlabel("time, s")

    return draw
