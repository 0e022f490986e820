"""Where one cable is all there is: frames sent twice (IEEE 802.1CB) would both have to cross it."""

from __future__ import annotations

from dataclasses import dataclass, field

from cnc.model import Link, Network, PortRef


@dataclass(slots=True)
class Cuts:
    """The cables between bridges of `network` whose loss parts what they join.

    A tree through all bridges has every such cable in it, for there is no other way. Any cable
    that is not in the tree closes a ring with some that are, and none of a ring is a cut.
    By Menger's theorem two nodes that no cut parts have two ways between them without a common
    link, and by Edmonds' so have a talker and any number of listeners.
    """

    network: Network
    _neighbours: dict[str, list[str]] = field(init=False)  # the bridges beside each node
    _up: dict[str, Link] = field(default_factory=dict)  # the tree: from each bridge's parent to it
    _depth: dict[str, int] = field(default_factory=dict)
    _ringed: dict[str, str] = field(default_factory=dict)  # a ring leads from here up to there
    _above: dict[str, frozenset[PortRef]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        links, bridges = self.network.links, self.network.bridges
        self._neighbours = {node: [] for node in (*bridges, *self.network.end_stations)}
        between: dict[str, list[Link]] = {name: [] for name in bridges}
        for port, link in links.items():
            if link.target.node in bridges:
                self._neighbours[port.node].append(link.target.node)
                if port.node in bridges:
                    between[port.node].append(link)
        for root in bridges:
            if root not in self._depth:
                self._grow_tree(root, between)
        in_tree = {port for link in self._up.values() for port in (link.source, link.target)}
        for link in (link for its in between.values() for link in its):
            if link.source not in in_tree:
                self._close_ring(link.source.node, link.target.node)

    def between(self, talker: str, listener: str) -> Link | None:
        """A cable that all ways from one end station to the other cross; None if there is none.

        Access links are no cuts: an end station may have but one.
        """
        starts, ends = self._neighbours[talker], self._neighbours[listener]
        if not starts or not ends:
            return None  # joined by a cable of their own, or not at all
        above_starts = [self._cuts_above(bridge) for bridge in starts]
        above_ends = [self._cuts_above(bridge) for bridge in ends]
        parting = {
            *frozenset.intersection(*above_starts).difference(*above_ends),
            *frozenset.intersection(*above_ends).difference(*above_starts),
        }
        return self.network.links[min(parting)] if parting else None

    def only_bridge(self, talker: str, listener: str) -> str | None:
        """The bridge by which alone both end stations are reached; None if there is no such one."""
        starts, ends = self._neighbours[talker], self._neighbours[listener]
        return starts[0] if len(starts) == 1 and starts == ends else None

    def _grow_tree(self, root: str, between: dict[str, list[Link]]) -> None:
        self._depth[root] = 0
        reached = [root]
        for node in reached:
            for link in between[node]:
                onward = link.target.node
                if onward not in self._depth:
                    self._depth[onward] = self._depth[node] + 1
                    self._up[onward] = link
                    reached.append(onward)

    def _close_ring(self, one: str, other: str) -> None:
        one, other = self._top(one), self._top(other)
        while one != other:
            if self._depth[one] < self._depth[other]:
                one, other = other, one
            self._ringed[one] = self._up[one].source.node
            one = self._top(one)

    def _top(self, node: str) -> str:
        """As far up the tree as rings lead."""
        while node in self._ringed:
            above = self._ringed[node]
            self._ringed[node] = self._ringed.get(above, above)  # half as far next time
            node = above
        return node

    def _cuts_above(self, bridge: str) -> frozenset[PortRef]:
        """The cuts between a bridge and the root of its tree."""
        if bridge not in self._above:
            cuts, node = [], self._top(bridge)
            while node in self._up:
                cuts.append(self._up[node].source)
                node = self._top(self._up[node].source.node)
            self._above[bridge] = frozenset(cuts)
        return self._above[bridge]
