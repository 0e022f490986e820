"""Where the next stream fits: the earliest free place in a timetable, waiting nowhere or at hops.

Both searches move times forward only, and only past what is in the way, so the first place found
is the earliest there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from cnc.planner.circle import Circle
from cnc.planner.route import Leg, Placement, Route
from cnc.planner.timetable import Timetable

_PUSHES_MAX = 3000  # of one search: what needs more is all but full, and better left to ejection


def without_waiting(table: Timetable, route: Route) -> Placement | None:
    """The first start of the talker's window from which every frame leaves at once everywhere."""
    found = _WithoutWaiting(table, route).earliest(*table.window_ns(route))
    return found[1] if found else None


def first_free(table: Timetable, route: Route) -> Placement | None:
    """The same, whatever best effort keeps of the links."""
    search = _WithoutWaiting(table, route)
    found = search.earliest(*table.window_ns(route), crowds=True)
    return found[1] if found else None


def next_without_waiting(
    table: Timetable, route: Route, begin_ns: int, after_ns: int
) -> tuple[int, Placement] | None:
    """The first such start `after_ns` or more behind a moment of the period at which to begin,
    which may be in the next one: how long behind it is, and the placement."""
    first, last = table.window_ns(route)
    search = _WithoutWaiting(table, route)
    found = search.earliest(max(first, begin_ns + after_ns), last)
    if found is None:
        again_ns = max(first, begin_ns + after_ns - route.period_ns)
        found = search.earliest(again_ns, min(last, begin_ns - 1))
    return ((found[0] - begin_ns) % route.period_ns, found[1]) if found else None


def in_beat(table: Timetable, route: Route) -> Placement | None:
    """Such a start nearest to the begin of a beat: the shortest period that divides the stream's.

    Frames of long periods then lie behind each other, beat by beat, and leave the same time free
    in every beat, for streams of short periods that come later. Frames lie less densely, though.
    """
    first, last = table.window_ns(route)
    beat = table.problem.beat_ns(route.period_ns)
    search = _WithoutWaiting(table, route)
    best: Placement | None = None
    nearest, begin = beat, first
    # From one free start to the first of a later beat: of beats without any there may be thousands.
    while nearest and (found := search.earliest(begin, last)):
        start, placement = found
        if start % beat < nearest:
            nearest, best = start % beat, placement
        begin = start - start % beat + beat
    return best


class _WithoutWaiting:
    """The offset steps past every reservation in the way until none is: first on the links, then in
    the queues of each class the stream may use."""

    def __init__(self, table: Timetable, route: Route) -> None:
        self._table = table
        self._route = route
        self._links = [
            (table.others_on_link(route, leg), after, leg)
            for leg, after in zip(route.legs, route.offsets_ns, strict=True)
        ]
        self._classes = table.classes(route)
        # Looked up when first needed: mostly one is, and of that not all.
        self._queues: dict[int, _Stays] = {}

    def earliest(
        self, first_ns: int, last_ns: int, *, crowds: bool = False
    ) -> tuple[int, Placement] | None:
        """The first free start from `first_ns` to `last_ns`, and the placement it gives. Unless it
        `crowds` them, it leaves best effort its share of the links."""
        route = self._route
        offset = first_ns
        while True:
            clear = _clear_of_links(self._links, offset, last_ns, route.period_ns)
            if clear is None:
                return None
            offset = clear
            delays = []
            for number in self._classes:
                if number not in self._queues:
                    self._queues[number] = _Stays(self._table, route, number)
                delay = self._queues[number].delay(offset)
                if delay == 0:
                    offsets = tuple([offset + after for after in route.offsets_ns])
                    placement = Placement(route, offsets, number)
                    crowded = [] if crowds else self._table.crowded(placement)
                    if not crowded:
                        return offset, placement
                    delay = min(self._behind_next(index, offset) for index in crowded)
                if delay is not None:
                    delays.append(delay)
            if not delays:
                return None
            offset += min(delays)

    def _behind_next(self, index: int, offset_ns: int) -> int:
        """How much later the frame of a leg is right behind the next one on its link, with which it
        then shares a guard band."""
        circle, after, _ = self._links[index]
        *_, until = circle.gap(offset_ns + after)
        return until


def _clear_of_links(
    links: list[tuple[Circle, int, Leg]], offset_ns: int, latest_ns: int, period_ns: int
) -> int | None:
    clear = index = 0  # `clear` links in a row are known to be free at this offset
    while clear < len(links):
        if offset_ns > latest_ns:
            return None
        circle, after, leg = links[index]
        start = offset_ns + after
        delay = circle.delay(start, leg.window_ns)
        if delay is None:
            return None
        edge = edge_delay(start + delay, leg, period_ns) if leg.edge_min_ns else 0
        if delay or edge:
            offset_ns += delay + edge
            clear = 0
        if not edge:
            clear += 1
            index = index + 1 if index + 1 < len(links) else 0
    return offset_ns if offset_ns <= latest_ns else None


def edge_delay(start_ns: int, leg: Leg, period_ns: int) -> int:
    """How much later a window must be to keep its edges clear of the end of every cycle.

    A port's cycle is a multiple of each of its streams' periods, and starts with them at 0.
    """
    margin = leg.edge_min_ns
    if margin <= start_ns % period_ns <= period_ns - margin - leg.window_ns:
        return 0  # nearly always, and it is asked very often
    for edge in (start_ns, start_ns + leg.gate_ns):
        phase = edge % period_ns
        if 0 < phase < margin:
            return margin - phase
        if period_ns - margin < phase:
            return period_ns - phase
    return 0


