"""Pictures of what two uplinks carry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from cnc.model import NS_PER_S
from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.experiment import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cnc.testbed.experiments.multipath.aggregation import Pair
    from cnc.testbed.experiments.multipath.on_demand import Ways
    from cnc.testbed.experiments.multipath.reliability import Samples

COLOURS = (pictures.GREY, pictures.BLUE, pictures.ORANGE, pictures.GREEN)
BITS, BPS_PER_MBPS = 8, 1e6
STEP_NS = 200_000_000


def aggregation_picture(pairs: Sequence[Pair]) -> Picture:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        places = range(len(pairs))
        first = [pair.first_bps / BPS_PER_MBPS for pair in pairs]
        second = [pair.second_bps / BPS_PER_MBPS for pair in pairs]
        together = [pair.together_bps / BPS_PER_MBPS for pair in pairs]
        left, right = ([place + by for place in places] for by in (-0.2, 0.2))
        axes.bar(left, first, 0.4, color=pictures.GREY, label="first alone")
        axes.bar(left, second, 0.4, first, color=pictures.ORANGE, label="second alone")
        axes.bar(right, together, 0.4, color=pictures.BLUE, label="together")
        axes.set_xticks(places, [pair.name.replace(" and ", "\n") for pair in pairs], fontsize=8)
        axes.set_ylabel("Mb/s of data")
        pictures.legend_above(axes, 3)

    return Picture(
        "aggregation",
        "What two uplinks carry, each alone on the left, together on the right.",
        draw,
    )


def on_demand_picture(ways: Ways, names: Mapping[str, str]) -> Picture:
    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        for colour, (way, moments) in zip(COLOURS, ways.items(), strict=True):
            times_s = [each.at_ns / NS_PER_S for each in moments]
            ahead_s = [each.ahead_ns / NS_PER_S for each in moments]
            second_mb = [each.second_octets / 1e6 for each in moments]
            left.plot(times_s, ahead_s, color=colour, linewidth=1, label=names[way])
            right.plot(times_s, second_mb, color=colour)
        left.set_ylabel("loaded ahead of what is played, s")
        right.set_ylabel("by the second path, MB")
        for axes in (left, right):
            axes.set_xlabel("time, s")
        handles = left.get_legend_handles_labels()
        columns = len(ways)
        figure.legend(*handles, loc="outside upper center", ncols=columns, fontsize=8)

    return Picture(
        "on-demand",
        "Left: how far ahead of what is played the medium is loaded. Right: what the second "
        "path has carried.",
        draw,
    )


def reliability_picture(transfers: Mapping[str, Samples], outage_ns: tuple[int, int]) -> Picture:
    return Picture(
        "reliability",
        f"What arrives every {STEP_NS / NS_PER_S:g} s, in each mode. Grey: the first path fails.",
        _over_time(transfers, outage_ns),
    )


def _over_time(
    transfers: Mapping[str, Samples], outage_ns: tuple[int, int]
) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        panels = figure.subplots(len(transfers), 1, sharex=True, sharey=True)
        for colour, axes, (mode, samples) in zip(
            COLOURS[1:], panels, transfers.items(), strict=True
        ):
            octets = [0] * (samples[-1][0] // STEP_NS)
            for at_ns, its in samples:
                octets[min(at_ns // STEP_NS, len(octets) - 1)] += its
            rates = [BITS * its * NS_PER_S / STEP_NS / BPS_PER_MBPS for its in octets]
            times_s = [number * STEP_NS / NS_PER_S for number in range(len(octets) + 1)]
            axes.axvspan(*(each / NS_PER_S for each in outage_ns), color="#e6e6e6")
            axes.stairs(rates, times_s, color=colour)
            axes.set_title(mode, fontsize=10, loc="left")
        figure.supylabel("Mb/s of data", fontsize=10)
        panels[-1].set_xlabel("time, s")

    return draw
