"""Making room: the members to eject so that one more stream fits, at the least cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd
from random import Random

from cnc.planner.route import Member, Placement, Route
from cnc.planner.timetable import Resource, Timetable

_FORBIDDEN = float("inf")


def cheapest_ejection(
    table: Timetable,
    route: Route,
    cost: Mapping[Member, float],
    random: Random,
) -> tuple[Placement, set[Member]] | None:
    """The best place of `route` without waiting if conflicting members leave, and those members.

    Members without a `cost` stay: None when every place would need one of them to leave. None, too,
    where a frame would meet the next of its own stream in a queue: nobody's leaving mends that.
    """
    if any(stay > route.period_ns for stay in _own_stays_ns(route)):
        return None
    offset = _cheapest_offset(table, route, cost, random)
    if offset is None:
        return None
    offsets = tuple(offset + after for after in route.offsets_ns)
    on_links = table.on_links(route, offsets)
    best: tuple[float, Placement, set[Member]] | None = None
    for number in table.classes(route):
        placement = Placement(route, offsets, number)
        leaving = on_links | table.in_queues(placement)
        total = sum(cost.get(member, _FORBIDDEN) for member in sorted(leaving))
        if total != _FORBIDDEN and (best is None or total < best[0]):
            best = total, placement, leaving
    return best[1:] if best else None


def _own_stays_ns(route: Route) -> Iterator[int]:
    """How long a frame may be in the queue of each bridge."""
    for leg, after in zip(route.legs, route.offsets_ns, strict=True):
        if leg.parent is not None:
            yield after + leg.hold_ns - route.offsets_ns[leg.anchor] - leg.min_ns


def _cheapest_offset(
    table: Timetable, route: Route, cost: Mapping[Member, float], random: Random
) -> int | None:
    """The talker's start with the least cost; one of the best if there are several.

    Each reservation makes a stretch of starts dearer by its owner's cost: sweeping over the
    beginnings and ends of all stretches finds the cheapest.
    """
    earliest, latest = table.window_ns(route)
    changes, always = _price_changes(table, route, cost)
    changes += _edge_bans(route)
    changes.append((earliest, 0.0, 0))
    changes.sort()
    price, forbidden = always
    best: tuple[int, float] | None = None
    candidates: list[int] = []
    for index, (start, difference, bans) in enumerate(changes):
        price += difference
        forbidden += bans
        last_here = index + 1 == len(changes) or changes[index + 1][0] != start
        if last_here and earliest <= start <= latest:
            here = forbidden, round(price, 6)
            if best is None or here < best:
                best, candidates = here, []
            if here == best:
                candidates.append(start)
    if best is None or best[0]:
        return None
    return random.choice(candidates)


def _price_changes(
    table: Timetable, route: Route, cost: Mapping[Member, float]
) -> tuple[list[tuple[int, float, int]], tuple[float, int]]:
    """(start, change of price, change of the number of bans) over one period, and what is always
    to be paid."""
    period = route.period_ns
    changes: list[tuple[int, float, int]] = []
    price, forbidden = 0.0, 0
    for resource, after, stay in _stays(table, route):
        for member, (start, duration, other) in resource.reservations.items():
            its_cost = cost.get(member)
            dearer, ban = (0.0, 1) if its_cost is None else (its_cost, 0)
            repeat = gcd(period, other)
            length = duration + stay - 1
            if length >= repeat:
                price += dearer
                forbidden += ban
                continue
            for begin in range((start - stay + 1 - after) % repeat, period, repeat):
                end = begin + length
                changes.append((begin, dearer, ban))
                if end > period:
                    changes.append((0, dearer, ban))
                    end -= period
                changes.append((end, -dearer, -ban))
    return changes, (price, forbidden)


def _stays(table: Timetable, route: Route) -> Iterator[tuple[Resource, int, int]]:
    """What a frame needs for itself, from when on after the talker's start, and for how long.

    Queues count only where the class is given; else one of them is chosen when the start is known.
    """
    classes = table.classes(route)
    for leg, after in zip(route.legs, route.offsets_ns, strict=True):
        if not leg.is_copied:
            yield table.links[leg.link], after, leg.window_ns
        if leg.parent is not None and len(classes) == 1:
            earliest = route.offsets_ns[leg.anchor] + leg.min_ns
            for others in table.rivals(route, leg, classes[0]):
                yield others, earliest, after + leg.hold_ns - earliest


def _edge_bans(route: Route) -> list[tuple[int, float, int]]:
    """No start may bring the edge of a window too near to the end of a cycle (`edge_delay`)."""
    period = route.period_ns
    changes: list[tuple[int, float, int]] = []
    for leg, after in zip(route.legs, route.offsets_ns, strict=True):
        margin = leg.edge_min_ns
        for edge in (after, after + leg.gate_ns):
            for first, last in ((1 - margin, -1), (1, margin - 1)):
                if first > last:
                    continue
                begin = (first - edge) % period
                end = begin + last - first + 1
                changes.append((begin, 0.0, 1))
                if end > period:
                    changes.append((0, 0.0, 1))
                    end -= period
                changes.append((end, 0.0, -1))
    return changes
