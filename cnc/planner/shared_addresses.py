"""Streams that share a destination address and VLAN, told apart by their PCP.

A switch has one filtering entry for an address, by whose ports it forwards the frames of all these
streams but those that came by the port. So their ways must not part where they have met.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping

from cnc.model import Intent, Stream, StreamAddress
from cnc.planner.graph import Graph, Tree


class SharedAddresses:
    """The ways of the streams that share addresses, in a network of a graph."""

    def __init__(self, intent: Intent, graph: Graph) -> None:
        self._graph = graph
        self._shared: set[StreamAddress] = set()
        self._used: defaultdict[StreamAddress, Counter[int]] = defaultdict(Counter)
        self.join(intent.streams.values())

    def __bool__(self) -> bool:
        return bool(self._shared)

    def of(self, stream: Stream) -> StreamAddress | None:
        """The address, where others have it, too."""
        address = stream.stated_address if self._shared else None
        return address if address in self._shared else None

    def join(self, streams: Iterable[Stream]) -> None:
        """Let streams that come share the addresses that they state, where others have them."""
        counts = Counter(filter(None, (its.stated_address for its in streams)))
        self._shared |= {
            address for address, count in counts.items() if count > 1 or +self._used[address]
        }

    def carry(self, stream: Stream, tree: Tree, sign: int) -> None:
        """Count a stream on its way; with -1 no longer."""
        if address := stream.stated_address:
            self._used[address].update(dict.fromkeys(tree, sign))

    def closed(self, stream: Stream) -> set[int]:
        """The links between switches by which no frame to its address leaves a switch that others
        do."""
        address = self.of(stream)
        used = +self._used[address] if address else Counter[int]()
        crossed = {self._graph.source[link] for link in used}
        return {
            link
            for node in crossed
            for link in self._graph.between_bridges[node]
            if link not in used
        }


def parting(
    streams: Mapping[str, Stream],
    graph: Graph,
    ways: Mapping[str, Iterable[Tree]],
    kept: Collection[str],
) -> dict[str, str]:
    """The streams whose ways part from those of others with their address, and where; those that
    are `kept` stay, and of the others the first of `streams`."""
    groups: defaultdict[StreamAddress, list[str]] = defaultdict(list)
    for name, stream in streams.items():
        if name in ways and (address := stream.stated_address):
            groups[address].append(name)
    refused = {}
    for address, names in groups.items():
        together: list[str] = []
        for name in sorted(names, key=lambda name: name not in kept):
            at = _parting(graph, [ways[each] for each in (*together, name)])
            if at is None:
                together.append(name)
                continue
            others = " and ".join(together)
            refused[name] = (
                f"its path leaves at {at} that of {others}, which has {address}, too: a switch "
                "forwards to an address by one filtering entry, whatever the PCP; give them "
                "the same listeners and routes that stay together (`route`), or another VLAN"
            )
    return refused


def _parting(graph: Graph, ways: Iterable[Iterable[Tree]]) -> str | None:
    """A switch that would send frames of one of these ways to where it does not lead."""
    own = [{link for tree in trees for link in tree} for trees in ways]
    leaving: defaultdict[int, set[int]] = defaultdict(set)
    for link in set[int]().union(*own):
        leaving[graph.source[link]].add(link)
    for links in own:
        for link in links:
            node, back = graph.target[link], graph.number.get(graph.links[link].target)
            if graph.is_bridge[node] and not leaving[node] - {back} <= links:
                return graph.links[link].target.node
    return None
