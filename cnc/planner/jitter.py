"""How much the arrival of a stream's frames varies at each listener, against their period.

The bound runs from the earliest to the latest arrival of the last bit by the listener's clock. A
port that holds frames back makes it short, whatever lies before: what is left is what may delay the
start at that port (the gate margin, control frames, best effort at a talker), and the clock error
twice, as the listener's clock may be ahead in one period and behind in another. Where the last port
is loose it is all that varies since a port held the frame. Of two paths the first copy counts,
which may come by either: if one fails, by the other. Of several frames in a period each has a turn
of its own, against which its arrivals vary as long as none is lost: the next would take its turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from cnc.model import Link
from cnc.planner.route import Leg, Placement, Route


class Limit(NamedTuple):
    """That leg `later` of one route starts at most `most_ns` after leg `sooner` of another, or of
    the same route. `most_ns` may be negative."""

    later: int
    sooner: int
    most_ns: int


def limits(links: Sequence[Link], one: Route, other: Route, max_jitter_ns: int) -> Iterator[Limit]:
    """When the latest arrival by `one` is within `max_jitter_ns` of the earliest by `other`."""
    nearest = {links[leg.link].target.node: leg for leg in other.legs}
    for index, leg in enumerate(one.legs):
        its = nearest.get(links[leg.link].target.node)
        if leg.delivery_ns is not None and its is not None:
            most_ns = max_jitter_ns - _in_turn_ns(leg, leg.delivery_ns) + its.arrival_ns
            yield Limit(index, its.steady_leg, most_ns)


def is_kept(links: Sequence[Link], one: Placement, other: Placement, max_jitter_ns: int) -> bool:
    """Whether the arrivals by both placements vary by no more than `max_jitter_ns`."""
    return all(
        its.offsets_ns[limit.later] - others.offsets_ns[limit.sooner] <= limit.most_ns
        for its, others in ((one, other), (other, one))
        for limit in limits(links, its.route, others.route, max_jitter_ns)
    )


def starts_ns(
    links: Sequence[Link], route: Route, other: Placement, max_jitter_ns: int
) -> tuple[int, int]:
    """The first and the last start of a route whose frames nowhere wait that is near enough to
    where the stream's other path lies."""
    after, offsets = route.offsets_ns, other.offsets_ns
    last = min(
        limit.most_ns + offsets[limit.sooner] - after[limit.later]
        for limit in limits(links, route, other.route, max_jitter_ns)
    )
    first = max(
        offsets[limit.later] - after[limit.sooner] - limit.most_ns
        for limit in limits(links, other.route, route, max_jitter_ns)
    )
    return first, last


def bounds_ns(links: Sequence[Link], placements: Sequence[Placement]) -> dict[str, int]:
    """By listener how much arrivals may vary, over all paths of a stream."""
    earliest: dict[str, int] = {}
    latest: dict[str, int] = {}
    for route, offsets, _ in placements:
        for leg, offset in zip(route.legs, offsets, strict=True):
            if leg.delivery_ns is None:
                continue
            node = links[leg.link].target.node
            first = offsets[leg.steady_leg] + leg.arrival_ns
            last = offset + _in_turn_ns(leg, leg.delivery_ns)
            earliest[node] = min(first, earliest.get(node, first))
            latest[node] = max(last, latest.get(node, last))
    return {node: latest[node] - earliest[node] for node in latest}


def least_ns(links: Sequence[Link], route: Route) -> Mapping[str, int]:
    """By listener the bound where no frame waits."""
    return bounds_ns(links, [Placement(route, route.offsets_ns, 0)])


def in_step(links: Sequence[Link], route: Route, other: Route, max_jitter_ns: int) -> Route:
    """The route with frames that wait at the last bridge for as long as those of the stream's other
    path, started together, would else come too long after them."""
    waits_ns = {
        limit.sooner: -limit.most_ns
        + other.offsets_ns[limit.later]
        - route.offsets_ns[limit.sooner]
        for limit in limits(links, other, route, max_jitter_ns)
    }
    legs, offsets = list(route.legs), list(route.offsets_ns)
    for index, wait_ns in waits_ns.items():
        if wait_ns > 0 and _is_held_to_the_end(legs[index], index):
            legs[index] = legs[index]._replace(max_ns=legs[index].max_ns + wait_ns)
            offsets[index] += wait_ns
    latest_ns = max(
        offset + leg.delivery_ns
        for offset, leg in zip(offsets, legs, strict=True)
        if leg.delivery_ns is not None
    )
    return replace(route, legs=tuple(legs), offsets_ns=tuple(offsets), least_latency_ns=latest_ns)


def _in_turn_ns(leg: Leg, delivery_ns: int) -> int:
    """What the last frame of a period takes to the listener by its clock, less what it waits for
    its turn."""
    return delivery_ns - leg.spread_ns - leg.by_talker_ns


def _is_held_to_the_end(leg: Leg, index: int) -> bool:
    """Whether the leg leads from a bridge that holds the frame back to a listener."""
    return leg.parent is not None and leg.delivery_ns is not None and leg.steady_leg == index
