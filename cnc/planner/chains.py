"""How long frames can go on making each other late, where ports feed each other in a ring.

A frame that comes late may make those late that are there before the backlog is gone, each of these
others on its next port, and so on, always later in time. Unless such a chain goes round and round,
cycle after cycle, it ends.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import lcm
from operator import itemgetter
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


# Frames of one period are tuples, of which there are very many. A late one on a port: when it
# comes, when it is gone, its class, and its number.
_Late = tuple[int, int, int, int]
# Who comes late because of another: how long after it, and the number.
_Delayed = list[tuple[int, int]]
# One on time on a port: when it is there first and last, its class, and who comes late if it leaves
# late, counted from when it is there first.
_Stay = tuple[int, int, int, _Delayed]
# A late one that makes others late: when it comes, its number, and whom.
_Cause = tuple[int, int, _Delayed]


def longest_chain_ns(passages: Sequence[Passage]) -> int | None:
    """From the first late arrival to the last late departure; None if a chain need not end."""
    if not passages:
        return 0
    cycle = lcm(*{passage.period_ns for passage in passages})
    late, stays = _unrolled(passages, cycle)
    lasts = [0] * sum(map(len, late.values()))
    for on_port in late.values():
        for begin, gone, _, number in on_port:
            lasts[number] = gone - begin
    if max(lasts) >= cycle:
        return None
    causes = [cause for port in stays for cause in _causes(late[port], stays[port], cycle)]
    causes.sort(key=itemgetter(0, 1), reverse=True)
    return _raised(lasts, causes, cycle)


def _raised(lasts: list[int], latest_first: Sequence[_Cause], cycle_ns: int) -> int | None:
    """The greatest of `lasts`, how long what each late frame does lasts by itself, when those
    count that it makes late, and so on; `latest_first` has the late frames of a cycle.

    Whom one makes late comes after it, so one turn from the last to the first knows all but those
    of the next cycle; later turns go back as far as that makes a difference.
    """
    furthest = max([max(delayed)[0] for _, _, delayed in latest_first], default=0)
    for turn in range(_TURNS_MAX):
        raised_at = cycle_ns
        for begin, number, delayed in latest_first:
            if turn and raised_at - begin > furthest:
                break
            longest = lasts[number]
            for after, other in delayed:
                longest = max(longest, after + lasts[other])
            if longest > lasts[number]:
                lasts[number] = longest
                raised_at = begin
        if turn and raised_at == cycle_ns:
            return max(lasts)
    return None


def _unrolled(
    passages: Sequence[Passage], cycle_ns: int
) -> tuple[dict[int, list[_Late]], dict[int, list[_Stay]]]:
    """Every period of the passages in a cycle, by port: as it comes late, and, if it goes on to
    another port, as it is there on time."""
    numbers = []  # of the first period of each passage
    count = 0
    for passage in passages:
        numbers.append(count)
        count += cycle_ns // passage.period_ns
    late: defaultdict[int, list[_Late]] = defaultdict(list)
    stays: defaultdict[int, list[_Stay]] = defaultdict(list)
    for passage, number in zip(passages, numbers, strict=True):
        port, its_class, period, first, latest, last, gone_ns, following = passage
        onward = [
            (passages[n].latest_ns - first, numbers[n], cycle_ns // passages[n].period_ns)
            for n in following
        ]
        on_port, present = late[port], stays[port] if following else []
        for index, gone in enumerate(gone_ns):
            turns, begin = divmod(latest + index * period, cycle_ns)
            on_port.append((begin, gone - turns * cycle_ns, its_class, number + index))
            if following:
                start = (first + index * period) % cycle_ns
                delayed = [(after, base + index % count) for after, base, count in onward]
                present.append((start, start + last - first, its_class, delayed))
    return late, stays


def _causes(late: Iterable[_Late], stays: list[_Stay], cycle_ns: int) -> Iterator[_Cause]:
    """Whom late frames on a port make late elsewhere: those that are on time here meanwhile."""
    stays.sort()
    firsts = [first for first, _, _, _ in stays]
    longest = max(last - first for first, last, _, _ in stays)
    for begin, gone, its_class, number in late:
        delayed: _Delayed = []
        earliest = begin - longest
        for turn in range(earliest // cycle_ns, gone // cycle_ns + 1):
            base = turn * cycle_ns
            low = bisect_left(firsts, earliest - base)
            high = bisect_right(firsts, gone - base, low)
            for first, last, other_class, following in stays[low:high]:
                # One of a greater class goes first.
                if base + last >= begin and other_class <= its_class:
                    since = base + first - begin
                    for after, other in following:
                        delayed.append((since + after, other))
        if delayed:
            yield begin, number, delayed
