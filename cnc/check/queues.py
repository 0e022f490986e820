"""Frames that share a link or a queue: each in its own time, and none out of its turn.

Those that share windows of one class are one to others; what they do to each other is for
`cnc.check.shared` to say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise, repeat, takewhile
from math import lcm
from operator import itemgetter
from typing import NamedTuple

from cnc.account.frames import Transmission
from cnc.account.violation import Violation


def judge_links(transmissions: Iterable[Transmission]) -> Iterator[Violation]:
    """One frame at a time on each link, whatever delays it."""
    by_port = defaultdict(list)
    for t in transmissions:
        by_port[t.egress].append(t)
    for port, on_link in by_port.items():
        hyperperiod = lcm(*{t.period_ns for t in on_link})
        if _are_apart(on_link, hyperperiod):
            continue
        is_shared = any(t.is_shared for t in on_link)
        # One cycle more, where what begins in the first may last for longer than its beginning.
        until = hyperperiod * (1 + is_shared)
        each: list[_OnLink] = []
        for t in on_link:
            starts = range(t.offset_ns % t.period_ns, until, t.period_ns)
            lasts = t.busy_until_ns - t.offset_ns
            ends = range(starts.start + lasts, until + lasts, t.period_ns)
            each += zip(starts, ends, repeat(t.stream), repeat(_shared_class(t)))
        each.sort(key=itemgetter(0, 1, 2))
        if is_shared:
            each = _together(each)
        start, end, stream, shared = each[0]
        each.append((start + until, end + until, stream, shared))
        reported = set()
        for one, other in pairwise(each):
            if one[1] <= other[0] or (one[3] is not None and one[3] == other[3]):
                continue
            if (pair := frozenset((one[2], other[2]))) not in reported:
                reported.add(pair)
                text = (
                    f"{one[2]} may be on the link until {one[1]} ns, {other[2]} is planned for "
                    f"{other[0]} ns"
                )
                yield Violation("overlap", str(port), text)


def _are_apart(on_link: Iterable[Transmission], hyperperiod_ns: int) -> bool:
    """Whether nothing on a link overlaps but frames that share windows of a class: those of one
    window at once, as they nearly always are."""
    windows = {
        (
            t.offset_ns % t.period_ns,
            t.busy_until_ns - t.offset_ns,
            t.period_ns,
            t.traffic_class if t.is_shared else ~n,  # whose it is: of one transmission alone
        )
        for n, t in enumerate(on_link)
    }
    until = hyperperiod_ns + max([lasts for _, lasts, _, _ in windows])
    each: list[tuple[int, int, int]] = []
    for first, lasts, period, whose in windows:
        starts = range(first, until, period)
        each += zip(starts, range(first + lasts, until + lasts, period), repeat(whose))
    each.sort()
    busy_until, by = each[0][0], -1
    for start, end, whose in each:
        if start >= busy_until:
            busy_until, by = end, whose
        elif whose != by or whose < 0:
            return False
        elif end > busy_until:
            busy_until = end
    return True


def _shared_class(t: Transmission) -> int | None:
    """The class in whose windows frames leave, if they share them."""
    return t.traffic_class if t.is_shared else None


_OnLink = tuple[int, int, str, int | None]


def _together(each: Iterable[_OnLink]) -> list[_OnLink]:
    """The times on a link in order, those that overlap in shared windows of one class as one."""
    found: list[_OnLink] = []
    for its in each:
        if found and its[3] is not None and found[-1][3] == its[3] and its[0] < found[-1][1]:
            start, end, stream, shared = found[-1]
            found[-1] = start, max(end, its[1]), stream, shared
        else:
            found.append(its)
    return found


class _Queued(NamedTuple):
    """The frames of one period of a stream, planned as `in_queue[planned]`, in a queue of a bridge:
    the first comes at `earliest_ns` or later, the last by `latest_ns`."""

    departure_ns: int
    earliest_ns: int
    latest_ns: int
    planned: int


_Times = tuple[int, int, int, int]
"""The same where there are very many."""


def judge_queues(transmissions: Iterable[Transmission]) -> Iterator[Violation]:
    """A frame planned to leave a queue first must have come first, in the worst case too."""
    by_queue = defaultdict(list)
    for t in transmissions:
        if t.ingress is not None:
            by_queue[t.egress, t.traffic_class].append(t)
    for in_queue in by_queue.values():
        if not all(t.is_shared for t in in_queue):
            yield from _judge_order(in_queue)


def _judge_order(in_queue: list[Transmission]) -> Iterator[Violation]:
    """Violations of the order, one for each two streams."""
    reported = set()
    overdue_ns = max(0, *(t.all_there_ns - t.offset_ns for t in in_queue))
    for first, second in _meetings(_departures(in_queue), overdue_ns):
        a, b = in_queue[first.planned], in_queue[second.planned]
        if (a.stream, b.stream) in reported or (a.is_shared and b.is_shared):
            continue
        if _keep_order(first, second, a, b):
            continue
        reported.add((a.stream, b.stream))
        text = (
            f"{b.stream} may lie in the queue of class {b.traffic_class} from "
            f"{second.earliest_ns} ns, and {a.stream}, planned to leave first, only from "
            f"{first.latest_ns} ns"
        )
        yield Violation("fifo", str(a.egress), text)


def _departures(in_queue: list[Transmission]) -> list[_Times]:
    """The frames of one hyperperiod in planned order, and those of the next that they may meet.

    Later ones are no news: of a stream's frames planned to leave before another stream's, the last
    is the most in danger of coming after it, and that is within a hyperperiod.
    """
    hyperperiod = lcm(*{t.period_ns for t in in_queue})
    once: list[_Times] = []
    for n, t in enumerate(in_queue):
        first, period = t.offset_ns % t.period_ns, t.period_ns
        departures = range(first, hyperperiod, period)
        early, last = t.earliest_ns - t.offset_ns, t.all_there_ns - t.offset_ns
        earliest = range(first + early, hyperperiod + early, period)
        latest = range(first + last, hyperperiod + last, period)
        once += zip(departures, earliest, latest, repeat(n))
    once.sort()
    longest_stay = max([max(t.offset_ns, t.all_there_ns) - t.earliest_ns for t in in_queue])
    again = [
        (departure + hyperperiod, earliest + hyperperiod, latest + hyperperiod, n)
        for departure, earliest, latest, n in takewhile(lambda q: q[0] <= longest_stay, once)
    ]
    return once + again


def _meetings(order: list[_Times], overdue_ns: int) -> Iterator[tuple[_Queued, _Queued]]:
    """Pairs, in planned order, of which the second may come before the first, or with it: frames
    that come at one instant have no order. None comes more than `overdue_ns` after its planned
    departure."""
    latest_so_far = 0
    for index, (_, earliest, latest, _) in enumerate(order):
        if latest_so_far >= earliest:
            for before in range(index - 1, -1, -1):
                first = order[before]
                if first[0] + overdue_ns < earliest:
                    break  # in the queue by then, as all before it
                if first[2] >= earliest:
                    yield _Queued(*first), _Queued(*order[index])
        latest_so_far = max(latest_so_far, latest)


def _keep_order(first: _Queued, second: _Queued, a: Transmission, b: Transmission) -> bool:
    """Whether both come in by one port, and in this order: links and bridges keep it."""
    return (
        a.ingress == b.ingress
        and first.departure_ns - a.offset_ns + a.ingress_offset_ns
        <= second.departure_ns - b.offset_ns + b.ingress_offset_ns
    )
