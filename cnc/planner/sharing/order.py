"""The order in which frames cross ports: as few of them as may be go back in it."""

from __future__ import annotations

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


def up_and_down(ends: Mapping[int, tuple[str, str]], transit: Mapping[str, float]) -> list[int]:
    """An order of links, given as the switches at their ends, in which a way leads forward between
    any two switches: with the switches in a row, up first and then down (Starobinski, Karpovsky,
    Zakrevski: Application of network calculus to general topologies using turn-prohibition. IEEE
    Transactions on Networking 11, 2003). Those come first that have little `transit`.
    """
    near: dict[str, set[str]] = {}
    for one, other in ends.values():
        near.setdefault(one, set()).add(other)
        near.setdefault(other, set()).add(one)
    rank: dict[str, int] = {}
    while near:
        by_transit = sorted(near, key=lambda switch: (transit.get(switch, 0.0), switch))
        gone = next((its for its in by_transit if _is_dispensable(near, its)), by_transit[0])
        rank[gone] = len(rank)
        for neighbour in near.pop(gone):
            near[neighbour].discard(gone)

    def place(link: int) -> tuple[int, int, int]:
        source, target = (rank[switch] for switch in ends[link])
        return (0, source, link) if source < target else (1, -source, link)

    return sorted(ends, key=place)


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
