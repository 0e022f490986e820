"""How far lateness spreads among ports that feed each other: a walk along who delays whom.

A late frame delays those that are on its port, on time, before it is drained. These come late to
their next ports. Where that leads back to a frame of a later cycle, it never stops.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import lcm
from typing import NamedTuple

from cnc.model import PortRef


class Stay(NamedTuple):
    """A frame of each period on a port: on time from `earliest_ns` to `left_ns`.

    It is late if it comes after `due_ns`. `late_until_ns` has for each period of the cycle when the
    queues are drained that it delays then. It goes on as the stays of the numbers `onward`.
    """

    port: PortRef
    traffic_class: int
    period_ns: int
    earliest_ns: int
    due_ns: int
    left_ns: int
    late_until_ns: Sequence[int]
    onward: Sequence[int]


# Late frames are known by numbers, those of one stay in a row. What one delays: how much later than
# itself each late arrival is that it causes, and the number.
_Delayed = list[tuple[int, int]]
# A frame on time: from when to when it is there, its class, and, counted from when it comes, what
# it delays in its turn.
_OnTime = tuple[int, int, int, _Delayed]


def spread_ns(stays: Sequence[Stay]) -> int | None:
    """The longest time from a late arrival until nothing is late because of it; None: for ever."""
    if not stays:
        return 0
    return _Spread(stays).longest_ns()


class _Spread:
    def __init__(self, stays: Sequence[Stay]) -> None:
        self._cycle_ns = lcm(*{stay.period_ns for stay in stays})
        self._late: list[tuple[int, int, Stay]] = []  # from when to when one is there
        firsts = []  # the number of each stay's
        for stay in stays:
            firsts.append(len(self._late))
            for period, until in enumerate(stay.late_until_ns):
                self._late.append((stay.due_ns + period * stay.period_ns, until, stay))
        self._on_time: defaultdict[PortRef, list[_OnTime]] = defaultdict(list)
        for stay in stays:
            if stay.onward:
                onward = [(stays[n].due_ns - stay.earliest_ns, firsts[n]) for n in stay.onward]
                self._on_time[stay.port] += self._periods(stay, onward)
        for port in self._on_time.values():
            port.sort()
        self._times = {port: [its[0] for its in many] for port, many in self._on_time.items()}
        self._longest_ns = max(stay.left_ns - stay.earliest_ns for stay in stays)
        self._known: list[int | None] = [None] * len(self._late)

    def _periods(self, stay: Stay, onward: Sequence[tuple[int, int]]) -> Iterator[_OnTime]:
        """A stay in each period of the cycle, its start within the cycle; its frames go `onward` as
        late as that and as the number of the first one says."""
        length = stay.left_ns - stay.earliest_ns
        count = self._cycle_ns // stay.period_ns
        for period in range(count):
            at = (stay.earliest_ns + period * stay.period_ns) % self._cycle_ns
            delayed = [(after, first + period) for after, first in onward]
            yield at, at + length, stay.traffic_class, delayed

    def longest_ns(self) -> int | None:
        """Depth first: one that is met again on its own way is late for ever."""
        for late in range(len(self._late)):
            if self._known[late] is None and not self._explore(late):
                return None
        return max(its for its in self._known if its is not None)

    def _explore(self, first: int) -> bool:
        """Find out how long what is late because of `first` is; False: for ever."""
        known = self._known
        way = [(first, self._delayed(first))]
        on_way = {first}
        while way:
            late, delayed = way[-1]
            if delayed is None:
                return False
            longest = 0
            for after_ns, following in delayed:
                lasts = known[following]
                if lasts is None:
                    if following in on_way:
                        return False
                    on_way.add(following)
                    way.append((following, self._delayed(following)))
                    break
                longest = max(longest, after_ns + lasts)
            else:
                due, until, _ = self._late[late]
                known[late] = max(longest, until - due)
                on_way.discard(late)
                way.pop()
        return True

    def _delayed(self, late: int) -> _Delayed | None:
        """Late arrivals on other ports that a late one causes; None if it is there for a whole
        cycle."""
        due, end, stay = self._late[late]
        if end - due >= self._cycle_ns:
            return None
        delayed: _Delayed = []
        if stay.port not in self._times:
            return delayed
        times, on_time = self._times[stay.port], self._on_time[stay.port]
        since = due - self._longest_ns
        for turn in range(since // self._cycle_ns, end // self._cycle_ns + 1):
            base = turn * self._cycle_ns
            low = bisect_left(times, since - base)
            for at, left, traffic_class, onward in on_time[low : bisect_right(times, end - base)]:
                if traffic_class <= stay.traffic_class and base + left >= due:
                    later = base + at - due
                    delayed += [(later + after_ns, which) for after_ns, which in onward]
        return delayed
