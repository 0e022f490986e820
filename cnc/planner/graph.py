"""The network as a directed graph of numbers: distances, cheapest paths, disjoint pairs."""

from __future__ import annotations

import heapq
from array import array
from collections import deque
from collections.abc import Collection, Sequence

from cnc.model import Network

Path = tuple[int, ...]  # links, from the first to the last
Tree = tuple[int, ...]  # links of all paths to the listeners, parents before children


class Graph:
    """Nodes and links by number, bridges first, links in the order of their port names. Only
    bridges forward."""

    def __init__(self, network: Network) -> None:
        self.links = [network.links[port] for port in sorted(network.links)]
        self.number = {link.source: number for number, link in enumerate(self.links)}
        names = [*sorted(network.bridges), *sorted(network.end_stations)]
        self.node = {name: number for number, name in enumerate(names)}
        self.is_bridge = [name in network.bridges for name in names]
        self.source = [self.node[link.source.node] for link in self.links]
        self.target = [self.node[link.target.node] for link in self.links]
        self.is_inner = [
            self.is_bridge[source] and self.is_bridge[target]
            for source, target in zip(self.source, self.target, strict=True)
        ]
        self.leaving: list[list[int]] = [[] for _ in names]
        self.coming: list[list[int]] = [[] for _ in names]
        self.between_bridges: list[list[int]] = [[] for _ in names]
        for link, (source, target) in enumerate(zip(self.source, self.target, strict=True)):
            self.leaving[source].append(link)
            self.coming[target].append(link)
            if self.is_inner[link]:
                self.between_bridges[source].append(link)
        self._nearby = [[self.target[link] for link in its] for its in self.between_bridges]
        self._distances: dict[int, array[int]] = {}  # as many as bridges, of as many: no lists
        self._islands = self._number_islands()

    def is_reachable(self, source: int, target: int) -> bool:
        """Whether a way leads from station to station; cables work in both directions."""
        return bool(self._reach(source) & self._reach(target)) or any(
            self.target[link] == target for link in self.leaving[source]
        )

    def _reach(self, station: int) -> set[int]:
        """The islands of bridges that a station is connected to."""
        neighbours = (self.target[link] for link in self.leaving[station])
        return {self._islands[node] for node in neighbours if self.is_bridge[node]}

    def _number_islands(self) -> list[int]:
        islands = [-1] * len(self.node)
        for first in range(len(islands)):
            if islands[first] >= 0 or not self.is_bridge[first]:
                continue
            islands[first] = first
            waiting = [first]
            while waiting:
                for link in self.between_bridges[waiting.pop()]:
                    node = self.target[link]
                    if islands[node] < 0:
                        islands[node] = first
                        waiting.append(node)
        return islands

    def only_link_from(self, node: int) -> int | None:
        links = self.leaving[node]
        return links[0] if len(links) == 1 else None

    def only_link_to(self, node: int) -> int | None:
        links = self.coming[node]
        return links[0] if len(links) == 1 else None

    def onward(self, link: int) -> list[int]:
        """The links on which a bridge may forward what comes by a link: not back."""
        node, source = self.target[link], self.source[link]
        if not self.is_bridge[node]:
            return []
        return [number for number in self.leaving[node] if self.target[number] != source]

    def distances_to(self, bridge: int) -> Sequence[int]:
        """Hops between bridges from each to `bridge`; -1 where no way leads there."""
        if bridge not in self._distances:
            distance = array("i", [-1]) * sum(self.is_bridge)
            distance[bridge] = hops = 0
            reached = [bridge]
            while reached:
                hops += 1
                further = []
                for node in reached:
                    for near in self._nearby[node]:
                        if distance[near] < 0:
                            distance[near] = hops
                            further.append(near)
                reached = further
            self._distances[bridge] = distance
        return self._distances[bridge]

    def cheapest_path(
        self,
        sources: Collection[int],
        targets: Collection[int],
        prices: Sequence[float],
        banned: Collection[int],
        talker: int,
    ) -> Path | None:
        """From any source that may send on to the target nearest by price (Dijkstra)."""
        inbound: dict[int, int] = {}
        waiting = [
            (0.0, node, -1) for node in sorted(sources) if node == talker or self.is_bridge[node]
        ]
        settled = set()
        while waiting:
            price, node, link = heapq.heappop(waiting)
            if node in settled:
                continue
            settled.add(node)
            if link >= 0:
                inbound[node] = link
            if node in targets:
                return self._walk_back(inbound, node)
            if node != talker and not self.is_bridge[node]:
                continue
            for onward in self.leaving[node]:
                target = self.target[onward]
                if onward not in banned and target not in settled and target not in sources:
                    heapq.heappush(waiting, (price + prices[onward], target, onward))
        return None

    def _walk_back(self, inbound: dict[int, int], node: int) -> Path:
        path = []
        while node in inbound:
            path.append(inbound[node])
            node = self.source[inbound[node]]
        return tuple(reversed(path))

    def disjoint_pair(
        self, source: int, target: int, prices: Sequence[float]
    ) -> tuple[Path, Path] | None:
        """The cheapest two paths without a common link between bridges, or None.

        Two units of flow by successive cheapest paths: the second may cancel a link of the
        first (Suurballe 1974, in Bhandari's form). Links of stations may be used by both.
        """
        first = self.cheapest_path({source}, {target}, prices, (), source)
        if first is None:
            return None
        used = {link for link in first if self.is_inner[link]}
        second = self._augmenting_path(source, target, prices, used)
        if second is None:
            return None
        taken_back = {link for link, forward in second if not forward}
        flow = [link for link in first if link not in taken_back]
        flow += [link for link, forward in second if forward]
        return self.peel(flow, source, target), self.peel(flow, source, target)

    def _augmenting_path(
        self, source: int, target: int, prices: Sequence[float], used: set[int]
    ) -> list[tuple[int, bool]] | None:
        """The cheapest way when `used` links are closed but may be gone back for their price
        (Bellman and Ford's, since that price is negative). Each step is (link, forward)."""
        price = {source: 0.0}
        inbound: dict[int, tuple[int, bool]] = {}
        waiting = deque([source])
        while waiting:
            node = waiting.popleft()
            if node != source and not self.is_bridge[node]:
                continue
            steps = [
                (self.target[k], prices[k], k, True) for k in self.leaving[node] if k not in used
            ]
            steps += [
                (self.source[k], -prices[k], k, False) for k in self.coming[node] if k in used
            ]
            for onward, step, link, forward in steps:
                total = price[node] + step
                if total < price.get(onward, float("inf")) - 1e-9:
                    price[onward] = total
                    inbound[onward] = link, forward
                    waiting.append(onward)
        if target not in inbound:
            return None
        path = []
        node = target
        while node != source:
            link, forward = inbound[node]
            path.append((link, forward))
            node = self.source[link] if forward else self.target[link]
        return path[::-1]

    def peel(self, flow: list[int], source: int, target: int) -> Path:
        """Take one path out of the links of a flow."""
        path, node = [], source
        while node != target:
            link = next(link for link in flow if self.source[link] == node)
            flow.remove(link)
            path.append(link)
            node = self.target[link]
        return tuple(path)
