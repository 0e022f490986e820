"""A path that fails under a transfer, and returns: how long nothing arrives, by mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, pairwise
from pathlib import Path

from cnc.model import NS_PER_S
from cnc.support.format import duration, rate
from cnc.testbed.experiments.experiment import Progress, Report, Sheet, read_rows
from cnc.testbed.experiments.multipath.description import ReliabilityDescription
from cnc.testbed.experiments.multipath.over_uplinks import OverUplinks
from cnc.testbed.experiments.multipath.pictures import reliability_picture
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab

COLUMNS = ("mode", "at_ns", "octets", "counters")
SINGLE_PATH = "single-path"
MODES = (SINGLE_PATH, "reliability", "hassle-free")
BITS, BPS_PER_MBPS = 8, 1e6
AS_GOOD_AS = 0.9

Samples = Sequence[tuple[int, int]]  # octets that have come since the sample before, by instant


@dataclass(frozen=True, slots=True)
class Transfer:
    """A transfer in one mode: the longest time without progress, rates before and while the path
    fails, and how long after its return the rate is the one before; None: not until the end."""

    mode: str
    stalled_ns: int
    before_bps: int
    outage_bps: int
    again_ns: int | None


class Reliability(OverUplinks[ReliabilityDescription]):
    """The experiment of a file of kind reliability."""

    columns = COLUMNS

    def rows(self, running: Lab, progress: Progress) -> Iterator[tuple[object, ...]]:
        """Transfer in each mode, while the uplink that is no backup fails."""
        for mode in MODES:
            progress(f"a path fails, {mode}")
            self.uplinks.push(running, mode=mode)
            before = self.uplinks.counters(running)
            *samples, (at_ns, octets) = self._transfer(running)
            yield from ((mode, *sample, "") for sample in samples)
            yield mode, at_ns, octets, self.uplinks.counted_since(before, running)

    def _transfer(self, running: Lab) -> Iterator[tuple[int, int]]:
        its, uplinks = self.description, self.uplinks
        first = uplinks.links[0].source.port
        with uplinks.download(running, uplinks.addresses[0]) as download:
            until_ns = 0
            for span_ns, lost in (
                (its.before_ns, None),
                (its.outage_ns, first),
                (its.after_ns, None),
            ):
                uplinks.shape(running, its.rates_bps, its.queue, lost=lost)
                until_ns += span_ns
                yield from download.samples(until_ns)

    def report(self, directory: Path, platform: Platform) -> Report:
        its = self.description
        samples = {
            mode: [(int(row["at_ns"]), int(row["octets"])) for row in rows]
            for mode, rows in groupby(read_rows(directory), lambda row: row["mode"])
        }
        transfers = [self._measured(mode, its_own) for mode, its_own in samples.items()]
        outage_ns = its.before_ns, its.before_ns + its.outage_ns
        return Report(
            summary={"points": [asdict(each) for each in transfers]},
            sheets=[_table(transfers)],
            pictures=[reliability_picture(samples, outage_ns)],
            disagreements=[*self._disagreements(transfers)] if platform.exact else [],
            remarks=self._remarks(platform),
            modelled=self.uplinks.modelled(platform),
        )

    def _measured(self, mode: str, samples: Samples) -> Transfer:
        its = self.description
        back_ns = its.before_ns + its.outage_ns
        came_ns = [0, *(at_ns for at_ns, octets in samples if octets), samples[-1][0]]
        before_bps = _bps(samples, 0, its.before_ns)
        return Transfer(
            mode,
            max(later - earlier for earlier, later in pairwise(came_ns)),
            before_bps,
            _bps(samples, its.before_ns, back_ns),
            _again_ns(samples, back_ns, before_bps),
        )

    def _disagreements(self, transfers: Sequence[Transfer]) -> Iterator[str]:
        its = self.description
        for each in transfers:
            if each.mode == SINGLE_PATH:
                if each.stalled_ns < its.outage_ns:
                    yield (
                        f"{each.mode}: {duration(each.stalled_ns)} without progress, at least the "
                        f"{duration(its.outage_ns)} expected for which its path fails"
                    )
            elif each.stalled_ns > its.stall_ns:
                yield (
                    f"{each.mode}: {duration(each.stalled_ns)} without progress, at most "
                    f"{duration(its.stall_ns)} expected"
                )

    def _remarks(self, platform: Platform) -> list[str]:
        its = self.description
        first, second = map(rate, its.rates_bps)
        return [
            (
                f"Uplinks of {first} and {second}, the second a backup. The first loses all "
                f"frames, in both directions and without notice, from {duration(its.before_ns)} "
                f"until {duration(its.before_ns + its.outage_ns)} after the beginning. "
                f"{its.queue:,} frames wait before an uplink. Again: a second begins in which "
                f"{AS_GOOD_AS:.0%} of the rate before come."
            ),
            *self.uplinks.remarks(platform),
        ]


def _bps(samples: Samples, from_ns: int, until_ns: int) -> int:
    octets = sum(octets for at_ns, octets in samples if from_ns < at_ns <= until_ns)
    return BITS * NS_PER_S * octets // (until_ns - from_ns)


def _again_ns(samples: Samples, back_ns: int, before_bps: int) -> int | None:
    """How long after the return of the path a second begins in which as good as the rate before
    comes."""
    return next(
        (
            at_ns - back_ns
            for at_ns, _ in samples
            if back_ns <= at_ns <= samples[-1][0] - NS_PER_S
            and _bps(samples, at_ns, at_ns + NS_PER_S) >= AS_GOOD_AS * before_bps
        ),
        None,
    )


def _table(transfers: Sequence[Transfer]) -> Sheet:
    return Sheet(
        "A transfer under which a path fails, by mode",
        [
            *("mode", ">without progress, s", ">before, Mb/s", ">while it fails, Mb/s"),
            ">again after, s",
        ],
        [
            [
                each.mode,
                f"{each.stalled_ns / NS_PER_S:.2f}",
                *(f"{bps / BPS_PER_MBPS:.1f}" for bps in (each.before_bps, each.outage_bps)),
                "–" if each.again_ns is None else f"{each.again_ns / NS_PER_S:.1f}",  # noqa: RUF001
            ]
            for each in transfers
        ],
    )
