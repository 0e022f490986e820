"""What two paths carry together, beside what each carries alone: equation (1) of Singh et al.,
"NexGen S-MPTCP: Next Generation Smart Multipath TCP Controller" (IEEE Access 10, 2022)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cnc.model import NS_PER_S
from cnc.support.format import duration, rate
from cnc.testbed.experiments.experiment import Progress, Report, Sheet, read_rows
from cnc.testbed.experiments.multipath.description import AggregationDescription
from cnc.testbed.experiments.multipath.over_uplinks import OverUplinks
from cnc.testbed.experiments.multipath.pictures import aggregation_picture
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab

COLUMNS = ("first_bps", "second_bps", "way", "octets", "lasted_ns", "counters")
FIRST, SECOND, TOGETHER = "first", "second", "together"
BITS, PERCENT, BPS_PER_MBPS = 8, 100, 1e6


@dataclass(frozen=True, slots=True)
class Pair:
    """What a pair of uplinks carries of a connection's data: each alone, and both together."""

    rates_bps: tuple[int, int]
    first_bps: int
    second_bps: int
    together_bps: int

    @property
    def of_sum_percent(self) -> float:
        return PERCENT * self.together_bps / (self.first_bps + self.second_bps)

    @property
    def name(self) -> str:
        return " and ".join(map(rate, self.rates_bps))


class Aggregation(OverUplinks[AggregationDescription]):
    """The experiment of a file of kind aggregation."""

    columns = COLUMNS

    def rows(self, running: Lab, progress: Progress) -> Iterator[tuple[object, ...]]:
        """Transfer at each pair of rates, by each uplink alone and by both."""
        uplinks = self.uplinks
        for mode, ways in (
            ("single-path", (FIRST, SECOND)),
            ("hassle-free", (TOGETHER,)),
        ):
            uplinks.push(running, mode=mode)
            for rates_bps in self.description.rates_bps:
                progress(f"{' and '.join(map(rate, rates_bps))}, {mode}")
                uplinks.shape(running, rates_bps, self.description.queue)
                for way in ways:
                    before = uplinks.counters(running)
                    measured = self._transfer(running, uplinks.addresses[way == SECOND])
                    yield *rates_bps, way, *measured, uplinks.counted_since(before, running)

    def _transfer(self, running: Lab, address: str) -> tuple[int, int]:
        """The octets that come, and in how many ns, once the connection has found its rate."""
        its = self.description
        with self.uplinks.download(running, address) as download:
            *_, (settled_ns, _) = download.samples(its.settle_ns)
            samples = [*download.samples(its.settle_ns + its.duration_ns)]
        return sum(octets for _, octets in samples), samples[-1][0] - settled_ns

    def report(self, directory: Path, platform: Platform) -> Report:
        pairs = _pairs(directory)
        return Report(
            summary={"points": [{**asdict(each), "of_sum": each.of_sum_percent} for each in pairs]},
            sheets=[_table(pairs)],
            pictures=[aggregation_picture(pairs)],
            disagreements=[*self._disagreements(pairs)] if platform.exact else [],
            remarks=self._remarks(platform),
            modelled=self.uplinks.modelled(platform),
        )

    def _disagreements(self, pairs: Sequence[Pair]) -> Iterator[str]:
        least = self.description.share
        for each in pairs:
            if each.of_sum_percent < least:
                yield (
                    f"{each.name}: together {each.of_sum_percent:.1f} % of the sum, at least "
                    f"{least} % expected"
                )
            if each.together_bps <= max(each.first_bps, each.second_bps):
                yield f"{each.name}: together no more than one of them alone"

    def _remarks(self, platform: Platform) -> list[str]:
        its = self.description
        return [
            (
                f"A server sends for {duration(its.settle_ns + its.duration_ns)}, and what the "
                f"station's program gets in the last {duration(its.duration_ns)} is counted, "
                "without any header. Rates are those of whole frames as the kernel counts them, "
                f"from the MAC header on. {its.queue:,} frames wait before an uplink."
            ),
            *self.uplinks.remarks(platform),
        ]


def _pairs(directory: Path) -> list[Pair]:
    found: dict[tuple[int, int], dict[str, int]] = {}
    for row in read_rows(directory):
        rates_bps = int(row["first_bps"]), int(row["second_bps"])
        bps = BITS * NS_PER_S * int(row["octets"]) // int(row["lasted_ns"])
        found.setdefault(rates_bps, {})[row["way"]] = bps
    return [
        Pair(rates_bps, its[FIRST], its[SECOND], its[TOGETHER]) for rates_bps, its in found.items()
    ]


def _table(pairs: Sequence[Pair]) -> Sheet:
    return Sheet(
        "What two uplinks carry alone and together",
        [
            *("rates", ">first alone, Mb/s", ">second alone, Mb/s", ">together, Mb/s"),
            ">of the sum, %",
        ],
        [
            [
                each.name,
                *(
                    f"{bps / BPS_PER_MBPS:.1f}"
                    for bps in (each.first_bps, each.second_bps, each.together_bps)
                ),
                f"{each.of_sum_percent:.1f}",
            ]
            for each in pairs
        ],
    )
