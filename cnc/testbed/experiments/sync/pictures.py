"""The pictures of a line of clocks: distances over time, and over the number of hops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from cnc.model import NS_PER_S
from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.experiment import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cnc.testbed.experiments.sync.figures import Hop
    from cnc.testbed.lab.kernels.offsets import TrueOffsets

US_PER_NS = 1e-3


def sync_pictures(
    nodes: Sequence[str],
    truth: TrueOffsets,
    events_ns: Mapping[str, int],
    hops: Sequence[Hop],
    allowed_ns: int,
) -> list[Picture]:
    """Distances over time, and over hops."""
    return [
        Picture(
            "offsets",
            "True distance of each clock from the first one's, from the start of the kernels on. "
            f"Shaded: what is allowed. The scale is linear up to {allowed_ns * US_PER_NS:g} µs.",
            _over_time(nodes, truth, events_ns, allowed_ns),
        ),
        Picture(
            "hops",
            "The same once they are in step, over the number of hops, least to greatest; what the "
            "ptp4l of each says of its neighbour, added up; and what relays may add at worst.",
            _over_hops(hops),
        ),
    ]


def _over_time(
    nodes: Sequence[str], truth: TrueOffsets, events_ns: Mapping[str, int], allowed_ns: int
) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        import matplotlib  # noqa: PLC0415

        axes = figure.subplots()
        allowed_us = allowed_ns * US_PER_NS
        axes.axhspan(-allowed_us, allowed_us, color=pictures.GREEN, alpha=0.12, linewidth=0)
        first, *others = nodes
        colours = matplotlib.colormaps["viridis"]
        for number, node in enumerate(others):
            distances = truth.distances(node, first)
            axes.plot(
                [time_ns / NS_PER_S for time_ns, _ in distances],
                [distance_ns * US_PER_NS for _, distance_ns in distances],
                color=colours(number / len(others)),
                linewidth=1,
                label=node,
            )
        for label, time_ns in events_ns.items():
            axes.axvline(time_ns / NS_PER_S, color="black", linewidth=1, linestyle="--")
            axes.annotate(
                f"{first} {label}",
                (time_ns / NS_PER_S, 0.02),
                xycoords=("data", "axes fraction"),
                xytext=(3, 0),
                textcoords="offset points",
                fontsize=8,
            )
        axes.set_yscale("symlog", linthresh=allowed_us)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("true time, s")
        axes.set_ylabel(f"ahead of {first}, µs")
        pictures.legend_above(axes, len(others))

    return draw


def _over_hops(hops: Sequence[Hop]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        numbers = [hop.number for hop in hops]
        means = [hop.mean_ns for hop in hops]
        below = [hop.mean_ns - hop.least_ns for hop in hops]
        above = [hop.greatest_ns - hop.mean_ns for hop in hops]
        axes.errorbar(
            numbers, means, [below, above], fmt="o", capsize=4, color=pictures.BLUE, label="true"
        )
        said = [hop.said_added_ns for hop in hops]
        axes.plot(numbers, said, "s--", color=pictures.ORANGE, label="ptp4l's greatest, added up")
        means_said = [hop.said_mean_ns for hop in hops]
        axes.plot(numbers, means_said, "x", color=pictures.ORANGE, label="ptp4l's mean")
        relay = [hop.relay_ns for hop in hops]
        axes.plot(numbers, relay, color=pictures.GREY, label="relay, at worst")
        axes.axhline(0, color="black", linewidth=1)
        axes.set_xticks(numbers)
        axes.set_xlabel("hops from the grandmaster")
        axes.set_ylabel("ahead of the grandmaster, ns")
        pictures.legend_above(axes)

    return draw
