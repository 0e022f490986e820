"""How far lateness spreads among ports that feed each other: a walk along who delays whom.

A late frame delays those that are on its port, on time, before its queue is drained. These come
late to their next ports. Where that leads back to a frame of a later cycle, it never stops.
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

    `late_until_ns` has for each period of the cycle when the queues are drained that it delays if
    it is late. It goes on as the stays of the numbers `onward`.
    """

    port: PortRef
    traffic_class: int
    period_ns: int
    earliest_ns: int
    left_ns: int
    late_until_ns: Sequence[int]
    onward: Sequence[int]


_Late = tuple[int, int]  # the number of a stay, and of one of its periods


def spread_ns(stays: Sequence[Stay]) -> int | None:
    """The longest time from a late arrival until nothing is late because of it; None: for ever."""
    if not stays:
        return 0
    return _Spread(stays).longest_ns()


class _Spread:
    def __init__(self, stays: Sequence[Stay]) -> None:
        self._stays = stays
        self._cycle_ns = lcm(*{stay.period_ns for stay in stays})
        self._on_time: defaultdict[PortRef, list[tuple[int, int, int]]] = defaultdict(list)
        for number, stay in enumerate(stays):
            if stay.onward:
                for period in range(self._periods(stay)):
                    start = stay.earliest_ns + period * stay.period_ns
                    turns = start // self._cycle_ns
                    folded = period - turns * self._periods(stay)
                    at = start - turns * self._cycle_ns
                    self._on_time[stay.port].append((at, number, folded))
        for port in self._on_time.values():
            port.sort()
        self._longest_ns = max(stay.left_ns - stay.earliest_ns for stay in stays)
        self._known: dict[_Late, int] = {}

    def _periods(self, stay: Stay) -> int:
        return self._cycle_ns // stay.period_ns

    def longest_ns(self) -> int | None:
        """Depth first: a node that is met again on its own way is late for ever."""
        for number, stay in enumerate(self._stays):
            for period in range(self._periods(stay)):
                if not self._explore((number, period)):
                    return None
        return max(self._known.values())

    def _explore(self, first: _Late) -> bool:
        if first in self._known:
            return True
        if not self._ends(first):
            return False
        way = [(first, self._delayed(first), [self._duration_ns(first)])]
        on_way = {first}
        while way:
            late, delayed, longest = way[-1]
            for following, after_ns in delayed:
                if following in on_way:
                    return False
                if following not in self._known:
                    if not self._ends(following):
                        return False
                    way[-1] = late, iter([(following, after_ns), *delayed]), longest
                    way.append(
                        (following, self._delayed(following), [self._duration_ns(following)])
                    )
                    on_way.add(following)
                    break
                longest.append(after_ns + self._known[following])
            else:
                self._known[late] = max(longest)
                on_way.discard(late)
                way.pop()
        return True

    def _duration_ns(self, late: _Late) -> int:
        number, period = late
        stay = self._stays[number]
        return stay.late_until_ns[period] - stay.earliest_ns - period * stay.period_ns

    def _ends(self, late: _Late) -> bool:
        return self._duration_ns(late) < self._cycle_ns

    def _delayed(self, late: _Late) -> Iterator[tuple[_Late, int]]:
        """Late arrivals on other ports that a late one causes, and how much later than it."""
        stay = self._stays[late[0]]
        begin = stay.earliest_ns + late[1] * stay.period_ns
        end = stay.late_until_ns[late[1]]
        on_time = self._on_time.get(stay.port, [])
        since = begin - self._longest_ns
        for turn in range(since // self._cycle_ns, end // self._cycle_ns + 1):
            base = turn * self._cycle_ns
            low = bisect_left(on_time, (since - base,))
            high = bisect_right(on_time, (end - base + 1,))
            for at, number, folded in on_time[low:high]:
                other = self._stays[number]
                leaves = base + at + other.left_ns - other.earliest_ns
                if other.traffic_class > stay.traffic_class or leaves < begin:
                    continue
                period = folded + turn * self._periods(other)
                for onward in other.onward:
                    after = self._stays[onward].earliest_ns + period * other.period_ns - begin
                    yield (onward, period % self._periods(other)), after
