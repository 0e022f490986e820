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
from itertools import repeat
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
    parts. Of a stretch that is too short for all frames, the last `idle_ns` may be of no use.
    """

    ahead_ns: int
    taken: int
    whole: int
    idle_ns: int = 0

    def needed_ns(self, work_ns: int) -> int:
        """Time in which `work_ns` of frames are sent for sure."""
        left = self.whole - self.taken
        return -(-(work_ns + self.ahead_ns) * self.whole // left)

    def sent_ns(self, open_ns: int) -> int:
        """What is sent for sure in such a time while there is something to send. A frame of a
        talker that is ahead in the sums may be one that no longer fits at the end here."""
        sent = open_ns * (self.whole - self.taken) // self.whole
        return max(0, sent - self.ahead_ns - self.idle_ns)


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
        last = self._last_calls[-1]
        # Time 0 may belong to a drain that started before the end of the cycle.
        at = last - (last - time_ns) % self.cycle_ns
        _, empty, takes = self._drains[bisect_left(self._last_calls, at)]
        return time_ns + (empty - at if empty - at > takes else takes)

    def longest_stay_ns(self, time_ns: int, period_ns: int) -> int:
        """How much longer anything stays that is there at `time_ns` of a period, in the worst of
        the cycle's."""
        calls, drains = self._last_calls, self._drains
        first = calls[-1] - (calls[-1] - time_ns) % period_ns
        longest = 0
        for at in range(first, first - self.cycle_ns, -period_ns):
            _, empty, takes = drains[bisect_left(calls, at)]
            longest = max(longest, empty - at, takes)
        return longest

    def is_same_for(self, left_ns: int, later_ns: int, period_ns: int) -> bool:
        """Whether it makes no difference if the frame of each period, which had left by `left_ns`
        for sure, has so only by `later_ns`: no drain is called last between these."""
        calls = self._last_calls
        first = calls[-1] - (calls[-1] - left_ns) % period_ns
        return all(
            at + later_ns - left_ns <= calls[bisect_left(calls, at)]
            for at in range(first, first - self.cycle_ns, -period_ns)
        )

    def longest_ns(self) -> int:
        """The greatest time for which anything stays."""
        longest = 0
        missed = self._last_calls[-1] - self.cycle_ns
        for last_call, empty, takes in self._drains:
            longest = max(longest, empty - missed, takes)
            missed = last_call
        return longest


class _Stretch(NamedTuple):
    """An open stretch. By its end frames of the wire time `come_ns` can have come, of which it
    sends `sent_ns` for sure if it cannot send all."""

    start_ns: int
    end_ns: int
    come_ns: int
    sent_ns: int


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
        self._stretches = [
            _Stretch(start, end, come.until(end), interference.sent_ns(end - start))
            for start, end in stretches
        ]
        self._load_ns = sum(cycle_ns // a.period_ns * a.wire_ns for a in arrivals)

    def drained(self, stopped_ns: int = 0, overdue_ns: Sequence[int] = ()) -> Drained:
        """What empties it, if nothing left for some time before it is asked for.

        Frames stay as much longer than planned as `overdue_ns` says, in the order of the arrivals.
        """
        if not self._stretches:
            return Drained(self._cycle_ns, ())
        called = self._stretches[-1].end_ns - self._cycle_ns
        late = overdue_ns or [0] * len(self._arrivals)
        gone = _Rising(
            self._cycle_ns,
            ((a.left_ns + by, a) for a, by in zip(self._arrivals, late, strict=True)),
            called - stopped_ns,
        )
        # Cycle after cycle, from one that takes as much for gone as can be: what the last drain of
        # a cycle leaves is for the first of the next.
        known: dict[int, tuple[int, Drain]] = {}
        passed_ns = passed_load_ns = 0
        while True:
            for number in range(len(self._stretches)):
                gone_ns = gone.until(called - stopped_ns) - passed_load_ns
                if number in known and known[number][0] == gone_ns:
                    # This and all that follow are as in the cycle before.
                    return Drained(self._cycle_ns, [drain for _, drain in known.values()])
                drain = self._drain(number, gone_ns)
                if drain is None:
                    return Drained(self._cycle_ns, ())
                known[number] = gone_ns, drain
                called = drain.last_call_ns + passed_ns
            passed_ns += self._cycle_ns
            passed_load_ns += self._load_ns

    def is_same(self, drained: Drained, overdue_ns: Sequence[int], later_ns: Sequence[int]) -> bool:
        """Whether `drained`, for frames that stay longer by `overdue_ns`, is what drains it if they
        stay by `later_ns` longer, which is nowhere less."""
        return drained.never or all(
            drained.is_same_for(a.left_ns + overdue, a.left_ns + later, a.period_ns)
            for a, overdue, later in zip(self._arrivals, overdue_ns, later_ns, strict=True)
            if later > overdue
        )

    def _drain(self, number: int, gone_ns: int) -> Drain | None:
        """How what came after frames of the wire time `gone_ns` is sent, if from stretch `number`
        on; None if that takes longer than a cycle."""
        start, end, come_ns, sent_ns = self._stretches[number]
        takes = self._against.needed_ns(come_ns - gone_ns)
        if start + takes <= end:
            return Drain(end - takes, start + takes, takes)
        first_ns = start
        count = len(self._stretches)
        for further in range(number + 1, number + count + 1):
            cycles, which = divmod(further, count)
            start, end, come_ns, sends_ns = self._stretches[which]
            come_ns += cycles * self._load_ns
            takes = self._against.needed_ns(come_ns - gone_ns - sent_ns)
            if start + takes <= end:
                return Drain(first_ns, start + takes + cycles * self._cycle_ns, 0)
            sent_ns += sends_ns
        return None


class _Rising:
    """The wire time of frames whose time is over, asked for later and later times."""

    def __init__(self, cycle_ns: int, steps: Iterable[tuple[int, Arrival]], start_ns: int) -> None:
        self._total = 0
        ahead: list[tuple[int, int]] = []
        for time, arrival in steps:
            period, wire = arrival.period_ns, arrival.wire_ns
            passed = (start_ns - time) // period
            self._total += passed * wire
            following = time + (passed + 1) * period
            ahead += zip(range(following, following + cycle_ns, period), repeat(wire))
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
