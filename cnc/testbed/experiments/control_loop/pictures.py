"""Pictures of step responses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cnc.loops.model import Loop, PythonPlant
from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.control_loop.figures import NAMES, Point
from cnc.testbed.experiments.experiment import Picture
from cnc.testbed.traffic.loop.run import Curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MS_PER_NS = 1e-6
US_PER_NS = 1e-3
SHOWN = (-0.6, 2.6)  # of the step: what leaves this has left every use
# From light to dark with the load, and from wide to narrow: equal curves are stripes of one.
WIDEST = 6
SHADES = ("#9ecae1", "#6baed6", "#3182bd", "#d55e00", "#7a1f00")


def step_response_picture(curve: Curve, undisturbed: Sequence[Sequence[float]]) -> Picture:
    """The outputs of one run, beside those over a network that is always in time."""

    def draw(figure: Figure) -> None:
        times = [period.sampled_ns * MS_PER_NS for period in curve.periods]
        outputs = [*zip(curve.axes, undisturbed, output_names(curve.loop), strict=True)]
        every = figure.subplots(len(outputs), sharex=True, squeeze=False)[:, 0]
        for axes, (measured, ideal, name) in zip(every, outputs, strict=True):
            axes.plot(times, ideal, color=pictures.GREY, linewidth=3, alpha=0.4, label="ideal")
            axes.plot(times, measured, ".-", color=pictures.BLUE, linewidth=1, label="measured")
            axes.set_ylabel(name)
        every[-1].set_xlabel("time, ms")
        pictures.legend_above(every[0])

    name = curve.loop.name
    return Picture("step-response", f"Output of the plant of loop {name} at its samples.", draw)


def output_names(loop: Loop) -> list[str]:
    """What is beside the curve of each output."""
    if isinstance(loop.plant, PythonPlant):
        return [*loop.plant.outputs]
    return ["output of the plant"]


def control_loop_pictures(points: Sequence[Point], planned_ns: int) -> list[Picture]:
    return [
        Picture(
            "step-responses",
            "The same control loop over one network that is run in three ways, beside other frames "
            "that take up to 130 % of a link.",
            _step_responses(points),
        ),
        Picture(
            "loop-delays",
            "The longest time from a sample until its command was at the plant, and what the plan "
            "says of it.",
            _delays(points, planned_ns),
        ),
    ]


def _by_network(points: Sequence[Point]) -> dict[str, list[Point]]:
    return {name: [p for p in points if p.network == name] for name in NAMES}


def _step_responses(points: Sequence[Point]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        loop = points[0].curve.loop
        names = output_names(loop)
        every = figure.subplots(len(names), len(NAMES), sharey="row", sharex=True, squeeze=False)
        networks = _by_network(points)
        for output, (row, output_name) in enumerate(zip(every, names, strict=True)):
            step = float(loop.reference) if output == 0 else 1.0
            for axes, its in zip(row, networks.values(), strict=True):
                for number, point in enumerate(its):
                    axes.plot(
                        [period.sampled_ns * MS_PER_NS for period in point.curve.periods],
                        [each / step for each in point.curve.axes[output]],
                        color=SHADES[number * (len(SHADES) - 1) // max(len(its) - 1, 1)],
                        linewidth=WIDEST - (WIDEST - 1) * number / max(len(its) - 1, 1),
                        label=f"{point.load} %",
                    )
            row[0].set_ylabel(output_name)
        # Where there are several, each has a part of the height.
        of_step = ", in parts of the step" if len(names) == 1 else " / step"
        every[0][0].set_ylabel(f"{names[0]}{of_step}")
        for top, bottom, network in zip(every[0], every[-1], networks, strict=True):
            top.set_title(NAMES[network], fontsize=10)
            top.set_ylim(*SHOWN)
            bottom.set_xlabel("time, ms")
        if len(names) == 1:
            every[0][-1].legend(title="other frames", loc="upper right")
        else:
            every[-1][-1].legend(title="other frames", loc="lower right", fontsize="small", ncols=2)

    return draw


def _delays(points: Sequence[Point], planned_ns: int) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        colours = (pictures.ORANGE, pictures.BLUE, pictures.GREEN)
        for colour, (network, its) in zip(colours, _by_network(points).items(), strict=True):
            known = [(point.load, point.delay.max_ns * US_PER_NS) for point in its if point.delay]
            axes.plot(*zip(*known, strict=True), "o-", color=colour, label=NAMES[network])
        axes.axhline(planned_ns * US_PER_NS, color=pictures.GREY, linestyle=":")
        said = f"the plan says {planned_ns * US_PER_NS:g} µs at most"
        axes.annotate(
            said,
            (1, planned_ns * US_PER_NS),
            (-4, 6),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
        )
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("other frames, % of a link")
        axes.set_ylabel("longest delay of the loop, µs")
        pictures.legend_above(axes)

    return draw
