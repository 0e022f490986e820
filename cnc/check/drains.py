"""How soon a port that holds more than planned is empty again, at any time of its cycle.

The scheduled queues of a port can be served whenever all their gates are open, unless a class
before them in priority that no plan limits is open, too. A stretch of such time *drains* the port
if it is long enough for all frames that can be there by its end. What is ahead of them is counted
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


class Drain(NamedTuple):
    """A stretch that empties the port within `takes_ns`, from any time in it that leaves so much
    until `end_ns`."""

    start_ns: int
    end_ns: int
    takes_ns: int

    @property
    def last_call_ns(self) -> int:
        """What comes later waits for the next drain."""
        return self.end_ns - self.takes_ns


class Drained:
    """The drains of a port, which repeat with its cycle."""

    def __init__(self, cycle_ns: int, drains: Sequence[Drain]) -> None:
        self.cycle_ns = cycle_ns
        self._drains = drains
        self._last_calls = [drain.last_call_ns for drain in drains]

    @property
    def never(self) -> bool:
        """Whether no stretch is long enough."""
        return not self._drains

    def left_by_ns(self, time_ns: int) -> int:
        """When everything has left at the latest that is there at `time_ns`."""
        # Time 0 may belong to a drain that started before the end of the cycle.
        turns = -((self._last_calls[-1] - time_ns) // self.cycle_ns)
        at = time_ns - turns * self.cycle_ns
        start, _, takes = self._drains[bisect_left(self._last_calls, at)]
        return (start if start > at else at) + takes + turns * self.cycle_ns

    def longest_ns(self) -> int:
        """The greatest time for which anything stays."""
        longest = 0
        missed = self._last_calls[-1] - self.cycle_ns
        for start, end, takes in self._drains:
            longest = max(longest, start + takes - missed, takes)
            missed = end - takes
        return longest


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
        come = _Rising(cycle_ns, ((a.earliest_ns, a) for a in arrivals), 0)
        self._stretches = [(start, end, come.until(end)) for start, end in stretches]
        if interference.taken >= interference.whole:
            self._stretches = []

    def drained(self, stopped_ns: int = 0, overdue_ns: Sequence[int] = ()) -> Drained:
        """The stretches that drain it, of which the last that started to may have been stopped for
        some time.

        Frames stay as much longer than planned as `overdue_ns` says, in the order of the arrivals.
        """
        late = overdue_ns or [0] * len(self._arrivals)
        hopeful = self._stretches
        drains: list[Drain] = []
        first_call = hopeful[-1][1] if hopeful else 0
        while True:
            called = first_call - self._cycle_ns
            gone = _Rising(
                self._cycle_ns,
                ((a.left_ns + by, a) for a, by in zip(self._arrivals, late, strict=True)),
                called - stopped_ns,
            )
            kept, drains = [], []
            for stretch in hopeful:
                start, end, come_ns = stretch
                takes = self._against.needed_ns(come_ns - gone.until(called - stopped_ns))
                if start + takes <= end:
                    kept.append(stretch)
                    drains.append(Drain(start, end, takes))
                    called = end - takes
            # As soon as the last drain is what was assumed of it, all are.
            if called == first_call or not kept:
                return Drained(self._cycle_ns, drains)
            hopeful, first_call = kept, called


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
