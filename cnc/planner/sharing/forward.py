"""Ways that lead forward in an order of ports, for streams of which others lead around rings."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from math import inf

from cnc.mechanisms.terms import closed_ports
from cnc.planner.graph import Graph, Tree
from cnc.planner.problem import Problem
from cnc.planner.routing import price_in_hops


class ForwardWays:
    """Ways through the network of a problem, whose links have the loads of its router."""

    def __init__(self, problem: Problem) -> None:
        router = problem.router
        self._graph = graph = router.graph if router else Graph(problem.intent.network)
        self._loads = list(router.loads) if router else [0.0] * len(graph.links)
        self._closed = closed_ports(problem.intent)
        self._place: dict[int, int] = {}
        self._leads: list[list[int]] = []

    def carry(self, links: Iterable[int], share: float) -> None:
        """Count the load of a stream on links."""
        for link in links:
            self._loads[link] += share

    def between_switches(self) -> dict[int, tuple[str, str]]:
        """The switches at both ends of each link that has two."""
        graph = self._graph
        ends = ((n, (its.source.node, its.target.node)) for n, its in enumerate(graph.links))
        return {number: its for number, its in ends if graph.is_inner[number]}

    def turns(self) -> list[tuple[int, int]]:
        """All turns that frames could take from links between switches."""
        graph = self._graph
        inner = (number for number, is_inner in enumerate(graph.is_inner) if is_inner)
        return [(number, onward) for number in inner for onward in graph.onward(number)]

    def follow(self, place: Mapping[int, int]) -> None:
        """From now on find ways in this order: from links of a lower place to those of a higher
        one. Links that have none are on no way, but those of talkers."""
        graph = self._graph
        self._place = {
            n: at for n, at in place.items() if graph.links[n].source not in self._closed
        }
        self._leads = [
            [
                onward
                for onward in graph.onward(n)
                if graph.is_inner[onward] and self._leads_to(n, onward)
            ]
            for n in range(len(graph.links))
        ]

    def _leads_to(self, link: int, onward: int) -> bool:
        return self._place.get(onward, -1) > self._place.get(link, -1)

    def find(self, talker: str, listener: str, share: float) -> Tree | None:
        """The cheapest way that only leads forward. `share` is how much of its time the stream
        takes of a link.

        What is left costs at least 1 a hop, so that links are looked at first that are near (Hart,
        Nilsson, Raphael: A formal basis for the heuristic determination of minimum cost paths.
        IEEE Transactions on Systems Science and Cybernetics 4, 1968).
        """
        graph, target = self._graph, self._graph.target
        end = graph.node[listener]
        last = {graph.source[n]: n for n in graph.coming[end]}
        left = [graph.distances_to(node) for node in last if graph.is_bridge[node]]
        waiting = [(0.0, 0.0, number, -1) for number in graph.leaving[graph.node[talker]]]
        cheapest: dict[int, float] = {}
        before: dict[int, int] = {}
        while waiting:
            _, price, number, came = heapq.heappop(waiting)
            if number in before:
                continue
            before[number] = came
            node = target[number]
            if node == end:
                way = [number]
                while before[way[-1]] >= 0:
                    way.append(before[way[-1]])
                return tuple(reversed(way))
            onwards = self._leads[number]
            if node in last and self._leads_to(number, last[node]):
                onwards = [*onwards, last[node]]
            for onward in onwards:
                further = price + price_in_hops(self._loads[onward] + share)
                if onward in before or further >= cheapest.get(onward, inf):
                    continue
                cheapest[onward] = further
                node = target[onward]
                hops = 0 if node == end else 1 + min(its[node] for its in left)
                heapq.heappush(waiting, (further + hops, further, onward, number))
        return None
