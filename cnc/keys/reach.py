"""The least latency physics allows: the fastest path, with no other frame in the way."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from cnc.model import Link, Network, PortRef, Stream

_Tree = dict[str, Link]  # for each switch that can be reached, the last link of the way there


@dataclass(slots=True)
class FastestPaths:
    """Fastest paths through `network`; only bridges forward."""

    network: Network
    _leaving: dict[str, list[Link]] = field(init=False)
    _arriving: dict[str, list[Link]] = field(init=False)
    _onward: dict[str, list[tuple[str, Link]]] = field(init=False)  # from bridge to bridge
    _fixed_ns: dict[PortRef, int] = field(init=False)  # of a hop, beside the frame's own length
    _trees: dict[str, _Tree] = field(default_factory=dict)
    _receptions_ns: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        bridges = self.network.bridges
        self._leaving, self._arriving = defaultdict(list), defaultdict(list)
        self._onward = {name: [] for name in bridges}
        self._fixed_ns = {}
        for port, link in self.network.links.items():
            source, target = port.node, link.target.node
            self._leaving[source].append(link)
            self._arriving[target].append(link)
            self._fixed_ns[port] = link.propagation_ns
            if target in bridges:
                self._fixed_ns[port] += bridges[target].processing_min_ns
                if source in bridges:
                    self._onward[source].append((target, link))

    def latency_ns(self, stream: Stream, listener: str) -> int | None:
        """From the first bit sent to the last bit at `listener`, or None without a path.

        The result is the least possible only where it exceeds what the stream allows: a path
        that is fast enough proves that the fastest one is. The first to be tried has the fewest
        hops, or was the fastest for an earlier stream.
        """
        latency_ns = min(self._ways_ns(stream, listener), default=None)
        if latency_ns is None or latency_ns <= stream.max_latency_ns:
            return latency_ns
        for uplink in self._leaving[stream.talker]:
            if uplink.target.node in self.network.bridges:
                self._trees[uplink.target.node] = self._fastest(uplink.target.node, stream)
        return min(self._ways_ns(stream, listener))

    def _ways_ns(self, stream: Stream, listener: str) -> Iterator[int]:
        """The latency by each access link of the talker and of the listener."""
        for uplink in self._leaving[stream.talker]:
            first = uplink.target.node
            uplink_ns = self._hop_ns(uplink, stream)
            if first == listener:
                yield uplink_ns + self._wait_ns(stream, uplink)
            if first not in self.network.bridges:
                continue
            tree = self._trees.get(first)
            if tree is None:
                tree = self._trees[first] = self._fewest_hops(first)
            for downlink in self._arriving[listener]:
                last = downlink.source.node
                if last == first or last in tree:
                    between_ns = self._along(tree, first, last, stream)
                    way_ns = uplink_ns + between_ns + self._hop_ns(downlink, stream)
                    yield way_ns + self._wait_ns(stream, uplink, downlink)

    def _wait_ns(self, stream: Stream, *links: Link) -> int:
        """How long the last frame of a period waits for those before it: on the slowest of these
        links at least."""
        if stream.frames == 1:
            return 0
        times = [self.network.occupation_ns(link, stream.payload_octets) for link in links]
        return (stream.frames - 1) * max(times)

    def _along(self, tree: _Tree, first: str, last: str, stream: Stream) -> int:
        latency_ns, node = 0, last
        while node != first:
            latency_ns += self._hop_ns(tree[node], stream)
            node = tree[node].source.node
        return latency_ns

    def _fewest_hops(self, first: str) -> _Tree:
        """Breadth first: a tenth of the time that the fastest paths take."""
        tree: _Tree = {}
        reached = [first]
        for node in reached:
            for onward, link in self._onward[node]:
                if onward not in tree and onward != first:
                    tree[onward] = link
                    reached.append(onward)
        return tree

    def _fastest(self, first: str, stream: Stream) -> _Tree:
        """Dijkstra's algorithm, for frames of the stream's length."""
        tree: _Tree = {}
        waiting = [(self._hop_ns(link, stream), link.source) for _, link in self._onward[first]]
        heapq.heapify(waiting)
        while waiting:
            latency_ns, port = heapq.heappop(waiting)
            node = self.network.links[port].target.node
            if node in tree or node == first:
                continue
            tree[node] = self.network.links[port]
            for onward, link in self._onward[node]:
                if onward not in tree:
                    heapq.heappush(waiting, (latency_ns + self._hop_ns(link, stream), link.source))
        return tree

    def _hop_ns(self, link: Link, stream: Stream) -> int:
        """From a frame's first bit on `link` to its place in the next queue, or its arrival."""
        frame = (link.rate_bps, stream.payload_octets)
        reception_ns = self._receptions_ns.get(frame)
        if reception_ns is None:
            reception_ns = self.network.reception_ns(link, stream.payload_octets)
            self._receptions_ns[frame] = reception_ns
        return reception_ns + self._fixed_ns[link.source]
