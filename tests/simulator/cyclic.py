"""Frames of a class that is forwarded once each interval, one by one through a network.

What ports and filters do is read from the lists of a plan and from what switches are told; of
intervals and bounds nothing is known here. Clocks differ by as much as they may, gates open and
shut late, control and best effort come when they harm, and a switch looks at a frame, and has it in
its queue, as soon or as late as it may. Talkers begin at random and are late at random.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import NamedTuple

from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.stream_filters.model import CyclicGate, StreamFilters
from cnc.model import ClassRole, Intent, Link, Plan, PortRef, transmission_max_ns


class Frame(NamedTuple):
    """A frame, and the instant at which its talker was to send it, by true time."""

    stream: str
    number: int
    due_ns: int


class Coming(NamedTuple):
    """A frame that comes into a queue of a port."""

    egress: PortRef
    number: int
    frame: Frame


class Arrival(NamedTuple):
    """The last bit of a frame at a listener."""

    frame: Frame
    listener: str
    latency_ns: int


@dataclass(slots=True)
class _Port:
    """A port: its queues by traffic class, and what it does beside."""

    link: Link
    queues: defaultdict[int, deque[Frame]] = field(default_factory=lambda: defaultdict(deque))
    busy_until_ns: int = 0
    control_ns: int = 0  # what control has sent of late, as a level that sinks
    control_at_ns: int = 0
    passed: tuple[int, int] = (0, 0)  # when the last frame was looked at at the far end, and queued


class Cyclic:
    """One run of a plan."""

    def __init__(self, plan: Plan, random: Random) -> None:
        self._plan, self._random = plan, random
        self._intent: Intent = plan.intent
        network = plan.intent.network
        half_ns = network.clock_error_ns // 2
        nodes = [*network.bridges, *network.end_stations]
        self._ahead_ns = {node: random.choice((-half_ns, half_ns)) for node in nodes}
        self._ports = {port: _Port(link) for port, link in network.links.items()}
        self._gates = {
            (PortRef(switch, its.of.port), its.priority): its.gate
            for switch, told in bridge_forwardings(plan).items()
            for its in told[StreamFilters].filters
            if isinstance(its.gate, CyclicGate)
        }
        self._number = {its.priority: its.number for its in plan.intent.classes.values()}
        self._onward: dict[tuple[str, str], list[PortRef]] = defaultdict(list)
        for name, planned in plan.streams.items():
            for hop in planned.hops:
                self._onward[name, hop.egress.node].append(hop.egress)
        self._events: list[tuple[int, int, PortRef | Coming]] = []
        self._order = count()
        self._arrivals: list[Arrival] = []
        self._lateness: dict[tuple[PortRef, int], tuple[int, int, int]] = {}

    def run(self, until_ns: int) -> list[Arrival]:
        """All frames that talkers send until then, in the order in which they arrive."""
        for name, planned in self._plan.streams.items():
            if planned.is_cyclic:
                self._start(name, planned.hops[0].egress, until_ns)
        while self._events:
            now_ns, _, what = heapq.heappop(self._events)
            if isinstance(what, PortRef):
                self._send(what, now_ns)
            else:
                self._ports[what.egress].queues[what.number].append(what.frame)
                self._send(what.egress, now_ns)
        return self._arrivals

    def _at(self, time_ns: int, what: PortRef | Coming) -> None:
        heapq.heappush(self._events, (time_ns, next(self._order), what))

    def _start(self, name: str, egress: PortRef, until_ns: int) -> None:
        stream, network = self._intent.streams[name], self._intent.network
        late_ns, number = network.lateness_ns(egress.node), count()
        first_ns = self._random.randrange(stream.period_ns)
        for due_ns in range(first_ns, until_ns, stream.period_ns):
            ready_ns = due_ns + self._random.choice((0, late_ns, self._random.randint(0, late_ns)))
            for _ in range(stream.frames):
                self._at(ready_ns, Coming(egress, -1, Frame(name, next(number), due_ns)))

    def _send(self, ref: PortRef, now_ns: int) -> None:
        port = self._ports[ref]
        if now_ns < port.busy_until_ns:
            return  # it looks again when it is free
        for number in sorted((n for n, its in port.queues.items() if its), reverse=True):
            begins_ns = self._may_begin_ns(ref, port, number, now_ns)
            if begins_ns > now_ns:
                self._at(begins_ns, ref)
                continue
            if wait_ns := self._control_ns(port, now_ns):
                port.busy_until_ns = now_ns + wait_ns
                self._at(port.busy_until_ns, ref)
                return
            self._transmit(ref, port, port.queues[number].popleft(), now_ns)
            return

    def _may_begin_ns(self, ref: PortRef, port: _Port, number: int, now_ns: int) -> int:
        """When a frame of a queue may begin, from now on, by true time."""
        gates = self._plan.gates.get(ref)
        if gates is None:
            return now_ns
        ahead_ns = self._ahead_ns[ref.node]
        local_ns = now_ns + ahead_ns
        for index, opens_ns, closes_ns in self._openings(ref, number, local_ns):
            late_ns, shut_ns, blocked_ns = self._late(ref, port.link, index * 8 + number)
            begins_ns = max(local_ns, opens_ns + max(late_ns, blocked_ns))
            if begins_ns < closes_ns + shut_ns:
                return begins_ns - ahead_ns
        raise AssertionError(f"{ref} never opens queue {number}")

    def _openings(self, ref: PortRef, number: int, local_ns: int) -> Iterator[tuple[int, int, int]]:
        gates = self._plan.gates[ref]
        begin_ns = local_ns // gates.cycle_ns * gates.cycle_ns - gates.cycle_ns
        for cycle in range(4):
            at_ns = begin_ns + cycle * gates.cycle_ns
            opened: int | None = None
            for index, entry in enumerate(gates.entries):
                if entry.gate_states >> number & 1:
                    opened = at_ns if opened is None else opened
                    last = index == len(gates.entries) - 1
                    following = gates.entries[0 if last else index + 1].gate_states
                    if last or not following >> number & 1:
                        yield opened // 1_000, opened, at_ns + entry.interval_ns
                        opened = None
                at_ns += entry.interval_ns

    def _late(self, ref: PortRef, link: Link, opening: int) -> tuple[int, int, int]:
        """How late a gate opens and shuts this time, and for how long another frame blocks it."""
        if (ref, opening) not in self._lateness:
            margin_ns = self._intent.network.gate_margin_ns
            longest = max(
                (
                    its.max_frame_octets
                    for its in self._intent.classes_with(ClassRole.BEST_EFFORT)
                    + self._intent.planned_classes()
                ),
                default=0,
            )
            octets = longest + self._intent.network.overhead.physical_octets
            frame_ns = transmission_max_ns(octets, link.rate_bps) - 1
            choice = self._random.choice
            blocked_ns = choice((0, frame_ns, frame_ns + margin_ns))
            self._lateness[ref, opening] = (
                choice((0, margin_ns)),
                choice((0, margin_ns)),
                blocked_ns,
            )
        return self._lateness[ref, opening]

    def _control_ns(self, port: _Port, now_ns: int) -> int:
        """For how long control goes first: a token bucket, of which it takes what it may."""
        controls = self._intent.classes_with(ClassRole.CONTROL)
        if not controls or self._random.random() < 0.3:
            return 0
        octets = controls[0].max_frame_octets + self._intent.network.overhead.physical_octets
        frame_ns = transmission_max_ns(octets, port.link.rate_bps)
        burst_ns = transmission_max_ns(self._intent.control_burst_octets(), port.link.rate_bps)
        rate = self._intent.control_rate_bps(port.link) / port.link.rate_bps
        sunk_ns = int((now_ns - port.control_at_ns) * rate)
        level_ns = max(port.control_ns - sunk_ns, 0)
        if level_ns + frame_ns > burst_ns:
            return 0
        port.control_ns, port.control_at_ns = level_ns + frame_ns, now_ns
        return frame_ns

    def _transmit(self, ref: PortRef, port: _Port, frame: Frame, now_ns: int) -> None:
        network, link = self._intent.network, port.link
        payload = self._intent.streams[frame.stream].payload_octets
        port.busy_until_ns = now_ns + network.occupation_max_ns(link, payload)
        self._at(port.busy_until_ns, ref)
        reception_ns = self._random.choice(
            (network.reception_min_ns(link, payload), network.reception_max_ns(link, payload))
        )
        there_ns = now_ns + reception_ns + link.propagation_ns
        target = link.target.node
        if target in self._intent.streams[frame.stream].listeners:
            # By the clock that tells more of any two.
            took_ns = there_ns - frame.due_ns
            self._arrivals.append(Arrival(frame, target, took_ns))
            return
        bridge = network.bridges[target]
        choice = self._random.choice
        queued_ns = there_ns + choice((bridge.processing_min_ns, bridge.processing_max_ns))
        # What comes in by one port stays in order.
        port.passed = (
            max(port.passed[0], choice((there_ns, queued_ns))),
            max(port.passed[1], queued_ns),
        )
        looked_at_ns, queued_ns = port.passed
        number = self._queue(link, frame, looked_at_ns + self._ahead_ns[target])
        for egress in self._onward[frame.stream, target]:
            self._at(queued_ns, Coming(egress, number, frame))

    def _queue(self, link: Link, frame: Frame, local_ns: int) -> int:
        """Into which queue a switch puts a frame that it looks at then."""
        its = self._plan.class_of(frame.stream)
        gate = self._gates.get((link.target, its.priority))
        if gate is None:
            return its.number
        number = local_ns // gate.interval_ns
        return self._number[gate.odd if number % 2 else gate.even]


def late(plan: Plan, arrivals: list[Arrival]) -> list[Arrival]:
    """The frames that took longer than the plan promises."""
    bounds = {name: its.latency_bound_ns for name, its in plan.streams.items()}
    return [each for each in arrivals if each.latency_ns > bounds[each.frame.stream]]


def disordered(arrivals: list[Arrival]) -> list[Arrival]:
    """The frames that came behind a later one of their stream."""
    newest: dict[tuple[str, str], int] = {}
    found = []
    for each in arrivals:
        key = each.frame.stream, each.listener
        if each.frame.number < newest.get(key, -1):
            found.append(each)
        newest[key] = max(newest.get(key, -1), each.frame.number)
    return found