class _Stays:
    """The isolation rules of the queues of one class along a route: in each the other members, when
    after the talker's start the frame may arrive there if it never waits, and how long no other
    may."""

    def __init__(self, table: Timetable, route: Route, number: int) -> None:
        self._known: list[tuple[Circle, int, int]] = []
        self._others = self._look_up(table, route, number)

    def delay(self, offset_ns: int) -> int | None:
        """How much later the talker must start for the first queue in the way; 0 if none is."""
        for others, after, duration in chain(self._known, self._others):
            delay = others.delay(offset_ns + after, duration)
            if delay != 0:
                return delay
        return 0

    def _look_up(
        self, table: Timetable, route: Route, number: int
    ) -> Iterator[tuple[Circle, int, int]]:
        period, offsets = route.period_ns, route.offsets_ns
        for leg, after in zip(route.legs, offsets, strict=True):
            if leg.parent is None:
                continue
            earliest = offsets[leg.anchor] + leg.min_ns
            duration = after + leg.hold_ns - earliest
            for others in table.rivals(route, leg, number):
                self._known.append((others.circle(period), earliest, duration))
                yield self._known[-1]


def with_waiting(
    table: Timetable, route: Route, number: int, latency_max_ns: int
) -> Placement | None:
    """The earliest place in class `number` when frames may wait at bridges, alone in their queue.

    Every rule states that one offset is no earlier than some function of the others, which
    only grows with them. So the least offsets that keep all rules are found by raising each to
    what the others demand, over and over, until nothing changes or the talker's window is over.
    """
    return _Waiting(table, route, number, latency_max_ns).earliest()


class _Waiting:
    def __init__(self, table: Timetable, route: Route, number: int, latency_max_ns: int) -> None:
        period = route.period_ns
        self._table = table
        self._route = route
        self._number = number
        self._latency_max_ns = latency_max_ns
        first, self._latest_ns = table.window_ns(route)
        other = table.other_copy(route.member)
        # Latency counts from this, if it is before the own start.
        self._other_start_ns = other.route.start_ns(other.offsets_ns) if other else None
        self._links = [table.others_on_link(route, leg) for leg in route.legs]
        self._queues = [
            [others.circle(period) for others in table.rivals(route, leg, number)]
            if leg.parent is not None
            else []
            for leg in route.legs
        ]
        self._offsets = [first + after for after in route.offsets_ns]
        self._roots = [i for i, leg in enumerate(route.legs) if leg.parent is None]

    def earliest(self) -> Placement | None:
        legs = self._route.legs
        pushes = index = 0
        while pushes < _PUSHES_MAX and self._starts_in_time():
            if index == len(legs):
                late = self._late_ns()
                if late <= 0:
                    placement = Placement(self._route, tuple(self._offsets), self._number)
                    is_good = self._table.is_steady(placement) and not self._table.crowded(
                        placement
                    )
                    return placement if is_good else None
                start = self._route.start_ns(self._offsets)
                if self._other_start_ns is not None and start >= self._other_start_ns:
                    return None
                start += late
            else:
                upstream = self._settle(index)
                if upstream is None:
                    return None
                if upstream == index:
                    index += 1
                    continue
                # A frame that must not come yet is held back upstream; nearer than the greatest
                # latency to the talker's start nothing helps but to start later as well.
                index = upstream
                start = self._offsets[index] - self._latency_max_ns
            pushes += 1
            if start > self._latest_ns:
                return None
            for root in self._roots:
                if self._offsets[root] < start:
                    self._offsets[root] = start
                    index = 0
        return None

    def _late_ns(self) -> int:
        """How much later than allowed the frame may arrive."""
        start = self._route.start_ns(self._offsets)
        first = start if self._other_start_ns is None else min(start, self._other_start_ns)
        return self._route.latency_ns(self._offsets) + start - first - self._latency_max_ns

    def _starts_in_time(self) -> bool:
        return all(self._offsets[root] <= self._latest_ns for root in self._roots)

    def _settle(self, index: int) -> int | None:
        """Raise one leg to its first free time. The leg to go on from: itself when all is well,
        the one upstream that was raised instead, or None when the link is full."""
        leg = self._route.legs[index]
        offsets = self._offsets
        start = offsets[index]
        if leg.parent is not None:
            start = max(start, offsets[leg.parent] + leg.max_ns)
        while True:
            delay = self._links[index].delay(start, leg.window_ns)
            if delay is None or start > self._latest_ns + self._latency_max_ns:
                return None
            if delay == 0 and leg.edge_min_ns:
                delay = edge_delay(start, leg, self._route.period_ns)
            if delay == 0:
                break
            start += delay
        offsets[index] = start
        earliest = offsets[leg.anchor] + leg.min_ns
        for queue in self._queues[index]:
            busy, following, until = queue.gap(earliest)
            if busy:
                offsets[leg.anchor] += busy
                return leg.anchor
            if start + leg.hold_ns > earliest + following:
                offsets[leg.anchor] += until
                return leg.anchor
        return index
