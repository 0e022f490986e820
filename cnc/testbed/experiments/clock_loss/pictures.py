"""The pictures of lost clocks: offsets while the grandmaster is away, and frames of a clock that
runs off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from cnc.model import NS_PER_S
from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.experiment import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cnc.testbed.experiments.clock_loss.figures import Part, Turn

US_PER_NS = 1e-3
S_PER_NS = 1 / NS_PER_S
COLOURS = (pictures.BLUE, pictures.ORANGE, pictures.GREEN, pictures.GREY, "#cc79a7", "#e69f00")
LINES, MARKERS = ("-", "--", ":"), (".", "x", "+")  # of those that have the same colour


def clock_loss_pictures(
    away: Part, events_ns: Mapping[str, int], turns: Sequence[Turn], allowed_ns: int
) -> list[Picture]:
    """One of the part without a grandmaster, and one of each turn."""
    return [
        Picture(
            "grandmaster-away",
            "True offsets of the clocks from the first switch's, whose ptp4l is killed and comes "
            "back. Shaded: the error that the network was planned for.",
            _of_offsets(away, events_ns, allowed_ns),
        ),
        *(
            Picture(
                f"runs-off-{'ahead' if turn.rate_ppb > 0 else 'behind'}-{abs(turn.rate_ppb)}ppb",
                f"How far each frame was from its bound while the clock of {turn.switch} ran off "
                f"by {turn.rate_ppb / 1000:+g} ppm, over the error of the clock. Broken lines: the "
                "errors with which first frames were predicted to be late.",
                _of_frames(turn, allowed_ns),
            )
            for turn in turns
        ),
    ]


def _of_offsets(
    part: Part, events_ns: Mapping[str, int], allowed_ns: int
) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        reference, *others = part.nodes
        times_ns, reference_ns = part.offsets.series(reference)
        allowed_us = allowed_ns * US_PER_NS
        axes.axhspan(-allowed_us, allowed_us, color=pictures.GREEN, alpha=0.12, linewidth=0)
        for number, node in enumerate(others):
            _, offsets_ns = part.offsets.series(node)
            axes.plot(
                [time_ns * S_PER_NS for time_ns in times_ns],
                [(a - b) * US_PER_NS for a, b in zip(offsets_ns, reference_ns, strict=True)],
                LINES[number // len(COLOURS) % len(LINES)],
                color=COLOURS[number % len(COLOURS)],
                linewidth=1,
                label=node,
            )
        for label, time_ns in events_ns.items():
            axes.axvline(time_ns * S_PER_NS, color="black", linewidth=1, linestyle="--")
            axes.annotate(
                f"ptp4l of {reference} {label}",
                (time_ns * S_PER_NS, 0.02),
                xycoords=("data", "axes fraction"),
                xytext=(3, 0),
                textcoords="offset points",
                fontsize=8,
            )
        axes.set_xlabel("time, s")
        axes.set_ylabel(f"ahead of {reference}, µs")
        pictures.legend_above(axes, len(others))

    return draw


def _of_frames(turn: Turn, allowed_ns: int) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.axvspan(0, allowed_ns * US_PER_NS, color=pictures.GREEN, alpha=0.12, linewidth=0)
        axes.axhline(0, color="black", linewidth=1)
        for number, its in enumerate(turn.part.streams):
            colour = COLOURS[number % len(COLOURS)]
            axes.plot(
                [(turn.error_ns(due_ns) or 0) * US_PER_NS for due_ns, _ in its.over_bound_ns],
                [over_ns * US_PER_NS for _, over_ns in its.over_bound_ns],
                MARKERS[number // len(COLOURS) % len(MARKERS)],
                markersize=8 - 6 * number / len(turn.part.streams),  # they lie upon each other
                color=colour,
                label=its.stream,
            )
            if (predicted_ns := turn.predicted.get(its.stream)) is not None:
                axes.axvline(predicted_ns * US_PER_NS, color=colour, linewidth=1, linestyle="--")
        axes.set_yscale("symlog", linthresh=10)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_xlabel(f"error of the clock of {turn.switch}, µs")
        axes.set_ylabel("beyond the bound, µs")
        pictures.legend_above(axes, len(turn.part.streams))

    return draw
