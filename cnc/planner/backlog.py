"""When a port is clear again of what a disturbance left in its queues, from its gate control list.

The scheduled queues of a port are served together in *openings*: while all their gates are open,
and no best-effort class before them is. Openings clear them as soon as they last for all that can
have come by then, since what came before was gone for sure, and for what may go ahead: see
docs/reference/recovery.md for the equations. The judge has its own solution of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, repeat
from typing import NamedTuple

from cnc.model import GateControlList


def openings(
    gates: GateControlList, opened: int, shut: int, early_ns: int
) -> list[tuple[int, int]]:
    """When all gates of `opened` are open and none of `shut`, even if gates change `early_ns` too
    soon; the last may end a cycle later."""
    found: list[tuple[int, int]] = []
    wanted = opened | shut
    edges = accumulate((entry.interval_ns for entry in gates.entries), initial=0)
    for entry, (begin, end) in zip(gates.entries, pairwise(edges), strict=True):
        if entry.gate_states & wanted == opened:
            if found and found[-1][1] == begin:
                found[-1] = found[-1][0], end
            else:
                found.append((begin, end))
    if len(found) > 1 and found[0][0] == 0 and found[-1][1] == gates.cycle_ns:
        found[-1] = found[-1][0], gates.cycle_ns + found.pop(0)[1]
    return [(begin, end - early_ns) for begin, end in found if end - begin > early_ns]


class Coming(NamedTuple):
    """A frame of each period that takes `wire_ns` of the link: the earliest time at which it comes
    by plan, and the latest at which it is gone."""

    period_ns: int
    first_ns: int
    gone_ns: int
    wire_ns: int


@dataclass(frozen=True, slots=True)
class Ahead:
    """What goes before a backlog: `once_ns` in each opening, and `share` parts of `of_parts` of the
    time, for control. An opening that cannot send all of it may be left unused for `unfit_ns` more
    at its end, where the next frame no longer fits."""

    once_ns: int
    share: int
    of_parts: int
    unfit_ns: int = 0

    def time_for(self, work_ns: int) -> int:
        """How long an opening must last to send `work_ns` of frames."""
        remaining = self.of_parts - self.share
        return -(-(work_ns + self.once_ns) * self.of_parts // remaining)

    def work_in(self, length_ns: int) -> int:
        """The most that an opening clears; less than 0 if even nothing takes longer."""
        return length_ns * (self.of_parts - self.share) // self.of_parts - self.once_ns

    def part_of(self, most_ns: int) -> int:
        """What is sent for sure of more than that."""
        return max(0, most_ns - self.unfit_ns)


class Clearing:
    """When a port's queues are clear again, at any time.

    Openings serve them one by one: each all that is there at a time up to its `until_ns`, and after
    that of the opening before. It is gone by its `clear_ns`, and within `need_ns` if the opening is
    under way.
    """

    __slots__ = ("_clear_ns", "_cycle_ns", "_need_ns", "_origin_ns", "_until_ns")

    def __init__(
        self,
        cycle_ns: int,
        until_ns: Sequence[int] = (),
        clear_ns: Sequence[int] = (),
        need_ns: Sequence[int] = (),
    ) -> None:
        """The openings of one cycle that serve, in order; none if the queues are never clear."""
        self._cycle_ns = cycle_ns
        self._until_ns = until_ns
        self._need_ns = need_ns
        # What one opening leaves to others, of the next cycle too, may take longer than what came
        # later.
        last = max(clear_ns, default=0) - cycle_ns
        self._clear_ns = list(accumulate(clear_ns, max, initial=last))[1:]
        self._origin_ns = until_ns[-1] - cycle_ns + 1 if until_ns else 0

    @property
    def never(self) -> bool:
        """Whether nothing ever clears the queues."""
        return not self._until_ns

    def wait_ns(self, time_ns: int) -> int:
        """In how long at most all that is there at `time_ns` is gone."""
        phase = (time_ns - self._origin_ns) % self._cycle_ns + self._origin_ns
        index = bisect_left(self._until_ns, phase)
        return max(self._clear_ns[index] - phase, self._need_ns[index])

    def worst_wait_ns(self, time_ns: int, period_ns: int) -> int:
        """The greatest such time over all periods of the cycle."""
        cycle, origin, until = self._cycle_ns, self._origin_ns, self._until_ns
        clear, need = self._clear_ns, self._need_ns
        worst = 0
        first = (time_ns - origin) % period_ns + origin
        for phase in range(first, first + cycle, period_ns):
            index = bisect_left(until, phase)
            worst = max(worst, clear[index] - phase, need[index])
        return worst

    def is_same_for(self, time_ns: int, later_ns: int, period_ns: int) -> bool:
        """Whether it is the same if a frame that is gone at `time_ns` of each of its periods, as
        was assumed, is so only at `later_ns`: no opening then serves it that did not before."""
        origin, until = self._origin_ns, self._until_ns
        first = (time_ns - origin) % period_ns + origin
        for phase in range(first, first + self._cycle_ns, period_ns):
            if phase + later_ns - time_ns > until[bisect_left(until, phase)]:
                return False
        return True

    def longest_ns(self) -> int:
        """The greatest such time at all."""
        before = [self._origin_ns - 1, *self._until_ns[:-1]]
        gaps = (clear - until for clear, until in zip(self._clear_ns, before, strict=True))
        return max(*gaps, *self._need_ns)


class Backlog:
    """What becomes of a backlog in the scheduled queues of a port."""

    def __init__(
        self,
        cycle_ns: int,
        openings: Sequence[tuple[int, int]],
        coming: Sequence[Coming],
        ahead: Ahead,
    ) -> None:
        """`openings` are (begin, end) in order; the last may end in the next cycle."""
        self.cycle_ns = cycle_ns
        self._ahead = ahead
        self.coming = coming
        if ahead.share >= ahead.of_parts:
            openings = ()
        come = _Curve(cycle_ns, ((c.first_ns, c.period_ns, c.wire_ns) for c in coming))
        self._come_in_cycle = come.in_cycle
        self._begins = [begin for begin, _ in openings]
        self._ends = [end for _, end in openings]
        self._come = [come.at(end) for end in self._ends]  # how much by its end
        self._most = [ahead.work_in(end - begin) for begin, end in openings]

    def clearing(self, lost_ns: int, late_ns: Sequence[int] | None = None) -> Clearing:
        """If nothing leaves for `lost_ns` before the time that is asked about, and a frame may be
        gone by so much later than planned as `late_ns` says, in the order of `coming`."""
        if not self._ends:
            return Clearing(self.cycle_ns)
        late = late_ns or [0] * len(self.coming)
        gone = _Curve(
            self.cycle_ns,
            (
                (c.gone_ns + by, c.period_ns, c.wire_ns)
                for c, by in zip(self.coming, late, strict=True)
            ),
        )
        come, most, ends, begins = self._come, self._most, self._ends, self._begins
        until, clear, need = list(ends), list(ends), [0] * len(ends)
        works: list[int | None] = [None] * len(ends)
        gone_by, time_for = gone.at, self._ahead.time_for
        settled = False
        while not settled:
            # What the last opening does shows only at the end of a turn; the next begins with it.
            last = until[-1]
            served = last - self.cycle_ns
            for index, come_ns in enumerate(come):
                work = come_ns - gone_by(served - lost_ns)
                if work == works[index]:
                    served = last  # as in the turn before, and so are all that follow
                    break
                works[index] = work
                if work <= most[index]:
                    takes = time_for(work)
                    served = until[index] = ends[index] - takes
                    clear[index], need[index] = begins[index] + takes, takes
                else:
                    late_clear = self._cleared_later_ns(index, work)
                    if late_clear is None:
                        return Clearing(self.cycle_ns)
                    served = until[index] = begins[index]
                    clear[index], need[index] = late_clear, 0
            settled = served == last
        return Clearing(self.cycle_ns, until, clear, need)

    def _cleared_later_ns(self, index: int, work_ns: int) -> int | None:
        """When so much, which opening `index` cannot send, is sent with those that follow; None if
        that takes longer than a cycle."""
        count = len(self._ends)
        come, most = self._come[index], self._most[index]
        for number in range(index + 1, index + count + 1):
            turns, which = divmod(number, count)
            come_by_then = self._come[which] + turns * self._come_in_cycle
            work_ns += come_by_then - come - self._ahead.part_of(most)
            come, most = come_by_then, self._most[which]
            if work_ns <= most:
                begin = self._begins[which] + turns * self.cycle_ns
                return begin + self._ahead.time_for(work_ns)
        return None


class _Curve:
    """How much has come by a time: a sum of steps that repeat with the cycle, over all time.

    Only differences mean anything.
    """

    __slots__ = ("_base", "_cycle_ns", "_sums", "_times", "in_cycle")

    def __init__(self, cycle_ns: int, steps: Iterable[tuple[int, int, int]]) -> None:
        """`steps` are times, periods and amounts."""
        folded: list[tuple[int, int]] = []
        self._base = 0
        for time, period, amount in steps:
            # The first in the cycle, and how many there were from the beginning of time to it.
            turns, first = divmod(time, period)
            self._base -= turns * amount
            folded += zip(range(first, cycle_ns, period), repeat(amount))
        folded.sort()
        self._cycle_ns = cycle_ns
        self._times = [time for time, _ in folded]
        self._sums = list(accumulate((amount for _, amount in folded), initial=0))
        self.in_cycle = self._sums[-1]

    def at(self, time_ns: int) -> int:
        """The sum up to and with `time_ns`."""
        turns, phase = divmod(time_ns, self._cycle_ns)
        return self._base + turns * self.in_cycle + self._sums[bisect_right(self._times, phase)]
