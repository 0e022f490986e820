"""What a port leaves to classes with a shaper, as the judge reckons it by itself.

A class has its base rate (of the link at its slowest; with a credit the idle slope), but for the
time in which

- a longer frame of a class below is on its way: once, with a credit twice, since the credit does
  not grow while it is not negative (net/sched/sch_cbs.c), and since a frame may be let go right
  before the credit is back;
- control is sent, by its token bucket, and classes above;
- the gate is shut, or must be expected to be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from cnc.account.wire import control_rate_bps
from cnc.mechanisms.cbs.model import IdleSlopes
from cnc.model import (
    NS_PER_S,
    RATE_TOLERANCE_PPM,
    ClassRole,
    GateControlList,
    Link,
    Plan,
    PortRef,
    Shaper,
    TrafficClass,
)

_CONTROL_FRAMES = 4  # what a control class may send in a row if it states no burst
_HIGHEST_BITS = 8 * 1_542  # what the agent has credit grow for: an ordinary frame on its way
_TOLERANCE = Fraction(RATE_TOLERANCE_PPM, 1_000_000)
_WITH_TAG = 1 + Fraction(
    4, 64 + 20
)  # Linux counts no VLAN tag; the shortest frame, with preamble and gap


class Line(NamedTuple):
    """`burst` bits, and `rate` bits for each nanosecond."""

    burst: Fraction
    rate: Fraction

    @classmethod
    def of_all(cls, its: Sequence[Line]) -> Line:
        """Their sum."""
        return cls(
            sum((line.burst for line in its), Fraction()),
            sum((line.rate for line in its), Fraction()),
        )


class Rate(NamedTuple):
    """Of the streams of a class at a port: their rate, in bits for each nanosecond, and the bits of
    the longest frame."""

    rate: Fraction
    longest_bits: int


class Rates(NamedTuple):
    """The rate of a link at its slowest and its fastest, in bits for each nanosecond."""

    slowest: Fraction
    fastest: Fraction


def rates(link: Link) -> Rates:
    """Those of a link."""
    nominal = Fraction(link.rate_bps, NS_PER_S)
    return Rates(nominal * (1 - _TOLERANCE), nominal * (1 + _TOLERANCE))


class Shut(NamedTuple):
    """For how long a gate is shut in any time: a part of it, and so much more at most."""

    part: Fraction
    more_ns: Fraction


class PortShare:
    """A port of a switch by which streams with a shaper leave, by their traffic class. It goes by
    any of some plans on the same ground."""

    def __init__(self, plans: Sequence[Plan], port: PortRef, streams: Mapping[int, Rate]) -> None:
        self._intent, self._streams = plans[0].intent, streams
        self._link = self._intent.network.links[port]
        self.rate = rates(self._link)
        slopes = [plan[IdleSlopes].by_port.get(port, {}) for plan in plans]
        each = {n: [Fraction(its.get(n, 0), NS_PER_S) for its in slopes] for n in streams}
        self._least = {n: min(its) for n, its in each.items()}
        self._most = {n: max(its) for n, its in each.items()}
        self._classes = {c.number: c for c in self._intent.classes.values()}
        lists = [plan.gates.get(port) for plan in plans]
        self._shut = {
            n: self._shut_by_any([self._shut_for(its, self._classes[n]) for its in lists])
            for n in streams
        }

    def services(
        self, number: int, comes: Mapping[int, Line], leaves: Mapping[int, Line]
    ) -> Iterator[tuple[Fraction, Fraction]]:
        """The rate and the latency of what a class has at least, reckoned in two ways."""
        its_class, shut = self._classes[number], self._shut[number]
        is_credit = its_class.shaper is Shaper.CREDIT
        base = self._least[number] * (1 - _TOLERANCE)
        if not is_credit:
            base = self.rate.slowest
        below = [its for its in self._classes.values() if its.number < number]
        longest = max((self._wire_bits(its) for its in below), default=0)
        ways: list[list[Line]] = [[], []]
        for above in sorted(n for n in self._streams if n > number):
            other = self._classes[above]
            if other.shaper is Shaper.CREDIT:
                ways[0].append(leaves[above])
                ways[1].append(self.passed(other))
            else:
                for way in ways:
                    way.append(leaves[above] if is_credit else comes[above])
        for way in ways:
            taken = Line.of_all([*way, self._control(number)])
            left = 1 - shut.part - taken.rate / self.rate.slowest
            if left > 0 and base > 0:
                bits = taken.burst + longest
                if is_credit:  # also while a longer frame is on its way than it may grow for
                    bits += longest + max(longest - _HIGHEST_BITS, 0)
                yield base * left, (bits / self.rate.slowest + shut.more_ns) / left

    def passed(self, its: TrafficClass) -> Line:
        """What a class sends at most by its credit, from the highest it may have to the lowest, and
        a frame that was accounted for before, but did not fit before its gate shut."""
        slope = self._most[its.number]
        highest = slope * _HIGHEST_BITS / self.rate.slowest + 8
        longest = self._streams[its.number].longest_bits
        return Line(highest + 2 * longest, slope * (1 + _TOLERANCE) * _WITH_TAG)

    def _wire_bits(self, its: TrafficClass) -> int:
        return 8 * (its.max_frame_octets + self._intent.network.overhead.physical_octets)

    def _control(self, number: int) -> Line:
        control = self._intent.classes_with(ClassRole.CONTROL)
        if all(its.number < number for its in control):
            return Line(Fraction(), Fraction())
        burst = sum((its.burst_frames or _CONTROL_FRAMES) * self._wire_bits(its) for its in control)
        rate_bps = control_rate_bps(self._intent, self._link)
        return Line(Fraction(burst), Fraction(rate_bps, NS_PER_S))

    @staticmethod
    def _shut_by_any(lists: Sequence[Shut]) -> Shut:
        """By lists of which one follows another at some time."""
        differing = dict.fromkeys(lists)
        return Shut(
            max(its.part for its in differing), sum((i.more_ns for i in differing), Fraction())
        )

    def _shut_for(self, gates: GateControlList | None, its: TrafficClass) -> Shut:
        """For how long frames of a class cannot begin. Gates open late by the margin, and then a
        frame that was let go before may still be on its way; the last frame has to end in time."""
        if gates is None:
            return Shut(Fraction(), Fraction())
        usable = [*self._usable(gates, its)]
        cycle_ns = sum(entry.interval_ns for entry in gates.entries)
        if usable == [(0, cycle_ns)]:
            return Shut(Fraction(), Fraction())
        shut_ns = cycle_ns - sum(end - start for start, end in usable)
        # Any time that has more of it than others begins as a usable time ends, and ends as one
        # begins; two cycles have all pairs of these.
        more, least = 0, 0
        been_ns, at_ns = 0, 0
        for start, end in [*usable, *((s + cycle_ns, e + cycle_ns) for s, e in usable)]:
            been_ns += start - at_ns
            more = max(more, been_ns * cycle_ns - shut_ns * start - least)
            least = min(least, been_ns * cycle_ns - shut_ns * end)
            at_ns = end
        return Shut(Fraction(shut_ns, cycle_ns), Fraction(more, cycle_ns))

    def _usable(self, gates: GateControlList, its: TrafficClass) -> Iterator[tuple[int, int]]:
        """When frames of a class may begin, in a cycle that begins as its gate opens."""
        link, margin_ns = self._link, self._intent.network.gate_margin_ns
        stronger = [
            c.number
            for c in self._classes.values()
            if c.role is ClassRole.SCHEDULED and c.number > its.number
        ]
        count = len(gates.entries)
        is_open = [
            bool(e.gate_states >> its.number & 1)
            and not any(e.gate_states >> n & 1 for n in stronger)
            for e in gates.entries
        ]
        if all(is_open):
            yield 0, sum(entry.interval_ns for entry in gates.entries)
            return
        first = next((n for n in range(count) if is_open[n] and not is_open[n - 1]), None)
        if first is None:
            return
        before_ns = -(-self._streams[its.number].longest_bits // self.rate.slowest)
        before_ns += link.gate_early_ns
        at_ns = 0
        start_ns = 0
        for index in range(first, first + count + 1):
            now, last = is_open[index % count], is_open[index % count - 1]
            before, entry = gates.entries[index % count - 1], gates.entries[index % count]
            if index > first and last and not now and start_ns < at_ns - before_ns:
                yield start_ns, at_ns - before_ns
            if now and not last:
                let_go_ns = self._let_go_ns(its, before.gate_states, entry.gate_states)
                start_ns = at_ns + margin_ns + let_go_ns
            at_ns += entry.interval_ns

    def _let_go_ns(self, its: TrafficClass, before: int, after: int) -> int:
        """How long a frame may still be sent that was let go before these gates opened."""
        classes = self._classes.values()
        going = [
            c
            for c in classes
            if before >> c.number & 1 and c.number != its.number
            if (c.number < its.number if after >> c.number & 1 else self._overruns(c))
        ]
        misjudged_ns = max(self._took_ns(c) - self._nominal_ns(c) for c in classes)
        return misjudged_ns + max(map(self._took_ns, going), default=0)

    def _overruns(self, its: TrafficClass) -> bool:
        """Whether frames of a class may still be on their way when its gate has shut."""
        is_planned = its.role is ClassRole.SCHEDULED and not its.windows_are_given
        return not (is_planned or self._link.fits_only)

    def _took_ns(self, its: TrafficClass) -> int:
        return -(-self._wire_bits(its) // self.rate.slowest)

    def _nominal_ns(self, its: TrafficClass) -> int:
        return self._wire_bits(its) * NS_PER_S // self._link.rate_bps
