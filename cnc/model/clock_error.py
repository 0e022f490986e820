"""How far two clocks of a network may differ: by their distance in the clock tree, if that is
stated, whichever tree the clocks have chosen.

Clocks that follow one grandmaster form a tree of the network's links (IEEE 802.1AS-2020 10.3: the
best timeTransmitter clock algorithm). Each follows its neighbour towards the root and adds an error
of its own, so that two differ by one such error for each hop between them in the tree at most
(annex B.3). Which tree it is depends on the grandmaster, on ties, on ports that are configured, and
on cables that have failed: so the longest way in any spanning tree counts. A way cannot leave a
part of the network that no single node cuts in two and come back, and crosses each node once: it
has a hop for each link that is the only one between its ends, and in a part of n nodes with rings
n - 1 at most. In a plain ring a tree leaves out one link, so that two nodes are as far apart as one
of the two ways around.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from cnc.model.network import Link, Network, PortRef


class ClockErrors:
    """The greatest difference of any two clocks of a network."""

    def __init__(self, network: Network) -> None:
        self._most_ns = network.clock_error_ns
        self._each_ns = network.clock_error_neighbours_ns
        self._hops = None if self._each_ns is None else ClockHops(network.links)
        self._known: dict[tuple[str, str], int] = {}

    @property
    def same_ns(self) -> int | None:
        """How far any two clocks may differ, if that is the same for all."""
        return self._most_ns if self._hops is None else None

    def between_ns(self, one: str, other: str) -> int:
        """How far the clocks of two nodes may differ, in nanoseconds."""
        if self._each_ns is None or self._hops is None:
            return self._most_ns
        pair = (one, other) if one < other else (other, one)
        if pair not in self._known:
            hops = self._hops.between(one, other)
            by_hops = self._most_ns if hops is None else hops * self._each_ns
            self._known[pair] = min(self._most_ns, by_hops)
        return self._known[pair]

    def most_ns(self, ones: Iterable[str], other: str) -> int:
        """How far the clock of `other` may differ from any of `ones`."""
        if self._hops is None:
            return self._most_ns
        return max(self.between_ns(one, other) for one in ones)


class ClockHops:
    """The most hops between two nodes in any spanning tree of `links`: a pure function of these."""

    def __init__(self, links: Mapping[PortRef, Link]) -> None:
        neighbours: defaultdict[str, set[str]] = defaultdict(set)
        for link in links.values():
            neighbours[link.source.node].add(link.target.node)
            neighbours[link.target.node].add(link.source.node)
        # For each node the part by which it is reached from the first node of the network, and how
        # many such parts are between.
        self._part: dict[str, _Part] = {}
        self._depth: dict[str, int] = {}
        for root in sorted(neighbours):
            if root not in self._depth:
                self._explore(root, neighbours)

    def between(self, one: str, other: str) -> int | None:
        """The hops between two nodes; None if no way leads from one to the other."""
        hops = 0
        while one != other:
            mine, its = self._part.get(one), self._part.get(other)
            if mine is not None and mine is its:
                return hops + mine.hops(one, other)
            if self._depth.get(one, 0) < self._depth.get(other, 0):
                one, other, mine = other, one, its
            if mine is None:
                return None
            hops += mine.hops(one, mine.entry)
            one = mine.entry
        return hops

    def _explore(self, root: str, neighbours: Mapping[str, set[str]]) -> None:
        """Know the parts that a node leads to."""
        found = list(_parts(root, neighbours))
        self._depth[root] = 0
        for part in reversed(found):  # one is found after those behind it
            for node in part.place.keys() - {part.entry}:
                self._part[node] = part
                self._depth[node] = self._depth[part.entry] + 1


def _parts(root: str, neighbours: Mapping[str, set[str]]) -> Iterator[_Part]:
    """The parts that a node leads to, depth first (Hopcroft and Tarjan 1973)."""
    number, lowest = {root: 0}, {root: 0}
    links: list[tuple[str, str]] = []
    # Where the search is: a node, the one before, the links that were known, and whom to ask next.
    way = [(root, "", 0, iter(sorted(neighbours[root])))]
    while way:
        node, before, known, others = way[-1]
        following = next(others, None)
        if following is None:
            way.pop()
            if way:
                lowest[before] = min(lowest[before], lowest[node])
                if lowest[node] >= number[before]:
                    yield _Part.of(before, links[known:])
                    del links[known:]
        elif following not in number:
            number[following] = lowest[following] = len(number)
            way.append((following, node, len(links), iter(sorted(neighbours[following]))))
            links.append((node, following))
        elif following != before and number[following] < number[node]:
            links.append((node, following))
            lowest[node] = min(lowest[node], number[following])


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A link that is the only one between its ends, or nodes that no single one cuts in two.

    `entry` is the first of them that was found. Where they form a plain ring, `place` has their
    order around it.
    """

    entry: str
    place: Mapping[str, int]
    is_ring: bool

    @classmethod
    def of(cls, entry: str, links: list[tuple[str, str]]) -> _Part:
        onward: defaultdict[str, list[str]] = defaultdict(list)
        for one, other in links:
            onward[one].append(other)
            onward[other].append(one)
        is_ring = len(links) == len(onward) > 1
        order = [entry]
        if is_ring:
            while len(order) < len(onward):
                order.append(next(each for each in onward[order[-1]] if each not in order[-2:-1]))
        else:
            order = list(onward)
        return cls(entry, {node: place for place, node in enumerate(order)}, is_ring)

    def hops(self, one: str, other: str) -> int:
        """The most hops between two of its nodes."""
        if one == other:
            return 0
        count = len(self.place)
        if not self.is_ring:
            return count - 1
        around = abs(self.place[one] - self.place[other])
        return max(around, count - around)
