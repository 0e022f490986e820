"""Arrival curves, and what gates leave of a link, in whole bits and nanoseconds (network calculus:
Le Boudec and Thiran 2001, chapters 1 and 2).

All rounding is towards later and more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from cnc.mechanisms.terms import longest_ns, outlasts_ns
from cnc.model import (
    NS_PER_S,
    ClassRole,
    GateControlList,
    Intent,
    Link,
    TrafficClass,
    transmission_max_ns,
)

WHOLE_PPB = 10**9


class Affine(NamedTuple):
    """No more than `burst_bits` and `rate_bps` for as long as it lasts come in any time."""

    burst_bits: int
    rate_bps: int

    def bits(self, time_ns: int) -> int:
        return self.burst_bits - (-self.rate_bps * time_ns // NS_PER_S)

    def plus(self, other: Affine) -> Affine:
        return Affine(self.burst_bits + other.burst_bits, self.rate_bps + other.rate_bps)


class Arrivals:
    """What comes to a queue: the sum over links of the least of each link's curves."""

    def __init__(self, by_link: Iterable[Sequence[Affine]]) -> None:
        self._by_link = [*by_link]
        bends = {0}
        for curves in self._by_link:
            for one, other in combinations(curves, 2):
                slower, faster = sorted((one, other), key=lambda its: its.rate_bps)
                apart = slower.burst_bits - faster.burst_bits
                if apart > 0 and faster.rate_bps > slower.rate_bps:
                    bends.add(apart * NS_PER_S // (faster.rate_bps - slower.rate_bps))
        self._bends_ns = sorted(bends)

    def delay_ns(self, latency_ns: int, rate_bps: int) -> int:
        """The greatest horizontal deviation from a service of `rate_bps` after `latency_ns`, which
        is no slower than what comes in the long run: at a bend of the curve, whose slope only
        falls."""
        return latency_ns + max(
            -(-self._bits(at_ns) * NS_PER_S // rate_bps) - at_ns for at_ns in self._bends_ns
        )

    def _bits(self, time_ns: int) -> int:
        """A bend is rounded down: with 1 ns more, nothing that comes by then is left out."""
        return sum(min(its.bits(time_ns + 1) for its in curves) for curves in self._by_link)


class Closed(NamedTuple):
    """For how long gates, or frames that must not begin, keep a class from its link: in any time
    `share_ppb` parts of 10^9 of it, and `burst_ns`."""

    burst_ns: int = 0
    share_ppb: int = 0


def closed(
    intent: Intent,
    link: Link,
    gates: GateControlList | None,
    its: TrafficClass,
    longest_bits: int,
) -> Closed:
    """That of a class at a port, whose frames are so long. A gate opens late by the gate margin,
    and shuts early; a frame of a class that had the link before may outlast its gate, or its gate
    stays open; and no frame begins that would not end before the gate shuts."""
    runs = [] if gates is None else _runs(gates, 1 << its.number, _stronger(intent, its))
    if gates is None or (runs and runs[0].length_ns == gates.cycle_ns):
        return Closed()
    before_ns = transmission_max_ns(longest_bits // 8, link.rate_bps) + link.gate_early_ns
    late_ns = intent.network.gate_margin_ns + outlasts_ns(intent, link, intent.classes.values())
    cycle_ns, usable_ns = gates.cycle_ns, 0
    # Of frames that are planned each has left before its gate shuts; of the others by `fits_only`.
    planned = {each.number for each in intent.planned_classes()}
    numbers = {each.number for each in intent.classes.values()}
    unfit = set[int]() if link.fits_only else numbers - planned
    open_from = []
    for start_ns, length_ns, before, after in runs:
        let_go = (
            each
            for each in intent.classes.values()
            if before >> each.number & 1 and each.number != its.number
            if (each.number < its.number if after >> each.number & 1 else each.number in unfit)
        )
        behind_ns = late_ns + longest_ns(intent, link, let_go)
        if (kept_ns := length_ns - before_ns - behind_ns) > 0:
            open_from.append((start_ns + behind_ns, kept_ns))
            usable_ns += kept_ns
    shut_ns = cycle_ns - usable_ns
    # How far the time shut is ahead of its share, at each end of a usable time.
    ahead, sent_ns = [0], 0
    for start_ns, kept_ns in open_from:
        ahead.append((start_ns - sent_ns) * cycle_ns - shut_ns * start_ns)
        sent_ns += kept_ns
        end_ns = start_ns + kept_ns
        ahead.append((end_ns - sent_ns) * cycle_ns - shut_ns * end_ns)
    burst_ns = -(-(max(ahead) - min(ahead)) // cycle_ns)
    return Closed(burst_ns, -(-shut_ns * WHOLE_PPB // cycle_ns))


def _stronger(intent: Intent, its: TrafficClass) -> int:
    """The gates of classes of which any number of frames may go first."""
    scheduled = intent.classes_with(ClassRole.SCHEDULED)
    return sum(1 << each.number for each in scheduled if each.number > its.number)


class _Run(NamedTuple):
    """From when on a class may send by its gates, and for how long; `before` and `after` are the
    gates that are open right before, and then."""

    start_ns: int
    length_ns: int
    before: int
    after: int


def _runs(gates: GateControlList, bit: int, stronger: int) -> list[_Run]:
    """When the gate is open in a cycle, and none of those that are stronger, from its first
    opening on."""
    found: list[_Run] = []
    at_ns, before = 0, gates.entries[-1].gate_states
    for entry in gates.entries:
        states = entry.gate_states
        is_open = states & bit and not states & stronger
        if is_open and found and found[-1].start_ns + found[-1].length_ns == at_ns:
            found[-1] = found[-1]._replace(length_ns=found[-1].length_ns + entry.interval_ns)
        elif is_open:
            found.append(_Run(at_ns, entry.interval_ns, before, states))
        at_ns, before = at_ns + entry.interval_ns, states
    if len(found) > 1 and found[0].start_ns == 0 and before & bit and not before & stronger:
        first = found.pop(0)
        found[-1] = found[-1]._replace(length_ns=found[-1].length_ns + first.length_ns)
    return found
