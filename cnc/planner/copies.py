"""Two paths in a bridged network, where switches copy frames: which trees go together.

A switch has one filtering entry for an address, with the ports of both trees. A frame leaves by all
of them but the one it came by, so that trees that meet elsewhere than in their first and their last
switch may multiply copies. A talker with one link sends each frame once, for its switch to copy.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cnc.model import Forwarding, Network
from cnc.planner.graph import Graph, Path, Tree

_UNITS = 2  # paths of a pair


def talkers_with_one_link(network: Network) -> frozenset[str]:
    """The talkers whose frames the switches copy where a stream has two paths: in a bridged
    network those that cannot send a copy each on two links. None in a routed one."""
    if network.forwarding is Forwarding.ROUTED:
        return frozenset()
    counts = Counter(port.node for port in network.links if port.node in network.end_stations)
    return frozenset(name for name, count in counts.items() if count == 1)


def keep_apart(graph: Graph, trees: Sequence[Tree]) -> bool:
    """Whether bridges forward frames over exactly these trees of one stream."""
    talker = graph.source[trees[0][0]]
    sent = {link for tree in trees for link in tree if graph.source[link] == talker}
    planned = Counter(link for tree in trees for link in tree if link not in sent)
    planned.update(sent)
    entries: defaultdict[int, set[int]] = defaultdict(set)
    for link in planned:
        entries[graph.source[link]].add(link)
    crossed: Counter[int] = Counter()
    under_way = sorted(sent)
    while under_way:
        link = under_way.pop()
        crossed[link] += 1
        if crossed[link] > planned[link]:
            return False
        node, ingress = graph.target[link], graph.links[link].target
        if graph.is_bridge[node]:
            under_way += [
                onward for onward in entries[node] if graph.links[onward].source != ingress
            ]
    return crossed == planned


def end_at_last_switches(graph: Graph, trees: Sequence[Tree]) -> bool:
    """Whether no switch that sends frames to a listener sends them to a switch, too: where it takes
    out second copies, it takes the R-TAG off, and the next could not."""
    to_stations: set[int] = set()
    to_bridges: set[int] = set()
    for link in (link for tree in trees for link in tree):
        node = graph.source[link]
        if graph.is_bridge[node]:
            (to_bridges if graph.is_bridge[graph.target[link]] else to_stations).add(node)
    return to_stations.isdisjoint(to_bridges)


def node_disjoint_pair(
    graph: Graph, source: int, target: int, prices: Sequence[float]
) -> tuple[Path, Path] | None:
    """The cheapest two paths that share no bridge but those at the only links of the stations.

    Two units of flow as in `Graph.disjoint_pair`, through bridges that let one unit pass.
    """
    flow = _Flow()
    up, down = graph.only_link_from(source), graph.only_link_to(target)
    shared = {link for link in (up, down) if link is not None}
    ends = {node for link in shared for node in (graph.source[link], graph.target[link])}
    for node, is_bridge in enumerate(graph.is_bridge):
        if is_bridge:
            flow.add(_inside(node), _outside(node), 0.0, _UNITS if node in ends else 1, None)
    for link, price in enumerate(prices):
        first, last = graph.source[link], graph.target[link]
        sends = graph.is_bridge[first] or first == source
        if sends and (graph.is_bridge[last] or last == target):
            room = _UNITS if link in shared else 1
            flow.add(_outside(first), _inside(last), price, room, link)
    if not all(flow.augment(_outside(source), _inside(target)) for _ in range(_UNITS)):
        return None
    used = flow.links()
    return graph.peel(used, source, target), graph.peel(used, source, target)


def _inside(node: int) -> int:
    """Where links to a node end, and where those from it start: a bridge joins the two."""
    return 2 * node


def _outside(node: int) -> int:
    return 2 * node + 1


class _Arc(NamedTuple):
    source: int
    target: int
    price: float
    link: int | None


@dataclass(slots=True)
class _Flow:
    """Arcs, each followed by its reverse, and how much more each can carry."""

    arcs: list[_Arc] = field(default_factory=list)
    room: list[int] = field(default_factory=list)
    leaving: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, source: int, target: int, price: float, room: int, link: int | None) -> None:
        for arc, its_room in (
            (_Arc(source, target, price, link), room),
            (_Arc(target, source, -price, link), 0),
        ):
            self.leaving[arc.source].append(len(self.arcs))
            self.arcs.append(arc)
            self.room.append(its_room)

    def augment(self, source: int, target: int) -> bool:
        """Send one more unit by the cheapest way (Bellman and Ford's, as reverse arcs have negative
        prices); False if there is none."""
        price = {source: 0.0}
        inbound: dict[int, int] = {}
        waiting = deque([source])
        while waiting:
            node = waiting.popleft()
            for number in self.leaving[node]:
                arc = self.arcs[number]
                total = price[node] + arc.price
                if self.room[number] and total < price.get(arc.target, float("inf")) - 1e-9:
                    price[arc.target] = total
                    inbound[arc.target] = number
                    waiting.append(arc.target)
        if target not in inbound:
            return False
        node = target
        while node != source:
            number = inbound[node]
            self.room[number] -= 1
            self.room[number ^ 1] += 1
            node = self.arcs[number].source
        return True

    def links(self) -> list[int]:
        """The links of all units, each as often as units cross it."""
        return [
            arc.link
            for number, arc in enumerate(self.arcs)
            if number % 2 == 0 and arc.link is not None
            for _ in range(self.room[number + 1])
        ]
