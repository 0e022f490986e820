"""Pictures of echo points, and of what their differences are worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cnc.support.format import duration, rate
from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.characterizer.figures import ACCURATE, PERCENT, Accuracy, Run
from cnc.testbed.experiments.characterizer.sheets import MS_PER_NS
from cnc.testbed.experiments.experiment import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (pictures.BLUE, pictures.GREEN, pictures.ORANGE)
# By the number of the exit that a difference leads to; 0 is an entry.
KINDS = (
    ("link, there and back", pictures.GREY),
    ("work of a component", pictures.BLUE),
    ("actuator that moves", pictures.ORANGE),
)
STEEP = 1.8  # beside steeper lines there is room for a label on their left


def characterizer_pictures(run: Run, study: Sequence[Accuracy]) -> list[Picture]:
    """Of the echo points and, where accuracy was studied, of that."""
    drawn = [
        Picture(
            "echo-points",
            "Round-trip times of echo points. What one is later than the one before is the work of "
            "a component, a link there and back, or an actuator that moves.",
            _echo_points(run),
        )
    ]
    if study:
        drawn.append(
            Picture(
                "accuracy",
                "How far the measured work of a component is from what was set, with the margin at "
                "95 % confidence; the paper's values are its table II.",
                _accuracy(study),
            )
        )
    return drawn


def _echo_points(run: Run) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        times_ms = [each.mean_ns * MS_PER_NS for each in run.sampling.points]
        drawn: set[str] = set()
        for place, difference in enumerate(run.differences):
            ends_ms = times_ms[place : place + 2]
            label, colour = KINDS[min(run.points[place + 1].exit_number, len(KINDS) - 1)]
            axes.plot(
                (place, place + 1),
                ends_ms,
                color=colour,
                linewidth=2.5,
                zorder=1,
                label=None if label in drawn else label,
            )
            drawn.add(label)
            is_steep = ends_ms[1] > STEEP * ends_ms[0]
            axes.annotate(
                f"{difference.sample.mean_ns * MS_PER_NS:.3g} ms",
                (place + 0.5, (ends_ms[0] * ends_ms[1]) ** 0.5),  # on a logarithmic scale
                textcoords="offset points",
                xytext=(-4, 4) if is_steep else (0, 9),
                ha="right" if is_steep else "center",
                fontsize=9,
                color=colour,
            )
        axes.plot(range(len(times_ms)), times_ms, "o", color="black", markersize=4)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_ylim(times_ms[0] / 2, times_ms[-1] * 2)
        axes.set_xticks(
            range(len(times_ms)), [point.name.replace(" ", "\n") for point in run.points]
        )
        axes.tick_params(axis="x", labelsize=9)
        axes.set_ylabel("round trip, ms")
        axes.legend(loc="upper left")

    return draw


def _accuracy(study: Sequence[Accuracy]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        works_ns = sorted({each.component.work_ns for each in study})
        rates_bps = sorted({each.rate_bps for each in study})
        for number, rate_bps in enumerate(rates_bps):
            its = [each for each in study if each.rate_bps == rate_bps]
            aside = (number - (len(rates_bps) - 1) / 2) / (len(rates_bps) + 1)
            places = [works_ns.index(each.component.work_ns) + aside for each in its]
            colour = COLOURS[number % len(COLOURS)]
            axes.errorbar(
                places,
                [each.work.off * PERCENT for each in its],
                yerr=[each.work.sample.margin_ns / each.work.modelled_ns * PERCENT for each in its],
                fmt="o",
                color=colour,
                capsize=3,
                label=f"others send {rate(rate_bps)}",
            )
            for place, each in zip(places, its, strict=True):
                if each.published_ns is not None:
                    off = each.published_ns / each.component.work_ns - 1
                    first = "paper" if (number, place) == (0, places[0]) else None
                    axes.plot(place, off * PERCENT, "x", color=pictures.GREY, label=first)
        for limit in (-ACCURATE, ACCURATE):
            axes.axhline(limit * PERCENT, color=pictures.GREY, linewidth=0.8, linestyle=":")
        axes.set_xticks(range(len(works_ns)), [duration(work_ns) for work_ns in works_ns])
        axes.set_xlabel("set")
        axes.set_ylabel("error, %")
        pictures.legend_above(axes)

    return draw
