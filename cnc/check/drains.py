"""How soon a queue that holds more than planned is empty again, at any time of its port's cycle.

The queue of a class can be served whenever its gate is open, unless a class before it in priority
that no plan limits is open, too. A stretch of such time *drains* the queue if it is long enough for
all frames that can be there by then. What is ahead of them is counted in: one frame already under
way, the burst and the rate of control, and one frame that a talker sent at any odd time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Arrival(NamedTuple):
    """A frame of each period, `octets_ns` long on the wire, that comes between these times."""

    period_ns: int
    earliest_ns: int
    latest_ns: int
    wire_ns: int


@dataclass(frozen=True, slots=True)
class Interference:
    """What delays a queue besides its own frames.

    `ahead_ns` once in each stretch; of the rest of the time, control takes `taken` of `whole`
    parts. A disturbance stops everything for `disturbance_ns`.
    """

    ahead_ns: int
    taken: int
    whole: int
    disturbance_ns: int

    def needed_ns(self, work_ns: int) -> int:
        """Time in which `work_ns` of frames are sent for sure."""
        left = self.whole - self.taken
        return -(-(work_ns + self.ahead_ns) * self.whole // left)


class _Stretch(NamedTuple):
    """An open stretch that empties the queue by `drained_ns`.

    If it `withstands` the disturbance, then even when it falls into it.
    """

    start_ns: int
    end_ns: int
    drained_ns: int
    withstands: bool

    def later(self, by_ns: int) -> _Stretch:
        start, end, drained, withstands = self
        return _Stretch(start + by_ns, end + by_ns, drained + by_ns, withstands)


class Drains:
    """The stretches of a cycle, of the (start, end) given, that drain a queue."""

    def __init__(
        self,
        cycle_ns: int,
        stretches: Sequence[tuple[int, int]],
        arrivals: Sequence[Arrival],
        interference: Interference,
    ) -> None:
        self.cycle_ns = cycle_ns
        self._arrivals = arrivals
        self._against = interference
        hopeful = [_Stretch(start, end, start, True) for start, end in stretches]
        while (kept := self._that_drain(hopeful)) != hopeful:
            hopeful = kept
        self._stretches = hopeful
        self._starts = [s.start_ns for s in hopeful]

    @property
    def never(self) -> bool:
        """Whether no stretch is long enough."""
        return not self._stretches

    def left_by_ns(self, arrived_ns: int) -> int:
        """When a frame that came at `arrived_ns` has left at the latest, and all before it."""
        index = self._first_after(arrived_ns)
        if (current := self._at(index - 1)).withstands:
            left = max(current.drained_ns, arrived_ns + self._within_ns(current))
            if left <= current.end_ns:
                return left
        return self._next_drained_ns(index)

    def longest_ns(self) -> int:
        """The greatest time from an arrival until the queue is empty."""
        longest = 0
        for index, current in enumerate(self._stretches):
            since = current.start_ns
            if current.withstands:
                within = self._within_ns(current)
                since = max(since, current.end_ns - within)
                longest = max(longest, within)
            longest = max(longest, self._next_drained_ns(index + 1) - since)
        return longest

    def _within_ns(self, stretch: _Stretch) -> int:
        """How long frames that come in an open stretch, once it has drained, may take to leave."""
        work = self._work_ns(stretch.start_ns, stretch.end_ns)
        return self._against.needed_ns(work) + self._against.disturbance_ns

    def _next_drained_ns(self, index: int) -> int:
        """The end of the first drain from that of number `index` on that no disturbance spoils."""
        first = current = self._at(index)
        while not current.withstands:
            index += 1
            current = self._at(index)
            if current.start_ns >= first.drained_ns + self._against.disturbance_ns:
                break
        return current.drained_ns

    def _that_drain(self, hopeful: Sequence[_Stretch]) -> list[_Stretch]:
        """Those which do if all of `hopeful` do as it says there."""
        if not hopeful or self._against.taken >= self._against.whole:
            return []
        disturbance = self._against.disturbance_ns
        steady = [n for n, s in enumerate(hopeful) if s.withstands]
        drained = [s.drained_ns for s in hopeful]
        kept = []
        for index, stretch in enumerate(hopeful):
            since = self._emptied_before_ns(hopeful, drained, steady, index)
            by = self._drained_ns(stretch, since, disturbance) if stretch.withstands else None
            withstands = by is not None
            if by is None:
                by = self._drained_ns(stretch, since, 0)
            if by is not None:
                kept.append(_Stretch(stretch.start_ns, stretch.end_ns, by, withstands))
        return kept

    def _emptied_before_ns(
        self,
        hopeful: Sequence[_Stretch],
        drained: Sequence[int],
        steady: Sequence[int],
        index: int,
    ) -> int:
        """The start of the last stretch before number `index` that has drained the queue, whenever
        the one disturbance was."""
        count, cycle = len(hopeful), self.cycle_ns
        before = (index - 1) // count * cycle + hopeful[index - 1].start_ns
        calm_ns = before - self._against.disturbance_ns
        turns, phase = divmod(calm_ns, cycle)
        # A drain may end after the cycle that its stretch began in.
        calm = turns * count + bisect_right(drained, phase) - 1
        while drained[calm % count] + calm // count * cycle > calm_ns:
            calm -= 1
        while drained[(calm + 1) % count] + (calm + 1) // count * cycle <= calm_ns:
            calm += 1
        if steady:
            position = bisect_left(steady, index) - 1
            calm = max(calm, steady[position] - (count if position < 0 else 0))
        return hopeful[calm % count].start_ns + calm // count * cycle

    def _drained_ns(self, stretch: _Stretch, since_ns: int, lost_ns: int) -> int | None:
        """When it has sent all that came from `since_ns` on; None if it ends before."""
        by = stretch.start_ns
        while by <= stretch.end_ns:
            work = self._work_ns(since_ns, by)
            needed = stretch.start_ns + self._against.needed_ns(work) + lost_ns
            if needed <= by:
                return by
            by = needed
        return None

    def _work_ns(self, after_ns: int, until_ns: int) -> int:
        """The most that can arrive in (after, until]."""
        return sum(
            a.wire_ns
            * ((until_ns - a.earliest_ns) // a.period_ns - (after_ns - a.latest_ns) // a.period_ns)
            for a in self._arrivals
        )

    def _first_after(self, time_ns: int) -> int:
        """The number of the first stretch that starts at `time_ns` or later, over all cycles."""
        turns, phase = divmod(time_ns, self.cycle_ns)
        return turns * len(self._starts) + bisect_left(self._starts, phase)

    def _at(self, index: int) -> _Stretch:
        turns, index = divmod(index, len(self._stretches))
        return self._stretches[index].later(turns * self.cycle_ns)
