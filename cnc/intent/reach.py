"""The least latency physics allows: the fastest path, with no other frame in the way."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from cnc.model import Link, Network, Stream


@dataclass(slots=True)
class FastestPaths:
    """Fastest paths through `network`; only bridges forward."""

    network: Network
    _links_of: dict[str, list[Link]] = field(init=False)
    _trees: dict[str, dict[str, Link]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._links_of = {}
        for link in self.network.links.values():
            self._links_of.setdefault(link.source.node, []).append(link)

    def latency_ns(self, stream: Stream, listener: str) -> int | None:
        """From the first bit sent to the last bit at `listener`, or None without a path.

        The result is the least possible only where it exceeds what the stream allows: a path
        that is fast enough proves that the fastest one is, and is kept for the talker's others.
        """
        tree = self._trees.get(stream.talker)
        if tree is None:
            tree = self._trees[stream.talker] = self._tree(stream)
        latency_ns = self._along(tree, stream, listener)
        if latency_ns is None or latency_ns <= stream.max_latency_ns:
            return latency_ns
        return self._along(self._tree(stream), stream, listener)

    def _along(self, tree: dict[str, Link], stream: Stream, listener: str) -> int | None:
        latency_ns, node = 0, listener
        while node != stream.talker:
            if node not in tree:
                return None
            latency_ns += self._hop_ns(tree[node], stream)
            node = tree[node].source.node
        return latency_ns

    def _tree(self, stream: Stream) -> dict[str, Link]:
        """For each node that can be reached, the last link of its fastest path (Dijkstra)."""
        tree: dict[str, Link] = {}
        waiting = [
            (self._hop_ns(link, stream), link.source)
            for link in self._links_of.get(stream.talker, [])
        ]
        heapq.heapify(waiting)
        while waiting:
            latency_ns, port = heapq.heappop(waiting)
            link = self.network.links[port]
            node = link.target.node
            if node in tree or node == stream.talker:
                continue
            tree[node] = link
            if node in self.network.bridges:
                for onward in self._links_of[node]:
                    if onward.target.node not in tree:
                        step_ns = self._hop_ns(onward, stream)
                        heapq.heappush(waiting, (latency_ns + step_ns, onward.source))
        return tree

    def _hop_ns(self, link: Link, stream: Stream) -> int:
        """From a frame's first bit on `link` to its place in the next queue, or its arrival."""
        onward = self.network.bridges.get(link.target.node)
        return (
            self.network.reception_ns(link, stream.payload_octets)
            + link.propagation_ns
            + (onward.processing_min_ns if onward else 0)
        )
