"""How long frames can go on making each other late, where ports feed each other in a ring.

A frame that comes late may make those late that are there before the backlog is gone, each of these
others on its next port, and so on, always later in time. Unless such a chain goes round and round,
cycle after cycle, it ends.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import lcm
from typing import NamedTuple


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


# Frames of one period are tuples, of which there are very many. A late one: its port, when it
# comes, when it is gone, and its class.
_Late = tuple[int, int, int, int]
# Who comes late because of another: how long after it, and the number.
_Delayed = tuple[int, int]
# One on time on a port: when it is there first and last, its class, and who comes late if it leaves
# late, counted from when it is there first.
_Stay = tuple[int, int, int, list[_Delayed]]

_ON_WAY, _KNOWN = 1, 2


def longest_chain_ns(passages: Sequence[Passage]) -> int | None:
    """From the first late arrival to the last late departure; None if a chain need not end."""
    if not passages:
        return 0
    cycle = lcm(*{passage.period_ns for passage in passages})
    late, stays = _unrolled(passages, cycle)
    lasts = [gone - begin for _, begin, gone, _ in late]
    if max(lasts) >= cycle:
        return None
    ports = {port: _Port(its, cycle) for port, its in stays.items()}
    return _raised(lasts, lambda number: _delayed(ports, late[number]))


def _raised(lasts: list[int], delayed_by: Callable[[int], Iterator[_Delayed]]) -> int | None:
    """The greatest of `lasts`, how long what each late frame does lasts by itself, when those
    count that it makes late, and so on; None if one makes itself late so.

    Depth first, so that each is asked once whom it delays, and one that makes itself late is met
    soon: where rings are full most do.
    """
    met = bytearray(len(lasts))
    for first in range(len(lasts)):
        if met[first]:
            continue
        met[first] = _ON_WAY
        way = [(first, 0, delayed_by(first))]
        while way:
            number, since, delayed = way[-1]
            for after, other in delayed:
                if met[other] == _KNOWN:
                    lasts[number] = max(lasts[number], after + lasts[other])
                elif met[other]:
                    return None
                else:
                    met[other] = _ON_WAY
                    way.append((other, after, delayed_by(other)))
                    break
            else:
                met[number] = _KNOWN
                way.pop()
                if way:
                    before = way[-1][0]
                    lasts[before] = max(lasts[before], since + lasts[number])
    return max(lasts)


def _unrolled(
    passages: Sequence[Passage], cycle_ns: int
) -> tuple[list[_Late], dict[int, list[_Stay]]]:
    """Every period of the passages in a cycle: as it comes late, by number, and, if it goes on to
    another port, as it is there on time, by port."""
    numbers = []  # of the first period of each passage
    count = 0
    for passage in passages:
        numbers.append(count)
        count += cycle_ns // passage.period_ns
    late: list[_Late] = []
    stays: defaultdict[int, list[_Stay]] = defaultdict(list)
    for port, its_class, period, first, latest, last, gone_ns, following in passages:
        onward = [
            (passages[n].latest_ns - first, numbers[n], cycle_ns // passages[n].period_ns)
            for n in following
        ]
        for index, gone in enumerate(gone_ns):
            turns, begin = divmod(latest + index * period, cycle_ns)
            late.append((port, begin, gone - turns * cycle_ns, its_class))
            if following:
                start = (first + index * period) % cycle_ns
                delayed = [(after, base + index % count) for after, base, count in onward]
                stays[port].append((start, start + last - first, its_class, delayed))
    return late, stays


class _Port:
    """Who is on a port on time, in order."""

    def __init__(self, stays: list[_Stay], cycle_ns: int) -> None:
        self.cycle_ns = cycle_ns
        self.stays = sorted(stays)
        self.firsts = [first for first, _, _, _ in self.stays]
        self.longest_ns = max(last - first for first, last, _, _ in stays)


def _delayed(ports: Mapping[int, _Port], late: _Late) -> Iterator[_Delayed]:
    """Whom a late frame makes late elsewhere: those that are on time on its port meanwhile."""
    number, begin, gone, its_class = late
    port = ports.get(number)
    if port is None:
        return
    cycle, firsts, stays = port.cycle_ns, port.firsts, port.stays
    earliest = begin - port.longest_ns
    for turn in range(earliest // cycle, gone // cycle + 1):
        base = turn * cycle
        low = bisect_left(firsts, earliest - base)
        high = bisect_right(firsts, gone - base, low)
        for first, last, other_class, following in stays[low:high]:
            # One of a greater class goes first.
            if base + last >= begin and other_class <= its_class:
                since = base + first - begin
                for after, other in following:
                    yield since + after, other
