"""Who is where when: the reservations of every link and queue, for searches to fit around."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from math import gcd

from cnc.planner import jitter
from cnc.planner.circle import Circle
from cnc.planner.given_windows import reservations, without_turn
from cnc.planner.problem import Problem
from cnc.planner.route import Leg, Member, Placement, Route
from cnc.planner.shares import Turns

_PENDING_MAX = 16  # changes of a circle; after more it is made anew


class Resource:
    """What one link, or one queue of a port, is reserved for: one frame at a time."""

    __slots__ = ("_changes", "_circles", "_count", "_seen", "reservations")

    def __init__(self) -> None:
        self.reservations: dict[Member, tuple[int, int, int]] = {}  # start, duration, period
        self._circles: dict[int, Circle] = {}
        # The last that came and went, and whether it came; how many did, and how many of these each
        # circle has.
        self._changes: deque[tuple[tuple[int, int, int], bool]] = deque(maxlen=_PENDING_MAX)
        self._count = 0
        self._seen: dict[int, int] = {}

    def reserve(self, member: Member, start_ns: int, duration_ns: int, period_ns: int) -> None:
        """Take [start, start + duration) of every period."""
        reservation = start_ns, duration_ns, period_ns
        self.reservations[member] = reservation
        self._changes.append((reservation, True))
        self._count += 1

    def release(self, member: Member) -> None:
        self._changes.append((self.reservations.pop(member), False))
        self._count += 1

    def circle(self, period_ns: int) -> Circle:
        """What is busy, as a stream of this period sees it; up to date until the next change."""
        circle = self._circles.get(period_ns)
        behind = self._count - self._seen.get(period_ns, 0)
        if circle is None or behind > _PENDING_MAX:
            circle = self._circles[period_ns] = self._made(period_ns)
        elif behind:
            for change in range(-behind, 0):
                reservation, comes = self._changes[change]
                if comes:
                    circle.add(*reservation)
                else:
                    self._free(circle, *reservation)
        else:
            return circle
        self._seen[period_ns] = self._count
        return circle

    def _made(self, period_ns: int) -> Circle:
        """A circle of what is reserved now: that of a shorter period, over and over, where nothing
        repeats more rarely."""
        for shorter_ns, seen in self._seen.items():
            if (
                period_ns % shorter_ns == 0
                and shorter_ns < period_ns
                and self._count - seen <= _PENDING_MAX
                and all(shorter_ns % period == 0 for _, _, period in self.reservations.values())
            ):
                return self.circle(shorter_ns).repeated(period_ns)
        return Circle(period_ns, self.reservations.values())

    def _free(self, circle: Circle, start_ns: int, duration_ns: int, period_ns: int) -> None:
        """Take a reservation out of a circle, but what others take of the same time."""
        circle.subtract(start_ns, duration_ns, period_ns)
        if not circle.may_be_twice(start_ns, duration_ns, period_ns):
            return
        repeat = gcd(period_ns, circle.length_ns)
        for other in self.in_the_way(start_ns, duration_ns, repeat):
            circle.add(*self.reservations[other])

    def load(self) -> float:
        """The share of time that is taken."""
        return sum(duration / period for _, duration, period in self.reservations.values())

    def in_the_way(self, start_ns: int, duration_ns: int, period_ns: int) -> Iterator[Member]:
        """The members whose reservations overlap [start, start + duration) of some period."""
        for member, (start, duration, period) in self.reservations.items():
            repeat = gcd(period, period_ns)
            behind = (start_ns - start) % repeat
            if behind < duration or repeat - behind < duration_ns:
                yield member


class Timetable:
    """The placements so far and the reservations they make."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.placements: dict[Member, Placement] = {}
        self.not_before_ns: dict[str, int] = {}  # the first start to try for a stream
        self.links = [Resource() for _ in problem.links]
        # By link and class; of frames that are not held also by the link they come in by.
        self._held: defaultdict[tuple[int, int], Resource] = defaultdict(Resource)
        self._early: defaultdict[tuple[int, int], dict[int, Resource]] = defaultdict(dict)
        # Of links of which best effort is to keep a share, as far as they are known.
        self._turns: dict[int, Turns] = {}
        for number, windows in problem.given.items():
            link = problem.links[number]
            for member, its in reservations(problem.intent, link, windows).items():
                self.links[number].reserve(member, *its)
        for placement in problem.kept.values():
            self.place(placement)

    def resources(self) -> list[Resource]:
        """All links and queues."""
        early = (its for of_queue in self._early.values() for its in of_queue.values())
        return [*self.links, *self._held.values(), *early]

    def classes(self, route: Route) -> tuple[int, ...]:
        """The classes a member may use now: that of the stream's other path, if it has a place."""
        other = self.other_copy(route.member)
        return (other.traffic_class,) if other else self.problem.classes(route)

    def other_copy(self, member: Member) -> Placement | None:
        """Where the stream's other path lies, if it has one with a place."""
        if self.problem.stream(member).paths == 1:
            return None
        return self.placements.get(Member(member.stream, 1 - member.path))

    def window_ns(self, route: Route) -> tuple[int, int]:
        """The first and the last moment of its period at which the talker may start; the last may
        be before the first.

        The latency of a stream that is sent twice counts from the first copy, whichever arrives.
        Copies that a switch makes have one start.
        """
        first, last = self.problem.window_ns(route.member)
        first = max(first, self.not_before_ns.get(route.member.stream, 0))
        if other := self.other_copy(route.member):
            allowed = self.problem.stream(route.member).max_latency_ns
            start = other.route.start_ns(other.offsets_ns)
            if any(self.problem.starts_with_copy(Member(route.member.stream, k)) for k in (0, 1)):
                first = last = start
            else:
                first = max(first, start + other.route.latency_ns(other.offsets_ns) - allowed)
                last = min(last, start + allowed - route.least_latency_ns)
        max_jitter_ns = self.problem.stream(route.member).max_jitter_ns
        if max_jitter_ns is None:
            return first, last
        return self._steady(route, max_jitter_ns, first, last)

    def _steady(
        self, route: Route, max_jitter_ns: int, first_ns: int, last_ns: int
    ) -> tuple[int, int]:
        """Of the starts from the first to the last those at which frames that nowhere wait arrive
        within the jitter of their stream; the last before the first if there are none."""
        links = self.problem.links
        alone = Placement(route, route.offsets_ns, 0)
        if not jitter.is_kept(links, alone, alone, max_jitter_ns):
            return first_ns, first_ns - 1
        if other := self.other_copy(route.member):
            near = jitter.starts_ns(links, route, other, max_jitter_ns)
            return max(first_ns, near[0]), min(last_ns, near[1])
        return first_ns, last_ns

    def is_steady(self, placement: Placement) -> bool:
        """Whether the frames of a placement arrive within the jitter of their stream, also beside
        its other path."""
        max_jitter_ns = self.problem.stream(placement.route.member).max_jitter_ns
        if max_jitter_ns is None:
            return True
        beside = placement, self.other_copy(placement.route.member)
        return all(
            jitter.is_kept(self.problem.links, placement, each, max_jitter_ns)
            for each in beside
            if each
        )

    def place(self, placement: Placement) -> None:
        route, offsets, number = placement
        member, period = route.member, route.period_ns
        self.placements[member] = placement
        for leg, offset in zip(route.legs, offsets, strict=True):
            if not leg.is_copied:
                self.links[leg.link].reserve(member, offset, leg.window_ns, period)
                if leg.link in self._turns:
                    self._turns[leg.link].add(offset, leg.window_ns, period)
            if leg.parent is not None:
                earliest = offsets[leg.anchor] + leg.min_ns
                queue = self._queue(route, leg, number)
                queue.reserve(member, earliest, offset + leg.hold_ns - earliest, period)

    def remove(self, member: Member) -> None:
        route, _, number = self.placements.pop(member)
        for leg in route.legs:
            if not leg.is_copied:
                self.links[leg.link].release(member)
                self._turns.pop(leg.link, None)
            if leg.parent is not None:
                self._queue(route, leg, number).release(member)

    def crowded(self, placement: Placement) -> list[int]:
        """The legs of a placement, by index, on whose links best effort would keep less than its
        `min-share`."""
        if not self.problem.shares_ppb:
            return []
        route, offsets, _ = placement
        return [
            index
            for index, (leg, offset) in enumerate(zip(route.legs, offsets, strict=True))
            if leg.link in self.problem.shares_ppb
            and not leg.is_copied
            and self.turns(leg.link).share_ppb(offset, leg.window_ns, route.period_ns)
            < self.problem.shares_ppb[leg.link]
        ]

    def turns(self, link: int) -> Turns:
        """The turns that best effort has on a link now."""
        if link not in self._turns:
            taken = self.links[link].reservations.items()
            planned = [its for member, its in taken if member in self.placements]
            intent, its, given = self.problem.intent, self.problem.links[link], self.problem.given
            beside = without_turn(intent, its, given.get(link, ()))
            self._turns[link] = Turns(intent, its, [*planned, *beside])
        return self._turns[link]

    def others_on_link(self, route: Route, leg: Leg) -> Circle:
        """When the link of a leg is taken, as far as that hinders its frame."""
        if leg.is_copied:
            return Circle(route.period_ns, ())
        return self.links[leg.link].circle(route.period_ns)

    def rivals(self, route: Route, leg: Leg, number: int) -> list[Resource]:
        """All stays in the queue of class `number` that one of `leg` must not meet."""
        queue = leg.link, number
        if queue not in self._early:
            return [self._held[queue]]
        early = self._early[queue]
        own = None if route.is_held else _ingress(route, leg)
        return [self._held[queue], *(early[link] for link in sorted(early) if link != own)]

    def _queue(self, route: Route, leg: Leg, number: int) -> Resource:
        """What a stay of this leg is reserved in."""
        if route.is_held:
            return self._held[leg.link, number]
        return self._early[leg.link, number].setdefault(_ingress(route, leg), Resource())

    def on_links(self, route: Route, offsets_ns: tuple[int, ...]) -> set[Member]:
        """Who holds a link of the route when a frame at these offsets would need it."""
        return {
            member
            for leg, offset in zip(route.legs, offsets_ns, strict=True)
            if not leg.is_copied
            for member in self.links[leg.link].in_the_way(offset, leg.window_ns, route.period_ns)
        }

    def in_queues(self, placement: Placement) -> set[Member]:
        """Who is in a queue when a frame so placed would have to be alone there."""
        route, offsets, number = placement
        found: set[Member] = set()
        for leg, offset in zip(route.legs, offsets, strict=True):
            if leg.parent is not None:
                earliest = offsets[leg.anchor] + leg.min_ns
                stay = offset + leg.hold_ns - earliest
                for stays in self.rivals(route, leg, number):
                    found.update(stays.in_the_way(earliest, stay, route.period_ns))
        found.discard(route.member)
        return found


def _ingress(route: Route, leg: Leg) -> int:
    """The link by which the frames come that leave a bridge by `leg`; -1 where a talker sends."""
    return -1 if leg.parent is None else route.legs[leg.parent].link
