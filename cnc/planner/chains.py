"""How long frames can go on making each other late, where ports feed each other in a ring.

A frame that comes late may make those late that come before the backlog is gone, each of these
others on its next port, and so on, always later in time. Unless such a chain can come back to the
same frame of a later cycle, it ends.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from math import lcm
from typing import NamedTuple


class Passage(NamedTuple):
    """A frame of each period on one of the ports: there on time from `first_ns` to `last_ns`.

    `gone_ns` tells by when one that is late is gone, in the period that begins at a given time, and
    everything with it. `following` are the numbers of its passages on the next of the ports.
    """

    port: int
    traffic_class: int
    period_ns: int
    first_ns: int
    last_ns: int
    gone_ns: Callable[[int], int]
    following: Sequence[int]


_Node = tuple[int, int]  # the number of a passage, and of a period in the cycle


def longest_chain_ns(passages: Sequence[Passage]) -> int | None:
    """From the first late arrival to the last late departure; None if a chain need not end."""
    if not passages:
        return 0
    cycle = lcm(*{passage.period_ns for passage in passages})
    followed: defaultdict[int, list[tuple[int, Passage]]] = defaultdict(list)
    for number, passage in enumerate(passages):
        if passage.following:
            followed[passage.port].append((number, passage))
    present = {port: _Present(cycle, numbered) for port, numbered in followed.items()}
    links: dict[_Node, dict[_Node, int]] = {}
    ends: dict[_Node, int] = {}
    for number, late in enumerate(passages):
        for period in range(cycle // late.period_ns):
            shift = period * late.period_ns
            begin, end = late.first_ns + shift, late.gone_ns(shift)
            if end - begin >= cycle:
                return None
            ends[number, period] = end - begin
            links[number, period] = {}
            if late.port in present:
                met = present[late.port].during(begin, end)
                links[number, period] = _delayed(passages, late, met, begin, cycle)
    try:
        order = list(TopologicalSorter(links).static_order())
    except CycleError:
        return None
    for node in order:  # those that it may make late come first
        chained = (after + ends[child] for child, after in links[node].items())
        ends[node] = max((ends[node], *chained))
    return max(ends.values())


def _delayed(
    passages: Sequence[Passage],
    late: Passage,
    met: Iterable[_Node],
    begin_ns: int,
    cycle_ns: int,
) -> dict[_Node, int]:
    """What comes late elsewhere because of a frame that was late from `begin_ns` on, among those
    that it `met`, and how much later."""
    found: dict[_Node, int] = {}
    for other, period in met:
        its = passages[other]
        if its.traffic_class > late.traffic_class:
            continue  # it goes first
        for following in its.following:
            after = passages[following].first_ns + period * its.period_ns - begin_ns
            node = following, period % (cycle_ns // its.period_ns)
            found[node] = max(after, found.get(node, after))
    return found


class _Present:
    """Who is on a port on time, and when, in a cycle that repeats."""

    def __init__(self, cycle_ns: int, numbered: Sequence[tuple[int, Passage]]) -> None:
        self._cycle_ns = cycle_ns
        self._stays = sorted(
            (start % cycle_ns, number, period - start // cycle_ns * (cycle_ns // its.period_ns))
            for number, its in numbered
            for period in range(cycle_ns // its.period_ns)
            for start in [its.first_ns + period * its.period_ns]
        )
        self._length_ns = {number: its.last_ns - its.first_ns for number, its in numbered}
        self._periods = {number: cycle_ns // its.period_ns for number, its in numbered}
        self._starts = [start for start, _, _ in self._stays]
        self._longest_ns = max(self._length_ns.values(), default=0)

    def during(self, begin_ns: int, end_ns: int) -> Iterator[tuple[int, int]]:
        """The passages that overlap that time, each with the number of its period."""
        earliest = begin_ns - self._longest_ns
        for turn in range(earliest // self._cycle_ns, end_ns // self._cycle_ns + 1):
            base = turn * self._cycle_ns
            low = bisect_left(self._starts, earliest - base)
            high = bisect_right(self._starts, end_ns - base)
            for start, number, period in self._stays[low:high]:
                if base + start + self._length_ns[number] >= begin_ns:
                    yield number, period + turn * self._periods[number]
