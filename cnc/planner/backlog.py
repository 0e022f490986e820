"""When a queue is empty again that a disturbance left frames in, from its port's gate control list.

The queue of a class is served in *openings*: while its gate and those of the scheduled classes
before it are open, and no best-effort class before it is. An opening clears the queue if it lasts
for all that can have come since the one before cleared it, and for what may go ahead: see
docs/planning.md for the equations. The judge has its own solution of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple


class Coming(NamedTuple):
    """A frame of each period that takes `wire_ns` of the link, and from when to when it comes."""

    period_ns: int
    first_ns: int
    last_ns: int
    wire_ns: int


class _Curve:
    """How much has come by a time: a sum of steps that repeat with the cycle, over all time.

    Only differences mean anything.
    """

    def __init__(self, cycle_ns: int, steps: Iterable[tuple[int, int, int]]) -> None:
        """`steps` are times, periods and amounts."""
        folded = []
        self._base = 0
        for time, period, amount in steps:
            for start in range(time, time - cycle_ns, -period):
                turns, phase = divmod(start, cycle_ns)
                folded.append((phase, amount))
                self._base -= turns * amount
        folded.sort()
        self._cycle_ns = cycle_ns
        self._times = [time for time, _ in folded]
        self._sums = list(accumulate((amount for _, amount in folded), initial=0))

    def at(self, time_ns: int) -> int:
        """The sum up to and with `time_ns`."""
        turns, phase = divmod(time_ns, self._cycle_ns)
        steps = self._sums[bisect_right(self._times, phase)]
        return self._base + (turns - 1) * self._sums[-1] + steps


@dataclass(frozen=True, slots=True)
class Ahead:
    """What goes before a backlog: `once_ns` in each opening, and `share` parts of `of_parts` of the
    time, for control. A disturbance takes `disturbance_ns` besides."""

    once_ns: int
    share: int
    of_parts: int
    disturbance_ns: int

    def time_for(self, work_ns: int) -> int:
        """How long an opening must last to send `work_ns` of frames."""
        remaining = self.of_parts - self.share
        return -(-(work_ns + self.once_ns) * self.of_parts // remaining)


class _Opening(NamedTuple):
    """It clears the queue by `clear_ns`; if `sturdy`, even when the disturbance falls into it."""

    begin_ns: int
    end_ns: int
    clear_ns: int
    sturdy: bool


class Backlog:
    """What becomes of a backlog in the queue of one class of a port."""

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
        self._come = _Curve(cycle_ns, ((c.first_ns, c.period_ns, c.wire_ns) for c in coming))
        self._gone = _Curve(cycle_ns, ((c.last_ns, c.period_ns, c.wire_ns) for c in coming))
        found = [_Opening(begin, end, begin, True) for begin, end in openings]
        if ahead.share >= ahead.of_parts:
            found = []
        self._openings: list[_Opening] = []
        while found != self._openings:
            self._openings, found = found, self._those_that_clear(found)
        self._begins = [each.begin_ns for each in self._openings]
        self._within = [self._within_ns(each) for each in self._openings]

    @property
    def stays(self) -> bool:
        """Whether nothing ever clears it."""
        return not self._openings

    def gone_ns(self, time_ns: int) -> int:
        """By when a frame that comes at `time_ns` is gone, and with it all that came before."""
        turns, phase = divmod(time_ns, self.cycle_ns)
        following = turns * len(self._begins) + bisect_left(self._begins, phase)
        now = self._number(following - 1)
        if now.sturdy:
            gone = max(now.clear_ns, time_ns + self._within[(following - 1) % len(self._begins)])
            if gone <= now.end_ns:
                return gone
        return self._cleared_ns(following)

    def longest_ns(self) -> int:
        """The greatest time until a frame that comes is gone, and all before it."""
        found = 0
        for index, each in enumerate(self._openings):
            until = each.begin_ns  # from then on the next opening must do
            if each.sturdy:
                until = max(until, each.end_ns - self._within[index])
                found = max(found, self._within[index])
            found = max(found, self._cleared_ns(index + 1) - until)
        return found

    def _cleared_ns(self, index: int) -> int:
        """When the queue is clear if the opening of this number is the first that may do it: the
        disturbance spoils only what it falls into."""
        each = self._number(index)
        spoilt_ns = each.clear_ns + self._ahead.disturbance_ns
        while not each.sturdy:
            index += 1
            each = self._number(index)
            if each.begin_ns >= spoilt_ns:
                break
        return each.clear_ns

    def _number(self, index: int) -> _Opening:
        """The opening of a number, counted over all cycles."""
        turns, number = divmod(index, len(self._openings))
        begin, end, clear, sturdy = self._openings[number]
        later = turns * self.cycle_ns
        return _Opening(begin + later, end + later, clear + later, sturdy)

    def _those_that_clear(self, openings: Sequence[_Opening]) -> list[_Opening]:
        """Each opening held against what the others clear, without those that do not: the rest may
        then have more to do."""
        clearing = []
        for each, since in zip(openings, self._clear_since_ns(openings), strict=True):
            clear = sturdy = None
            if each.sturdy:
                clear = sturdy = self._clear_ns(each, since, self._ahead.disturbance_ns)
            if clear is None:
                clear = self._clear_ns(each, since, 0)
            if clear is not None:
                clearing.append(each._replace(clear_ns=clear, sturdy=sturdy is not None))
        return clearing

    def _clear_since_ns(self, openings: Sequence[_Opening]) -> Iterator[int]:
        """For each opening the begin of the last one before it that surely cleared the queue: a
        sturdy one, or one that was over before the disturbance, if that spoilt the one between."""
        cycle, count = self.cycle_ns, len(openings)
        if not count:
            return
        origin = openings[0].clear_ns
        clears = [each.clear_ns - origin for each in openings]
        sturdy = [n for n, each in enumerate(openings) if each.sturdy]
        last = sturdy[-1] - count if sturdy else None
        for index in range(count):
            turns, before = divmod(index - 1, count)
            calm_ns = turns * cycle + openings[before].begin_ns - self._ahead.disturbance_ns
            turns, phase = divmod(calm_ns - origin, cycle)
            found = turns * count + bisect_right(clears, phase) - 1
            if last is not None:
                found = max(found, last)
            turns, number = divmod(found, count)
            yield turns * cycle + openings[number].begin_ns
            if openings[index].sturdy:
                last = index

    def _clear_ns(self, each: _Opening, since_ns: int, lost_ns: int) -> int | None:
        """When an opening has sent what came after `since_ns`; None if it closes before."""
        gone = self._gone.at(since_ns)
        clear, needed = each.begin_ns - 1, each.begin_ns
        while clear < needed <= each.end_ns:
            clear = needed
            needed = each.begin_ns + lost_ns + self._ahead.time_for(self._come.at(clear) - gone)
        return clear if needed <= clear else None

    def _within_ns(self, each: _Opening) -> int:
        """How long a frame may take that comes in an opening which was clear before."""
        work = self._come.at(each.end_ns) - self._gone.at(each.begin_ns)
        return self._ahead.time_for(work) + self._ahead.disturbance_ns
