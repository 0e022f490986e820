"""A gate control list that is edited in place: a frame more or less changes a few of its entries.

The list is the one that `gates` makes of all windows: around each window edges depend on the next
one alone. It holds every frame back, and has no spare room.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import lcm
from operator import sub

from cnc.model import ClassRole, GateControlList, GateEntry, Intent, Link
from cnc.planner.edges import gate_entry
from cnc.planner.gates import Window, clear_of_seam, unrolled
from cnc.planner.ports import guard_band_ns, interval_max_ns, interval_min_ns

_FEW = 4  # windows of a cycle, among which what is before one may also be behind it

_Frame = tuple[int, int, int]
_Edge = tuple[int, int]


def may_be_edited(intent: Intent, link: Link) -> bool:
    """Whether a port has a list of this kind: none of a talker, and no entry that is cut."""
    return link.source.node in intent.network.bridges and not interval_max_ns(link)


class EditedList:
    """The list of a port whose cycle does not change, of at least some windows."""

    def __init__(
        self,
        intent: Intent,
        link: Link,
        cycle_ns: int,
        windows: Iterable[tuple[int, Window]],
        gates: GateControlList,
    ) -> None:
        """`gates` is the list for `windows`, which have the periods of their frames with them."""
        self.cycle_ns = cycle_ns
        self._tick_ns = link.gate_tick_ns
        self._control = sum(1 << c.number for c in intent.classes_with(ClassRole.CONTROL))
        best_effort = intent.classes_with(ClassRole.BEST_EFFORT)
        self._everyone = self._control | sum(1 << c.number for c in best_effort)
        self._shortest_ns = interval_min_ns(link)
        self._guard_ns = guard_band_ns(intent, link)
        self._frames = unrolled(windows := tuple(windows), cycle_ns, link.gate_tick_ns)
        self._periods = Counter(period_ns for period_ns, _ in windows)
        self._times: list[int] = []
        self._states: list[int] = []
        at = 0
        for entry in gates.entries:
            # Where the cycle begins is no edge if nothing changes there.
            if at or entry.gate_states != gates.entries[-1].gate_states:
                self._times.append(at)
                self._states.append(entry.gate_states)
            at += entry.interval_ns
        self._entries: list[GateEntry] = []  # from each time on until the next, or the cycle's end
        self._renew_entries(0, 0, len(self._times))

    @property
    def is_long(self) -> bool:
        """Whether there are windows enough to edit it."""
        return len(self._frames) > _FEW

    def is_long_beside(self, period_ns: int) -> bool:
        """Whether there are windows enough to edit it besides those of one stream."""
        return len(self._frames) - self.cycle_ns // period_ns > _FEW

    @property
    def is_shorter(self) -> bool:
        """Whether what is left repeats in less than the cycle."""
        return lcm(*self._periods) != self.cycle_ns

    def gates(self) -> GateControlList:
        """The list as it is now."""
        first = self._times[0]
        before = [gate_entry(self._states[-1], first)] if first else []
        return GateControlList(self.cycle_ns, (*before, *self._entries))

    def add(self, period_ns: int, window: Window) -> None:
        """Open the gate once more in each period."""
        self._periods[period_ns] += 1
        for frame in unrolled([(period_ns, window)], self.cycle_ns, self._tick_ns):
            index = bisect_left(self._frames, frame)
            self._frames.insert(index, frame)
            self._renew(index - 1, index + 1)

    def remove(self, period_ns: int, window: Window) -> None:
        """Keep it shut then."""
        self._periods -= Counter((period_ns,))
        for frame in unrolled([(period_ns, window)], self.cycle_ns, self._tick_ns):
            index = bisect_left(self._frames, frame)
            del self._frames[index]
            self._renew(index - 1, index)

    def _renew(self, one: int, other: int) -> None:
        """Make the edges anew from the opening of one window to that of another behind it, either
        of which may be in another cycle."""
        cycle = self.cycle_ns
        if one >= 0 and other < len(self._frames):
            frames = self._frames[one : other + 1]
        else:
            frames = self._in_other_cycles(one, other)
        edges = list[_Edge]()
        for window, following in pairwise(frames):
            edges += self._edges(window, following)
        begin, (end, _, number) = frames[0][0], frames[-1]
        edges.append((end, self._control | 1 << number))
        first = bisect_left(self._times, begin)
        state, kept = self._states[first - 1], list[_Edge]()
        for edge in edges:  # but those at which nothing changes
            if edge[1] != state:
                kept.append(edge)
                state = edge[1]
        if end < cycle:
            self._splice(first, bisect_right(self._times, end), kept)
            return
        behind = bisect_right(self._times, end - cycle)
        self._splice(first, len(self._times), [edge for edge in kept if edge[0] < cycle])
        self._splice(0, behind, [(at - cycle, state) for at, state in kept if at >= cycle])

    def _in_other_cycles(self, one: int, other: int) -> list[_Frame]:
        """Successive windows, the first of them in this cycle, or counted as if it were."""
        count, cycle = len(self._frames), self.cycle_ns
        later = cycle if one < 0 else 0
        frames: list[_Frame] = []
        for n in range(one, other + 1):
            opens, ends, number = self._frames[n % count]
            by = n // count * cycle + later
            frames.append((opens + by, ends + by, number))
        return frames

    def _splice(self, first: int, behind: int, edges: Sequence[_Edge]) -> None:
        self._times[first:behind] = [at for at, _ in edges]
        self._states[first:behind] = [state for _, state in edges]
        self._renew_entries(first, behind, first + len(edges))

    def _renew_entries(self, first: int, behind: int, end: int) -> None:
        """Make those anew from `first` on that were up to `behind`, now up to `end`, and the one
        before them, which lasts until the first of them."""
        since = max(first - 1, 0)
        times = [*self._times[since : end + 1], self.cycle_ns]
        lengths = map(sub, times[1:], times[: end - since])
        self._entries[since:behind] = map(gate_entry, self._states[since:end], lengths)

    def _edges(self, window: _Frame, following: _Frame) -> tuple[_Edge, ...]:
        """Those of a window, and of best effort's turn behind it (`gates`)."""
        opens, close, number = window
        control, shortest = self._control, self._shortest_ns
        opening = opens, control | 1 << number
        if following[0] - close < shortest:
            return (opening,)
        shut = following[0] - self._guard_ns
        if not shortest <= shut <= self.cycle_ns - shortest:
            shut = clear_of_seam(shut, self.cycle_ns, shortest)
        if shut - close < shortest:
            return opening, (close, control)
        return opening, (close, self._everyone), (shut, control)
