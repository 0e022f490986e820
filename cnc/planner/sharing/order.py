"""The order in which frames cross ports: as few of them as may be go back in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set

Turn = tuple[int, int]
"""From the link by which frames come to a switch to that by which they leave it."""


def ordered(links: set[int], turns: Mapping[Turn, float]) -> list[int]:
    """All `links`, such that turns lead forward, but for some of little weight where they lead
    around a ring (Eades, Lin, Smyth: A fast and effective heuristic for the feedback arc set
    problem. Information Processing Letters 47, 1993)."""
    onward: dict[int, dict[int, float]] = {link: {} for link in links}
    before: dict[int, dict[int, float]] = {link: {} for link in links}
    for (one, other), weight in turns.items():
        onward[one][other] = weight
        before[other][one] = weight
    first: list[int] = []
    last: list[int] = []
    left = set(links)

    def take(link: int) -> None:
        left.discard(link)
        for its, other in ((onward, before), (before, onward)):
            for neighbour in its[link]:
                del other[neighbour][link]

    ends = sorted(left)
    while left:
        while ends:
            touched: set[int] = set()
            for link in ends:
                if link in left and not (onward[link] and before[link]):
                    (first if onward[link] else last).append(link)
                    touched.update(onward[link], before[link])
                    take(link)
            ends = sorted(touched)
        if left:
            link = max(
                sorted(left),
                key=lambda it: sum(onward[it].values()) - sum(before[it].values()),
            )
            first.append(link)
            ends = sorted({*onward[link], *before[link]})
            take(link)
    return first + last[::-1]


def up_and_down(
    ends: Mapping[int, tuple[str, str]], weights: Mapping[str, float], more: int
) -> list[int]:
    """An order of links, given as the switches at their ends, in which a way leads forward between
    any two switches: up the ranks of switches first and then down (Starobinski, Karpovsky,
    Zakrevski: Application of network calculus to general topologies using turn-prohibition. IEEE
    Transactions on Networking 11, 2003).

    No way leads down to a switch and up from it, so those with fewest neighbours come first, and of
    these the ones of least weight. One after another they would make chains of links of all
    ranks. So all that are no neighbours have one rank; and where it includes those of up to `more`
    neighbours more than the fewest, there are fewer ranks, but fewer ways, too.
    """
    near: defaultdict[str, set[str]] = defaultdict(set)
    for one, other in ends.values():
        near[one].add(other)
        near[other].add(one)
    rank = _ranked(near, weights, more)

    def place(link: int) -> tuple[int, int, int]:
        source, target = (rank[switch] for switch in ends[link])
        return (0, source, link) if source < target else (1, -source, link)

    return sorted(ends, key=place)


def _ranked(near: dict[str, set[str]], weights: Mapping[str, float], more: int) -> dict[str, int]:
    """The ranks of switches, which are taken out of `near`."""
    found: dict[str, int] = {}
    rank = 0
    while near:
        by_degree = sorted(near, key=lambda it: (len(near[it]), weights.get(it, 0.0), it))
        most: int | None = None
        beside: set[str] = set()
        for switch in by_degree:
            if most is not None and len(near[switch]) > most:
                break
            if switch in beside or not _is_dispensable(near, switch):
                continue
            if most is None:
                most = len(near[switch]) + more
            found[switch] = rank
            beside |= near[switch]
            for neighbour in near.pop(switch):
                near[neighbour].discard(switch)
        rank += 1
    return found


def _is_dispensable(near: Mapping[str, Set[str]], switch: str) -> bool:
    """Whether the neighbours of a switch reach each other without it."""
    others = set(near[switch])
    waiting = [others.pop()] if others else []
    reached = set(waiting)
    while waiting and others:
        for neighbour in near[waiting.pop()]:
            if neighbour != switch and neighbour not in reached:
                reached.add(neighbour)
                others.discard(neighbour)
                waiting.append(neighbour)
    return not others
