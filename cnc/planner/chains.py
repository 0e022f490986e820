"""How long frames can go on making each other late, where ports feed each other in a ring.

A frame that comes late may make those late that are there before the backlog is gone, each of these
others on its next port, and so on, always later in time. Unless such a chain goes round and round,
cycle after cycle, it ends.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from math import lcm
from typing import NamedTuple

_TURNS_MAX = 16  # cycles; a longer chain is taken for one without an end


class Passage(NamedTuple):
    """A frame of each period on one of the ports: there on time from `first_ns` to `last_ns`.

    If it comes late, that is after `latest_ns`; `gone_ns` has by when it is gone then, and
    everything with it, for the periods that begin at 0, at one period, and so on. `following` are
    the numbers of its passages on the next of the ports.
    """

    port: int
    traffic_class: int
    period_ns: int
    first_ns: int
    latest_ns: int
    last_ns: int
    gone_ns: Sequence[int]
    following: Sequence[int]


# Who comes late because of a late frame: how long after it, and the number.
_Delayed = list[tuple[int, int]]


def longest_chain_ns(passages: Sequence[Passage]) -> int | None:
    """From the first late arrival to the last late departure; None if a chain need not end."""
    if not passages:
        return 0
    cycle = lcm(*{passage.period_ns for passage in passages})
    late, ports = _unrolled(passages, cycle)
    lasts = [gone - begin for begin, gone, _ in late]
    if max(lasts) >= cycle:
        return None
    present = {port: _Present(cycle, stays) for port, stays in ports.items()}
    delayed: dict[int, _Delayed] = {}
    for number, (begin, gone, its) in enumerate(late):
        if its.port in present:
            delayed[number] = present[its.port].delayed(begin, gone, its.traffic_class)
    latest_first = [
        (begin, number, delayed[number])
        for begin, number in sorted(((late[n][0], n) for n in delayed), reverse=True)
        if delayed[number]
    ]
    return _raised(lasts, latest_first, cycle)


def _raised(
    lasts: list[int], latest_first: Sequence[tuple[int, int, _Delayed]], cycle_ns: int
) -> int | None:
    """The greatest of `lasts`, how long what each late frame does lasts by itself, when those
    count that it makes late, and so on; `latest_first` has the late frames of a cycle.

    Whom one makes late comes after it, so one turn from the last to the first knows all but those
    of the next cycle; later turns go back as far as that makes a difference.
    """
    furthest = max((after for _, _, its in latest_first for after, _ in its), default=0)
    for turn in range(_TURNS_MAX):
        raised_at = cycle_ns
        for begin, number, delayed in latest_first:
            if turn and raised_at - begin > furthest:
                break
            longest = max([after + lasts[other] for after, other in delayed])
            if longest > lasts[number]:
                lasts[number] = longest
                raised_at = begin
        if turn and raised_at == cycle_ns:
            return max(lasts)
    return None


_Stay = tuple[int, int, int, _Delayed]


def _unrolled(
    passages: Sequence[Passage], cycle_ns: int
) -> tuple[list[tuple[int, int, Passage]], dict[int, list[_Stay]]]:
    """Every period of the passages in a cycle: from when to when it lasts if it comes late; and by
    port, if others follow it, when it is on time, its class, and who comes late if it leaves late:
    how long after it came, and the number.
    """
    numbers = []  # of the first period of each passage
    count = 0
    for passage in passages:
        numbers.append(count)
        count += cycle_ns // passage.period_ns
    late = []
    ports: defaultdict[int, list[_Stay]] = defaultdict(list)
    for its in passages:
        stay_ns = its.last_ns - its.first_ns
        for period, gone in enumerate(its.gone_ns):
            turns, begin = divmod(its.latest_ns + period * its.period_ns, cycle_ns)
            late.append((begin, gone - turns * cycle_ns, its))
            if its.following:
                start = (its.first_ns + period * its.period_ns) % cycle_ns
                following = [
                    (
                        passages[n].latest_ns - its.first_ns,
                        numbers[n] + period % (cycle_ns // passages[n].period_ns),
                    )
                    for n in its.following
                ]
                ports[its.port].append((start, start + stay_ns, its.traffic_class, following))
    return late, ports


class _Present:
    """Who is on a port on time, and when, in a cycle that repeats."""

    def __init__(self, cycle_ns: int, stays: list[_Stay]) -> None:
        self._cycle_ns = cycle_ns
        self._stays = sorted(stays)
        self._firsts = [first for first, _, _, _ in self._stays]
        self._longest_ns = max(last - first for first, last, _, _ in stays)

    def delayed(self, begin_ns: int, gone_ns: int, traffic_class: int) -> _Delayed:
        """Who comes late elsewhere because of a frame that is late here meanwhile."""
        found = []
        earliest = begin_ns - self._longest_ns
        for turn in range(earliest // self._cycle_ns, gone_ns // self._cycle_ns + 1):
            base = turn * self._cycle_ns
            low = bisect_left(self._firsts, earliest - base)
            high = bisect_right(self._firsts, gone_ns - base, low)
            for first, last, its_class, following in self._stays[low:high]:
                # One of a greater class goes first.
                if base + last >= begin_ns and its_class <= traffic_class:
                    since = base + first - begin_ns
                    found += [(since + after, number) for after, number in following]
        return found
