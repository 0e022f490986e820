"""What has no place without a search: more than the whole time of a link, or of a queue.

Only `overload` proves that. The others count what this planner reserves for a frame: margins of its
own, and of a queue all the time that it is not shared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from cnc.mechanisms.terms import client_octets
from cnc.model import NS_PER_S, VLAN_TAG_OCTETS, PortRef, Stream
from cnc.planner.problem import Problem
from cnc.planner.route import Member, Route


class Overload(NamedTuple):
    """A port whose link has too little time for streams, and the share that each takes of it."""

    port: PortRef
    shares: Mapping[str, Fraction]


def overload(problem: Problem) -> Overload | None:
    """Streams whose frames alone take more than the whole time of a link.

    A proof for their present routes that rests on nothing but that a link carries one frame at a
    time, at its rate: no margin counts, nor what other classes send.
    """
    return _overfull(problem, lambda stream, link: stream.frames * wire_ns(problem, stream, link))


def crowded_link(problem: Problem) -> tuple[str, ...]:
    """Streams for which a link has too little time as far as this planner, and the judge, leave
    room for margins and control frames before each frame. Empty where there is no such link."""
    found = _overfull(problem, lambda stream, link: problem.busy_ns(stream.name, link))
    return tuple(sorted(found.shares)) if found else ()


def wire_ns(problem: Problem, stream: Stream, link: int) -> Fraction:
    """How long one frame takes a link at least, from its preamble to the end of the gap after it;
    to and from stations without a VLAN tag if it has none there."""
    network, its = problem.intent.network, problem.links[link]
    octets = network.wire_octets(client_octets(network, stream, its))
    if stream.identification and not {its.source.node, its.target.node} <= network.bridges.keys():
        octets -= VLAN_TAG_OCTETS
    return Fraction(octets * 8 * NS_PER_S, its.rate_bps)


def _overfull(
    problem: Problem, time_ns: Callable[[Stream, int], Fraction | int]
) -> Overload | None:
    """The streams of the first link on which such times are more than all time; none of them could
    be missing."""
    shares: defaultdict[int, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for route in _routes(problem):
        stream = problem.stream(route.member)
        for leg in (each for each in route.legs if not each.is_copied):
            busy = time_ns(stream, leg.link)
            shares[leg.link][stream.name] += Fraction(busy, stream.period_ns)
    for link in sorted(shares):
        total = Fraction(0)
        conflict: dict[str, Fraction] = {}
        # The greatest first: then none of them can be missing from the conflict.
        for name, share in sorted(shares[link].items(), key=lambda item: (-item[1], item[0])):
            total += share
            conflict[name] = share
            if total > 1:
                return Overload(problem.links[link].source, conflict)
    return None


def crowded_queue(problem: Problem) -> tuple[str, ...]:
    """Streams for which a queue that they cannot but use has too little time, as far as this
    planner keeps frames of different ingress ports apart there. No proof, as others need not, but
    no search of this planner would place them all. Empty where there is no such queue.
    """
    stays: defaultdict[tuple[int, int], defaultdict[int, list[tuple[float, float, str]]]]
    stays = defaultdict(lambda: defaultdict(list))
    for route in _routes(problem):
        for queue, ingress, stay, window in _stays(problem, route):
            stays[queue][ingress].append((stay, window, route.member.stream))
    for queue in sorted(stays):
        # Frames of one ingress port may be there at once, but not on the link.
        least = [
            max(*(stay for stay, _, _ in its), sum(window for _, window, _ in its))
            for its in stays[queue].values()
        ]
        if sum(least) > 1:
            return tuple(sorted({name for its in stays[queue].values() for _, _, name in its}))
    return ()


def _routes(problem: Problem) -> Iterator[Route]:
    yield from (placement.route for placement in problem.kept.values())
    yield from (problem.route(m, problem.trees[m.stream][m.path]) for m in problem.members)


def _stays(problem: Problem, route: Route) -> Iterator[tuple[tuple[int, int], int, float, float]]:
    """Each queue that a route must use, by which link it gets there, and the least shares of time
    that it stays in the queue and is on the link."""
    classes = problem.classes(route)
    if len(classes) > 1:
        return
    for leg, offset in zip(route.legs, route.offsets_ns, strict=True):
        if leg.parent is not None:
            stay = offset + leg.hold_ns - route.offsets_ns[leg.anchor] - leg.min_ns
            ingress = route.legs[leg.parent].link
            shares = stay / route.period_ns, leg.window_ns / route.period_ns
            yield (leg.link, classes[0]), ingress, *shares


def has_way_around(problem: Problem, streams: Iterable[str]) -> bool:
    """Whether any of `streams` could take another route."""
    return any(
        name in problem.trees and problem.detour(Member(name, 0)) is not None for name in streams
    )
