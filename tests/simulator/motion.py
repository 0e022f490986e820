"""The frames of all flows on their way through a network."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from cnc.model import Link, Network, PortRef
from tests.simulator.adversary import Adversary
from tests.simulator.clocks import clocks_ns
from tests.simulator.filters import DroppingFilters
from tests.simulator.ports import Flow, Frame, Step
from tests.simulator.recovery import VectorRecovery

Passage = tuple[Flow, PortRef] | tuple[PortRef, PortRef, int]
"""What keeps frames in order: a talker those of a flow by each port, and a switch those of a class
from one port to another (802.1Q 8.6.6)."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A frame at a listener. The latency is that by the clock of talker or listener, whichever is
    greater; `at_ns` is when it comes after the first start of its copies, by the listener's."""

    frame: Frame
    listener: str
    latency_ns: int
    at_ns: int


@dataclass(slots=True)
class Record:
    """What became of the frames: `lost` ones on a link, others `left` in a queue."""

    arrivals: list[Arrival] = field(default_factory=list)
    lost: list[tuple[Frame, Link]] = field(default_factory=list)
    left: list[Frame] = field(default_factory=list)
    departures: list[tuple[PortRef, Frame, int]] = field(default_factory=list)


class Egress(Protocol):
    """A port that frames leave by."""

    def enqueue(self, frame: Frame) -> None: ...

    def waiting(self) -> list[Frame]: ...

    def step(self, now_ns: int) -> Step: ...


class Motion:
    """`last_bit_ns` is how long a frame of a flow takes on a link, to its last bit."""

    def __init__(
        self,
        network: Network,
        adversary: Adversary,
        port: Callable[[Link], Egress],
        last_bit_ns: Callable[[Flow, Link], int],
        filters: DroppingFilters | None = None,
    ) -> None:
        self._network = network
        self._adversary = adversary
        self._last_bit_ns = last_bit_ns
        self._filters = filters
        self._clocks = clocks_ns(network, adversary)
        self._make_port = port
        self._ports: dict[PortRef, Egress] = {}
        self._wakes: dict[PortRef, int] = {}
        # When the last frame of each passage came to its queue, and in which turn of that instant.
        self._last_queued: dict[Passage, tuple[int, int]] = {}
        self._recoveries: dict[tuple[str, str], VectorRecovery] = {}
        self._record = Record()
        self._events: list[tuple[int, int, int, Link, Frame | None]] = []
        self._count = 0

    def run(self, sent: Iterable[tuple[int, Link, Frame]], end_ns: int) -> Record:
        """Put frames into ports at times by the clocks of their nodes, and follow them until
        `end_ns`."""
        for time_ns, first, sent_frame in sent:
            at = time_ns - self._clocks[first.source.node]
            self._enqueue(at, first, sent_frame, (sent_frame.flow, first.source))
        events = self._events
        while events and events[0][0] <= end_ns:
            now, _, _, link, frame = heapq.heappop(events)
            if frame is not None:
                self._port(link).enqueue(frame)
            elif self._wakes.get(link.source) != now:
                continue  # the port has been asked since
            self._serve(now, link)
        self._record.left = [f for port in self._ports.values() for f in port.waiting()]
        return self._record

    def _port(self, link: Link) -> Egress:
        if link.source not in self._ports:
            self._ports[link.source] = self._make_port(link)
        return self._ports[link.source]

    def _serve(self, now_ns: int, link: Link) -> None:
        clock = self._clocks[link.source.node]
        step = self._ports[link.source].step(now_ns + clock)
        for frame, at_ns in step.starts:
            self._record.departures.append((link.source, frame, at_ns))
            self._travel(frame, link, at_ns - clock)
        self._wakes.pop(link.source, None)
        if step.again_ns is not None:
            self._wakes[link.source] = step.again_ns - clock
            self._at(step.again_ns - clock, self._adversary.turn(), link, None)

    def _travel(self, frame: Frame, link: Link, start_ns: int) -> None:
        if self._adversary.loses():
            self._record.lost.append((frame, link))
            return
        flow, node = frame.flow, link.target.node
        received = start_ns + self._last_bit_ns(flow, link) + link.propagation_ns
        if node in flow.recovers:
            recovery = self._recoveries.setdefault(
                (node, flow.name), VectorRecovery(*flow.recovers[node])
            )
            if not recovery.passes(frame.number * flow.frames + frame.place, received):
                return
        if node in flow.listeners:
            by_talker, by_listener = (
                received + self._clocks[end] - frame.begin_ns for end in (flow.talker, node)
            )
            arrival = Arrival(frame, node, max(by_talker, by_listener), by_listener)
            self._record.arrivals.append(arrival)
        bridge = self._network.bridges.get(node)
        if bridge is not None:
            ways = flow.ports.get(node, ())
            takes = [self._adversary.processing_ns(bridge) for _ in ways]
            if self._filters and link.source.node == flow.talker:
                # One look at a frame, of which all copies are made.
                looked = received + self._adversary.before_filter_ns(min(takes))
                if not self._filters.passes(flow, link.target, looked + self._clocks[node]):
                    return
            for following, processing in zip(ways, takes, strict=True):
                passage = link.source, following.source, flow.traffic_class
                self._enqueue(received + processing, following, frame, passage)

    def _enqueue(self, time_ns: int, link: Link, frame: Frame, passage: Passage) -> None:
        """A frame is in its queue then, or behind the one before it of its passage."""
        queued = time_ns, self._adversary.turn()
        before = self._last_queued.get(passage)
        if before is not None and time_ns <= before[0]:
            queued = before
        self._last_queued[passage] = queued
        self._at(*queued, link, frame)

    def _at(self, time_ns: int, turn: int, link: Link, frame: Frame | None) -> None:
        self._count += 1
        heapq.heappush(self._events, (time_ns, turn, self._count, link, frame))
