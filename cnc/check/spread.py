"""How far lateness spreads among ports that feed each other: a walk along who delays whom.

A late frame delays those that are on its port, on time, before it is drained. These come late to
their next ports. Where that leads back to a frame of a later cycle, it never stops.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
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
        self._periods = [self._cycle_ns // stay.period_ns for stay in stays]
        self._on_time: defaultdict[PortRef, list[tuple[int, int, int]]] = defaultdict(list)
        for number, stay in enumerate(stays):
            if stay.onward:
                for period in range(self._periods[number]):
                    start = stay.earliest_ns + period * stay.period_ns
                    turns = start // self._cycle_ns
                    folded = period - turns * self._periods[number]
                    at = start - turns * self._cycle_ns
                    self._on_time[stay.port].append((at, number, folded))
        for port in self._on_time.values():
            port.sort()
        self._longest_ns = max(stay.left_ns - stay.earliest_ns for stay in stays)
        self._known: dict[_Late, int] = {}

    def longest_ns(self) -> int | None:
        """Depth first: a node that is met again on its own way is late for ever."""
        for number, periods in enumerate(self._periods):
            for period in range(periods):
                if (number, period) not in self._known and not self._explore((number, period)):
                    return None
        return max(self._known.values())

    def _explore(self, first: _Late) -> bool:
        """Find out how long what is late because of `first` is; False: for ever."""
        known = self._known
        way = [(first, self._delayed(first))]
        on_way = {first}
        while way:
            late, delayed = way[-1]
            if delayed is None:
                return False
            for following, _ in delayed:
                if following not in known:
                    if following in on_way:
                        return False
                    on_way.add(following)
                    way.append((following, self._delayed(following)))
                    break
            else:
                after = (after_ns + known[following] for following, after_ns in delayed)
                known[late] = max(self._duration_ns(late), *after, 0)
                on_way.discard(late)
                way.pop()
        return True

    def _duration_ns(self, late: _Late) -> int:
        number, period = late
        stay = self._stays[number]
        return stay.late_until_ns[period] - stay.due_ns - period * stay.period_ns

    def _delayed(self, late: _Late) -> list[tuple[_Late, int]] | None:
        """Late arrivals on other ports that a late one causes, and how much later than it; None if
        it is there for a whole cycle."""
        number, period = late
        stay = self._stays[number]
        due = stay.due_ns + period * stay.period_ns
        end = stay.late_until_ns[period]
        if end - due >= self._cycle_ns:
            return None
        delayed = []
        on_time = self._on_time.get(stay.port, [])
        since = due - self._longest_ns
        for turn in range(since // self._cycle_ns, end // self._cycle_ns + 1):
            base = turn * self._cycle_ns
            low = bisect_left(on_time, (since - base,))
            high = bisect_right(on_time, (end - base + 1,))
            for at, met, folded in on_time[low:high]:
                other = self._stays[met]
                if other.traffic_class > stay.traffic_class:
                    continue
                if base + at + other.left_ns - other.earliest_ns < due:
                    continue
                begin = (folded + turn * self._periods[met]) * other.period_ns - due
                for onward in other.onward:
                    its = self._stays[onward]
                    which = (begin + due) // its.period_ns % self._periods[onward]
                    delayed.append(((onward, which), begin + its.due_ns))
        return delayed
