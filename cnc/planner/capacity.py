"""What surely does not fit: more than the whole time of a link or a queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from cnc.planner.problem import Member, Problem, Route


def overload(problem: Problem) -> tuple[str, ...]:
    """Streams that together need more time than a link has, or a queue they cannot but use.

    A proof for their present routes that needs no search. Empty where there is none.
    """
    shares: defaultdict[tuple[int, int | None], list[tuple[float, str]]] = defaultdict(list)
    routes = [placement.route for placement in problem.kept.values()]
    routes += [problem.route(m, problem.trees[m.stream][m.path]) for m in problem.members]
    for route in routes:
        for place, share in _shares(problem, route):
            shares[place].append((share, route.member.stream))
    for place in sorted(shares, key=lambda place: (place[0], place[1] or 0)):
        total = 0.0
        conflict = set()
        # The greatest first: then none of them can be missing from the conflict.
        for share, name in sorted(shares[place], key=lambda item: (-item[0], item[1])):
            total += share
            conflict.add(name)
            if total > 1:
                return tuple(sorted(conflict))
    return ()


def _shares(problem: Problem, route: Route) -> Iterator[tuple[tuple[int, int | None], float]]:
    """The least share of time that a route takes of each link, and of each queue it must use."""
    classes = problem.classes(route)
    for leg, offset in zip(route.legs, route.offsets_ns, strict=True):
        yield (leg.link, None), leg.window_ns / route.period_ns
        if leg.parent is not None and len(classes) == 1:
            earliest = route.offsets_ns[leg.anchor] + leg.min_ns
            yield (leg.link, classes[0]), (offset + leg.hold_ns - earliest) / route.period_ns


def has_way_around(problem: Problem, streams: tuple[str, ...]) -> bool:
    """Whether any of `streams` could take another route."""
    return any(
        name in problem.trees and problem.detour(Member(name, 0)) is not None for name in streams
    )
