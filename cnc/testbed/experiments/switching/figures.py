"""The figures of switching: how far packets of one turn were apart, and in what order the ways are.

The jitter of a packet is how far its time, from the talker's program to the listener's kernel, is
from the median of its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cnc.support.format import duration

CABLE, BRIDGE, XDP, AF_XDP = "cable", "bridge", "xdp", "af-xdp"
NAMES = {CABLE: "no switch", BRIDGE: "Linux bridge", XDP: "XDP redirect", AF_XDP: "AF_XDP"}
SWITCHES = (BRIDGE, XDP, AF_XDP)
PERCENT = 100


@dataclass(frozen=True, slots=True)
class Turn:
    """The packets of one way of switching in one round, of which at least one arrived, beside so
    many `busy` programs: their times, and how late the talker woke for each, arrived or not."""

    number: int
    way: str
    busy: int
    took_ns: Sequence[int]
    late_ns: Sequence[int]

    @property
    def lost(self) -> int:
        return len(self.late_ns) - len(self.took_ns)

    @property
    def median_ns(self) -> int:
        return quantile_ns(sorted(self.took_ns), 500)

    def jitter_ns(self) -> list[int]:
        """Of each packet that arrived, from the least to the greatest."""
        median_ns = self.median_ns
        return sorted(abs(took_ns - median_ns) for took_ns in self.took_ns)


@dataclass(frozen=True, slots=True)
class Jitter:
    """That of a turn, or of several."""

    p50_ns: int
    p99_ns: int
    max_ns: int

    @classmethod
    def of(cls, turns: Sequence[Turn]) -> Jitter:
        ordered = sorted(jitter_ns for turn in turns for jitter_ns in turn.jitter_ns())
        return cls(*(quantile_ns(ordered, per_mille) for per_mille in (500, 990, 1_000)))


def quantile_ns(ordered: Sequence[int], per_mille: int) -> int:
    """What so many of a thousand keep to."""
    return ordered[-(-len(ordered) * per_mille // 1_000) - 1]


# What the paper says of its figure 3: of the jitters of SWITCHES, in their order.
def _same_maximum(bridge: Jitter, _: Jitter, af_xdp: Jitter, alike_percent: int) -> bool:
    apart_ns = abs(bridge.max_ns - af_xdp.max_ns)
    return PERCENT * apart_ns <= alike_percent * max(bridge.max_ns, af_xdp.max_ns)


def _af_xdp_better(bridge: Jitter, _: Jitter, af_xdp: Jitter, __: int) -> bool:
    return af_xdp.p50_ns < bridge.p50_ns


def _xdp_best_median(bridge: Jitter, xdp: Jitter, af_xdp: Jitter, _: int) -> bool:
    return xdp.p50_ns < min(bridge.p50_ns, af_xdp.p50_ns)


def _xdp_best_maximum(bridge: Jitter, xdp: Jitter, af_xdp: Jitter, _: int) -> bool:
    return xdp.max_ns < min(bridge.max_ns, af_xdp.max_ns)


CLAIMS: Mapping[str, Callable[[Jitter, Jitter, Jitter, int], bool]] = {
    "bridge and AF_XDP have the same maximum": _same_maximum,
    "AF_XDP has a better median than the bridge": _af_xdp_better,
    "XDP has the best median": _xdp_best_median,
    "XDP has the best maximum": _xdp_best_maximum,
}
ALL = "all of that in one round"


@dataclass(frozen=True, slots=True)
class Verdict:
    """In how many of `rounds` a claim of the paper held, beside so many busy programs."""

    claim: str
    busy: int
    held: int
    rounds: int

    @property
    def is_shown(self) -> bool:
        return self.rounds > 0 and self.held == self.rounds

    def document(self) -> dict[str, Any]:
        its = {"claim": self.claim, "busy": self.busy, "held": self.held, "rounds": self.rounds}
        return {**its, "shown": self.is_shown}


def verdicts(turns: Sequence[Turn], alike_percent: int) -> Iterator[Verdict]:
    """On each claim and on all together, of the rounds in which all three ways were measured."""
    for busy in dict.fromkeys(turn.busy for turn in turns):
        rounds: dict[int, dict[str, Jitter]] = {}
        for turn in turns:
            if turn.busy == busy:
                rounds.setdefault(turn.number, {})[turn.way] = Jitter.of([turn])
        held = [_held(its, alike_percent) for its in rounds.values() if set(SWITCHES) <= its.keys()]
        for claim in CLAIMS:
            yield Verdict(claim, busy, sum(its[claim] for its in held), len(held))
        yield Verdict(ALL, busy, sum(all(its.values()) for its in held), len(held))


def _held(jitters: Mapping[str, Jitter], alike_percent: int) -> Mapping[str, bool]:
    bridge, xdp, af_xdp = (jitters[way] for way in SWITCHES)
    return {claim: holds(bridge, xdp, af_xdp, alike_percent) for claim, holds in CLAIMS.items()}


# How late the talker woke: below each of these, and beyond the last.
_BINS_NS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)


def lateness_bins(late_ns: Sequence[int]) -> Mapping[str, int]:
    """How many instants the talker woke late by so much."""
    found = {}
    least_ns = 0
    for most_ns in _BINS_NS:
        found[f"below {duration(most_ns)}"] = sum(least_ns <= max(0, n) < most_ns for n in late_ns)
        least_ns = most_ns
    found[f"{duration(least_ns)} and more"] = sum(n >= least_ns for n in late_ns)
    return found
