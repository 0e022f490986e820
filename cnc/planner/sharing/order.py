"""The order in which frames cross ports: as few of them as may be go back in it."""

from __future__ import annotations

from collections.abc import Mapping

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
