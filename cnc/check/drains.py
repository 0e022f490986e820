"""How soon a port that holds more than planned is empty again, at any time of its cycle.

The scheduled queues of a port can be served whenever all their gates are open, unless a class
before them in priority that no plan limits is open, too. Stretches of such time *drain* the port
when they have been long enough for all frames that can be there. What is ahead of them is counted
in: one frame already under way, the burst and the rate of control, and one frame that a talker sent
at any odd time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Arrival(NamedTuple):
    """A frame of each period, `wire_ns` long, in the queue at no time but between these."""

    period_ns: int
    earliest_ns: int
    left_ns: int
    wire_ns: int


@dataclass(frozen=True, slots=True)
class Interference:
    """What delays frames besides others of their port.

    `ahead_ns` once in each stretch; of the rest of the time, control takes `taken` of `whole`
    parts.
    """

    ahead_ns: int
    taken: int
    whole: int

    def needed_ns(self, work_ns: int) -> int:
        """Time in which `work_ns` of frames are sent for sure."""
        left = self.whole - self.taken
        return -(-(work_ns + self.ahead_ns) * self.whole // left)

    def sent_ns(self, open_ns: int) -> int:
        """What is sent for sure in such a time while there is something to send. The longest frame,
        which is ahead in the sums, may be one that no longer fits at the end here."""
        return max(0, open_ns * (self.whole - self.taken) // self.whole - self.ahead_ns)


class Drain(NamedTuple):
    """How the port is emptied of what is there at a time from the last call of the drain before to
    `last_call_ns`: by `empty_ns`, or `takes_ns` after that time if that is later."""

    last_call_ns: int
    empty_ns: int
    takes_ns: int


class Drained:
    """The drains of a port, which repeat with its cycle."""

    def __init__(self, cycle_ns: int, drains: Sequence[Drain]) -> None:
        self.cycle_ns = cycle_ns
        self._drains = list(drains)
        self._last_calls = [drain.last_call_ns for drain in drains]
        # Who comes later may find what came before; it takes two turns to know from how long ago.
        latest = None
        for index in [*range(len(drains))] * 2:
            if latest is not None and latest > self._drains[index].empty_ns:
                self._drains[index] = self._drains[index]._replace(empty_ns=latest)
            latest = self._drains[index].empty_ns
            if index == len(drains) - 1:
                latest -= cycle_ns

    @property
    def never(self) -> bool:
        """Whether the stretches are too short."""
        return not self._drains

    def left_by_ns(self, time_ns: int) -> int:
        """When everything has left at the latest that is there at `time_ns`."""
        # Time 0 may belong to a drain that started before the end of the cycle.
        turns = -((self._last_calls[-1] - time_ns) // self.cycle_ns)
        at = time_ns - turns * self.cycle_ns
        _, empty, takes = self._drains[bisect_left(self._last_calls, at)]
        return (empty if empty > at + takes else at + takes) + turns * self.cycle_ns

    def longest_ns(self) -> int:
        """The greatest time for which anything stays."""
        longest = 0
        missed = self._last_calls[-1] - self.cycle_ns
        for last_call, empty, takes in self._drains:
            longest = max(longest, empty - missed, takes)
            missed = last_call
        return longest


class _Stretch(NamedTuple):
    """An open stretch; `come_ns` is the wire time of all that can have come by its end."""

    start_ns: int
    end_ns: int
    come_ns: int

    def later(self, by_ns: int, come_ns: int) -> _Stretch:
        return _Stretch(self.start_ns + by_ns, self.end_ns + by_ns, self.come_ns + come_ns)


class Port:
    """The stretches of a cycle, of the (start, end) given, and the frames that they are for."""

    def __init__(
        self,
        cycle_ns: int,
        stretches: Sequence[tuple[int, int]],
        arrivals: Sequence[Arrival],
        interference: Interference,
    ) -> None:
        self._cycle_ns = cycle_ns
        self._arrivals = arrivals
        self._against = interference
        if interference.taken >= interference.whole:
            stretches = ()
        come = _Rising(cycle_ns, ((a.earliest_ns, a) for a in arrivals), 0)
        once = [_Stretch(start, end, come.until(end)) for start, end in stretches]
        load = sum(cycle_ns // a.period_ns * a.wire_ns for a in arrivals)
        self._count = len(once)
        # Two cycles, for what one stretch leaves to those after it.
        self._stretches = once + [stretch.later(cycle_ns, load) for stretch in once]

    def drained(self, stopped_ns: int = 0, overdue_ns: Sequence[int] = ()) -> Drained:
        """What empties it, if nothing left for some time before it is asked for.

        Frames stay as much longer than planned as `overdue_ns` says, in the order of the arrivals.
        """
        if not self._count:
            return Drained(self._cycle_ns, ())
        late = overdue_ns or [0] * len(self._arrivals)
        first_call = self._stretches[self._count - 1].end_ns
        while True:
            called = first_call - self._cycle_ns
            gone = _Rising(
                self._cycle_ns,
                ((a.left_ns + by, a) for a, by in zip(self._arrivals, late, strict=True)),
                called - stopped_ns,
            )
            drains = []
            for number in range(self._count):
                drain = self._drain(number, gone.until(called - stopped_ns))
                if drain is None:
                    return Drained(self._cycle_ns, ())
                drains.append(drain)
                called = drain.last_call_ns
            # As soon as the last drain is what was assumed of it, all are.
            if called == first_call:
                return Drained(self._cycle_ns, drains)
            first_call = called

    def _drain(self, number: int, gone_ns: int) -> Drain | None:
        """How what came after frames of the wire time `gone_ns` is sent, if from stretch `number`
        on; None if that takes longer than a cycle."""
        first = self._stretches[number]
        sent_ns = 0
        for start, end, come_ns in self._stretches[number : number + self._count + 1]:
            takes = self._against.needed_ns(come_ns - gone_ns - sent_ns)
            if start + takes <= end:
                if start == first.start_ns:
                    return Drain(end - takes, start + takes, takes)
                return Drain(first.start_ns, start + takes, 0)
            sent_ns += self._against.sent_ns(end - start)
        return None


class _Rising:
    """The wire time of frames whose time is over, asked for later and later times."""

    def __init__(self, cycle_ns: int, steps: Iterable[tuple[int, Arrival]], start_ns: int) -> None:
        self._total = 0
        ahead = []
        for time, arrival in steps:
            period, wire = arrival.period_ns, arrival.wire_ns
            passed = (start_ns - time) // period
            self._total += passed * wire
            following = time + (passed + 1) * period
            ahead += [(following + k, wire) for k in range(0, cycle_ns, period)]
        ahead.sort()
        self._ahead = ahead
        self._cycle_ns = cycle_ns
        self._next = 0
        self._turned_ns = 0

    def until(self, time_ns: int) -> int:
        """Up to and with that time; only differences mean anything."""
        ahead, index, total = self._ahead, self._next, self._total
        within = time_ns - self._turned_ns
        while ahead[index][0] <= within:
            total += ahead[index][1]
            index += 1
            if index == len(ahead):
                index = 0
                self._turned_ns += self._cycle_ns
                within -= self._cycle_ns
        self._next, self._total = index, total
        return total
