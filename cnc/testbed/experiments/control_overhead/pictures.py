"""The pictures of the control overhead: over the number of switches, and the steps of a push."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from cnc.support.format import counted
from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.experiment import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cnc.testbed.experiments.control_overhead.figures import Point

PARTS = {
    "generation_s": ("generation", pictures.BLUE),
    "netconf_s": ("NETCONF", pictures.ORANGE),
    "parsing_s": ("YANG parsing", pictures.GREEN),
}
MS_PER_S = 1e3


def control_overhead_pictures(points: Sequence[Point], steps: Mapping[str, str]) -> list[Picture]:
    """Figure 9 of the paper with ours in it, and what a push does all the time.

    `steps` has the words for each of a point's steps.
    """
    return [
        Picture(
            "control-overhead",
            "What the control plane takes over the number of switches, here and in the paper.",
            _over_switches(points),
        ),
        Picture(
            "push",
            f"Where the time of a whole push to {points[-1].switches} goes.",
            _steps(points, steps),
        ),
    ]


def _over_switches(points: Sequence[Point]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        numbers = [point.switches for point in points]
        for part, (name, colour) in PARTS.items():
            axes.plot(
                numbers,
                [getattr(point.times, part) for point in points],
                "o-",
                color=colour,
                label=f"{name}, here",
            )
            axes.plot(
                numbers,
                [getattr(point.published, part) for point in points],
                "o--",
                color=colour,
                markerfacecolor="white",
                linewidth=1,
                label=f"{name}, paper",
            )
        axes.set_yscale("log")
        axes.set_xticks(numbers)
        axes.set_xlabel("switches")
        axes.set_ylabel("seconds")
        figure.legend(loc="outside upper center", ncols=len(PARTS))

    return draw


def _steps(points: Sequence[Point], steps: Mapping[str, str]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        shown = {points[-1].switches: (points[-1], pictures.BLUE)}
        if len(points) > 1:
            shown[points[0].switches] = (points[0], pictures.GREY)
        height = 0.8 / len(shown)
        for place, (number, (point, colour)) in enumerate(shown.items()):
            bars = axes.barh(
                [row + (place - (len(shown) - 1) / 2) * height for row in range(len(steps))],
                [point.steps_s[step] * MS_PER_S for step in steps],
                height,
                color=colour,
                label=counted(number, "switch"),
            )
            axes.bar_label(bars, fmt="%.0f", padding=3, fontsize=8)
        axes.set_yticks(range(len(steps)), steps.values())
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("wall time, ms")
        axes.legend()

    return draw
