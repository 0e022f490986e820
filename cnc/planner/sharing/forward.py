"""Ways that lead forward in an order of ports, for streams of which others lead around rings."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from cnc.planner.graph import Tree
from cnc.planner.problem import Problem
from cnc.planner.routing import price_in_hops


class ForwardWays:
    """Ways through the network of a problem whose links have these loads."""

    def __init__(self, problem: Problem, loads: Sequence[float]) -> None:
        self._loads = list(loads)
        self._links = problem.links
        self._bridges = problem.intent.network.bridges.keys()
        self._leaving: defaultdict[str, list[int]] = defaultdict(list)
        for number, link in enumerate(problem.links):
            self._leaving[link.source.node].append(number)
        self._onward = [
            [
                n
                for n in self._leaving[link.target.node]
                if self._links[n].target.node != link.source.node
            ]
            if link.target.node in self._bridges
            else []
            for link in problem.links
        ]

    def carry(self, links: Iterable[int], share: float) -> None:
        """Count the load of a stream on links."""
        for link in links:
            self._loads[link] += share

    def between_switches(self) -> dict[int, tuple[str, str]]:
        """The switches at both ends of each link that has two."""
        ends = {n: (its.source.node, its.target.node) for n, its in enumerate(self._links)}
        return {n: its for n, its in ends.items() if self._bridges >= set(its)}

    def turns(self) -> list[tuple[int, int]]:
        """All turns that frames could take between links of switches."""
        found = []
        for number, link in enumerate(self._links):
            if link.source.node in self._bridges:
                found += [(number, onward) for onward in self._onward[number]]
        return found

    def find(
        self, talker: str, listener: str, share: float, place: Mapping[int, int]
    ) -> Tree | None:
        """The cheapest way that only leads forward: from links of a lower place to those of a
        higher one. `share` is how much of its time the stream takes of a link."""
        waiting = [(0.0, number, -1) for number in self._leaving[talker]]
        cheapest: dict[int, tuple[float, int]] = {}
        before: dict[int, int] = {}
        while waiting:
            price, number, came = heapq.heappop(waiting)
            if number in before:
                continue
            before[number] = came
            if self._links[number].target.node == listener:
                way = [number]
                while before[way[-1]] >= 0:
                    way.append(before[way[-1]])
                return tuple(reversed(way))
            here = place.get(number, -2)
            for onward in self._onward[number]:
                if onward in before or place.get(onward, -1) <= here:
                    continue
                if not self._onward[onward] and self._links[onward].target.node != listener:
                    continue
                further = price + price_in_hops(self._loads[onward] + share), number
                if onward not in cheapest or further < cheapest[onward]:
                    cheapest[onward] = further
                    heapq.heappush(waiting, (further[0], onward, number))
        return None
