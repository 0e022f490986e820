"""What surely does not fit: more than the whole time of a link, or of a queue as used here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction

from cnc.planner.problem import Problem
from cnc.planner.route import Member, Route


def overload(problem: Problem) -> tuple[str, ...]:
    """Streams that together need more time than a link has.

    A proof for their present routes that needs no search, and rests on nothing but that a link
    carries one frame at a time. Empty where there is none.
    """
    shares: defaultdict[int, list[tuple[Fraction, str]]] = defaultdict(list)
    for route in _routes(problem):
        name = route.member.stream
        for leg in (each for each in route.legs if not each.is_copied):
            busy = problem.busy_ns(name, leg.link)
            shares[leg.link].append((Fraction(busy, route.period_ns), name))
    for link in sorted(shares):
        total = Fraction(0)
        conflict = set()
        # The greatest first: then none of them can be missing from the conflict.
        for share, name in sorted(shares[link], key=lambda item: (-item[0], item[1])):
            total += share
            conflict.add(name)
            if total > 1:
                return tuple(sorted(conflict))
    return ()


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


def has_way_around(problem: Problem, streams: tuple[str, ...]) -> bool:
    """Whether any of `streams` could take another route."""
    return any(
        name in problem.trees and problem.detour(Member(name, 0)) is not None for name in streams
    )
