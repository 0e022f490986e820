"""A medium that a player loads ahead, whose second path is there on demand: algorithm 1 of Singh et
al., "NexGen S-MPTCP: Next Generation Smart Multipath TCP Controller" (IEEE Access 10, 2022).

Power was not measured: the seconds in which there is a second subflow stand for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from cnc.keys.units import RATE
from cnc.model import NS_PER_S
from cnc.support.format import duration, rate
from cnc.testbed.experiments.experiment import Progress, Report, Sheet, read_rows
from cnc.testbed.experiments.multipath.description import OnDemandDescription
from cnc.testbed.experiments.multipath.over_uplinks import OverUplinks
from cnc.testbed.experiments.multipath.pictures import on_demand_picture
from cnc.testbed.experiments.multipath.uplinks import RECEIVED_OCTETS
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab

COLUMNS = (
    *("way", "at_ns", "loaded_ns", "played_ns", "subflow_ns", "first_octets", "second_octets"),
    "counters",
)
NEVER, ALWAYS, CLAIMED, PRINTED = "never", "always", "claimed", "printed"
NAMES = {
    NEVER: "never, single-path",
    ALWAYS: "always, hassle-free",
    CLAIMED: "on-demand",
    PRINTED: "on-demand as printed",
}
READ_NS = 50_000_000  # the player reads so often
SHOWN_NS = 950_000_000  # between two moments, about
BITS, PERCENT = 8, 100


@dataclass(frozen=True, slots=True)
class Moment:
    """What a player has loaded and played of the medium until an instant, and for how long there
    has been a second subflow. Octets are those of frames, by uplink."""

    at_ns: int
    loaded_ns: int
    played_ns: int
    subflow_ns: int
    first_octets: int
    second_octets: int

    @property
    def ahead_ns(self) -> int:
        return self.loaded_ns - self.played_ns

    @property
    def stalled_ns(self) -> int:
        """For how long nothing was played, from the beginning on."""
        return self.at_ns - self.played_ns

    @property
    def second_percent(self) -> float:
        return PERCENT * self.second_octets / (self.first_octets + self.second_octets)


Ways = Mapping[str, Sequence[Moment]]


class OnDemand(OverUplinks[OnDemandDescription]):
    """The experiment of a file of kind on-demand."""

    columns = COLUMNS

    def rows(self, running: Lab, progress: Progress) -> Iterator[tuple[object, ...]]:
        """Play the medium once with each way to have a second path."""
        its, uplinks = self.description, self.uplinks
        uplinks.shape(running, its.rates_bps, its.queue)
        for way, keys in self.ways().items():
            progress(f"a second path {NAMES[way]}")
            uplinks.push(running, **keys)
            before = uplinks.counters(running)
            moments = self._play(running)
            moment = next(moments)
            for following in moments:
                yield way, *asdict(moment).values(), ""
                moment = following
            counters = uplinks.counted_since(before, running)
            yield way, *asdict(moment).values(), counters

    def ways(self) -> Mapping[str, Mapping[str, Any]]:
        """The keys of `multipath` by the way to have a second path."""
        rate_ = RATE.format(self.description.media_rate_bps)
        video = {"mode": "on-demand", "media-rate": rate_}
        return {
            NEVER: {"mode": "single-path"},
            ALWAYS: {"mode": "hassle-free"},
            **{
                reading: {
                    "connections": {
                        "applications": {"video": video},
                        "on-demand": {"reading": reading},
                    }
                }
                for reading in (CLAIMED, PRINTED)
            },
        }

    def _play(self, running: Lab) -> Iterator[Moment]:
        """Load the medium; a moment of each second, and the last one."""
        its = self.description
        octets = at_ns = shown_ns = played_ns = subflow_ns = 0
        before = self.uplinks.received_octets(running)
        with self.uplinks.download(running, self.uplinks.addresses[0]) as download:
            while (loaded_ns := octets * BITS * NS_PER_S // its.media_rate_bps) < its.duration_ns:
                if loaded_ns - played_ns < its.ahead_ns:
                    octets += download.receive(RECEIVED_OCTETS)
                    loaded_ns = octets * BITS * NS_PER_S // its.media_rate_bps
                passed_ns, at_ns = -at_ns, download.wait(READ_NS)
                passed_ns += at_ns
                played_ns = min(loaded_ns, played_ns + passed_ns)
                subflow_ns += passed_ns * (download.subflows - 1)
                if at_ns - shown_ns >= SHOWN_NS or loaded_ns >= its.duration_ns:
                    shown_ns = at_ns
                    carried = zip(before, self.uplinks.received_octets(running), strict=True)
                    by_uplink = [now - then for then, now in carried]
                    yield Moment(at_ns, loaded_ns, played_ns, subflow_ns, *by_uplink)

    def report(self, directory: Path, platform: Platform) -> Report:
        ways = _ways(directory)
        last = {way: moments[-1] for way, moments in ways.items()}
        return Report(
            summary={"points": [_document(way, each) for way, each in last.items()]},
            sheets=[_table(last)],
            pictures=[on_demand_picture(ways, NAMES)],
            disagreements=[*self._disagreements(last)] if platform.exact else [],
            remarks=self._remarks(platform),
            modelled=self.uplinks.modelled(platform),
        )

    def _disagreements(self, last: Mapping[str, Moment]) -> Iterator[str]:
        its, claimed, always = self.description, last[CLAIMED], last[ALWAYS]
        if claimed.second_percent > its.share:
            yield (
                f"{NAMES[CLAIMED]}: {claimed.second_percent:.1f} % by the second path, at most "
                f"{its.share} % expected"
            )
        if claimed.stalled_ns > always.stalled_ns + its.stall_ns:
            yield (
                f"{NAMES[CLAIMED]}: stalled for {duration(claimed.stalled_ns)}, at most "
                f"{duration(its.stall_ns)} more than the {duration(always.stalled_ns)} with "
                "both paths expected"
            )
        if claimed.subflow_ns >= always.subflow_ns:
            yield f"{NAMES[CLAIMED]}: a second subflow for no less time than always"

    def _remarks(self, platform: Platform) -> list[str]:
        its = self.description
        first, second = map(rate, its.rates_bps)
        return [
            (
                f"A medium of {rate(its.media_rate_bps)} and {duration(its.duration_ns)}, which a "
                f"player loads up to {duration(its.ahead_ns)} ahead, by uplinks of {first} and "
                f"{second}. Stalls count from the beginning on. {its.queue:,} frames "
                "wait before an uplink."
            ),
            "Power was not measured: the seconds in which there is a second subflow stand for it.",
            *self.uplinks.remarks(platform),
        ]


def _ways(directory: Path) -> Ways:
    return {
        way: [Moment(*(int(row[column]) for column in COLUMNS[1:-1])) for row in rows]
        for way, rows in groupby(read_rows(directory), lambda row: row["way"])
    }


def _document(way: str, last: Moment) -> dict[str, Any]:
    return {
        "way": way,
        "second_percent": last.second_percent,
        "stalled_ns": last.stalled_ns,
        "subflow_ns": last.subflow_ns,
        "first_octets": last.first_octets,
        "second_octets": last.second_octets,
    }


def _table(last: Mapping[str, Moment]) -> Sheet:
    return Sheet(
        "A medium, by when it has a second path",
        [
            *("a second path", ">by the second path, %", ">stalled, s"),
            ">with a second subflow, s",
        ],
        [
            [
                NAMES[way],
                f"{each.second_percent:.1f}",
                f"{each.stalled_ns / NS_PER_S:.2f}",
                f"{each.subflow_ns / NS_PER_S:.0f}",
            ]
            for way, each in last.items()
        ],
    )
