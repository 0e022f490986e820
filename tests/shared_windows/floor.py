"""What the frame of a stream needs even alone, whatever a planner does: a program of its own.

Each sender may start as late as its margin, each link may be as slow as its rate allows, each
switch takes its longest to process, and the clocks of both ends differ once. Other frames, control
and best effort among them, count nothing. A gate that is open already when the frame comes spares
it a margin that this counts, so that a plan may be better than the floor.
"""

from __future__ import annotations

from collections import defaultdict
from heapq import heappop, heappush

from cnc.model import Link, Network, PortRef, Stream


class Floors:
    """The floors of the streams of one network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._leaving: dict[str, list[Link]] = defaultdict(list)
        for link in network.links.values():
            self._leaving[link.source.node].append(link)
        self._costs: dict[int, dict[PortRef, int]] = {}  # of the links, by payload

    def floor_ns(self, stream: Stream) -> int:
        """The least latency of a stream's first frame, in ns, to the listener that it reaches last.

        Of two copies the later one counts. They share no link between switches, so that one of
        them goes a way without any given one. Raises ValueError where there is no way.
        """
        return max(self._to(stream, listener) for listener in stream.listeners)

    def _to(self, stream: Stream, listener: str) -> int:
        least_ns, way = self._quickest(stream, listener)
        if stream.paths > 1:
            bridges = self._network.bridges
            shared = (its for its in way if {its.source.node, its.target.node} <= bridges.keys())
            others_ns = (self._quickest(stream, listener, without=its)[0] for its in shared)
            least_ns = max((least_ns, *others_ns))
        return least_ns + self._network.clock_error_ns

    def _quickest(
        self, stream: Stream, listener: str, without: Link | None = None
    ) -> tuple[int, list[Link]]:
        """The way that takes the least time (Dijkstra's algorithm), and that time."""
        costs, stations = self._costs_of(stream.payload_octets), self._network.end_stations
        came_by: dict[str, Link] = {}
        least_ns = {stream.talker: 0}
        waiting = [(0, stream.talker)]
        while waiting:
            time_ns, node = heappop(waiting)
            if node == listener:
                way = []
                while node != stream.talker:
                    way.append(came_by[node])
                    node = came_by[node].source.node
                return time_ns, way[::-1]
            if time_ns > least_ns[node] or (node in stations and node != stream.talker):
                continue  # known to be quicker, or a station, which forwards nothing
            for link in self._leaving[node]:
                reached_ns = time_ns + costs[link.source]
                target = link.target.node
                if link is not without and reached_ns < least_ns.get(target, reached_ns + 1):
                    least_ns[target] = reached_ns
                    came_by[target] = link
                    heappush(waiting, (reached_ns, target))
        raise ValueError(f"no way leads from {stream.talker} to {listener}")

    def _costs_of(self, payload_octets: int) -> dict[PortRef, int]:
        """What each link adds for such a frame, with the processing of the switch before it."""
        if payload_octets not in self._costs:
            network = self._network
            self._costs[payload_octets] = {
                port: network.lateness_ns(port.node)
                + (
                    network.bridges[port.node].processing_max_ns
                    if port.node in network.bridges
                    else 0
                )
                + network.reception_max_ns(link, payload_octets)
                + link.propagation_ns
                for port, link in network.links.items()
            }
        return self._costs[payload_octets]
