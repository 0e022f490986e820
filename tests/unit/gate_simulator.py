"""A network in motion: frames, queues and gates by the standard's rules, and everything random
that the planner's model leaves open. It shares nothing with planner and judge but the model.

Clocks differ by at most the clock error, switches take as long as they may, a control frame may
take the wire before any other, best effort takes it whenever its gate is open, and frames get
lost. A scheduled frame starts only if it ends before its gate closes (802.1Q 8.6.8.4).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from itertools import accumulate, count
from random import Random
from typing import NamedTuple

from cnc.model import ClassRole, GateControlList, Hop, Plan, PortRef, transmission_ns
from tests.unit.planner_networks import seeded

_FRAGMENT_OCTETS = 123 + 20  # IEEE 802.3br: what a preempted frame still sends, and the gap


class Frame(NamedTuple):
    """One frame of one path; its planned start counts by the talker's clock."""

    stream: str
    path: int
    planned_start_ns: int


class Outcome(NamedTuple):
    """The latencies of all arrivals, and the frames that found no way out of a queue."""

    latencies_ns: list[tuple[Frame, int]]
    stuck: list[Frame]

    def late(self, plan: Plan) -> list[tuple[Frame, int]]:
        """Arrivals after the bound that the plan promises."""
        return [
            (frame, latency)
            for frame, latency in self.latencies_ns
            if latency > plan.streams[frame.stream].latency_bound_ns
        ]


def simulate(plan: Plan, seed: int, *, duration_ns: int, loss: float = 0.1) -> Outcome:
    """Send the frames of all periods that begin within the duration, and wait for them."""
    return _Simulation(plan, seeded(seed), loss).run(duration_ns)


class _Gate:
    """When one gate is open, by the clock of its switch."""

    def __init__(self, gates: GateControlList, mask: int) -> None:
        self._cycle_ns = gates.cycle_ns
        edges = [0, *accumulate(entry.interval_ns for entry in gates.entries * 3)]
        self._opens: list[int] = []
        self._closes: list[int] = []
        for start, end, entry in zip(edges, edges[1:], gates.entries * 3, strict=False):
            if not entry.gate_states & mask:
                continue
            if self._closes and self._closes[-1] == start:
                self._closes[-1] = end
            else:
                self._opens.append(start)
                self._closes.append(end)

    def next_stretch(self, time_ns: int) -> tuple[int, int] | None:
        """The opening and closing of the first stretch that closes after `time_ns`."""
        phase = time_ns % self._cycle_ns + self._cycle_ns
        index = bisect_right(self._closes, phase)
        if index == len(self._closes):
            return None
        shift = time_ns - phase
        return self._opens[index] + shift, self._closes[index] + shift

    def last_open(self, time_ns: int) -> int | None:
        """The last moment up to `time_ns` before which the gate was open."""
        phase = time_ns % self._cycle_ns + self._cycle_ns
        index = bisect_left(self._opens, phase) - 1
        return None if index < 0 else min(self._closes[index], phase) + time_ns - phase


class _Port:
    """An egress port of a switch; all its times are by the switch's clock."""

    def __init__(self, plan: Plan, egress: PortRef) -> None:
        self.link = plan.intent.network.links[egress]
        self.queues: defaultdict[int, deque[Frame]] = defaultdict(deque)
        self.free_ns = 0  # of scheduled and control frames
        gates = plan.gates[egress]
        intent = plan.intent
        self._gates = {c.number: _Gate(gates, 1 << c.number) for c in intent.classes.values()}
        best_effort = intent.classes_with(ClassRole.BEST_EFFORT)
        self._best_effort = _Gate(gates, sum(1 << c.number for c in best_effort))
        self._best_effort_ns = max(
            (transmission_ns(c.max_frame_octets + 20, self.link.rate_bps) for c in best_effort),
            default=0,
        )
        if self.link.preemption:
            fragment = transmission_ns(_FRAGMENT_OCTETS, self.link.rate_bps)
            self._best_effort_ns = min(self._best_effort_ns, fragment)

    def next_start(self, now_ns: int) -> tuple[int, int, int] | None:
        """When a frame next may start, of which class, and when its gate closes."""
        starts = []
        for number, queue in self.queues.items():
            stretch = queue and self._gates[number].next_stretch(max(now_ns, self.free_ns))
            if stretch:
                opens, closes = stretch
                start = self._clear_of_best_effort(max(now_ns, self.free_ns, opens))
                starts.append((start, -number, closes))
        if not starts:
            return None
        start, number, closes = min(starts)
        return start, -number, closes

    def _clear_of_best_effort(self, start_ns: int) -> int:
        """The wire may have been taken at the very last moment."""
        taken = self._best_effort.last_open(start_ns)
        if taken is None or taken <= self.free_ns:
            return start_ns
        return max(start_ns, taken + self._best_effort_ns)


class _Simulation:
    def __init__(self, plan: Plan, random: Random, loss: float) -> None:
        self._plan = plan
        self._network = network = plan.intent.network
        self._random = random
        self._loss = loss
        self._clocks = {
            node: self._between(0, network.clock_error_ns)
            for node in sorted({*network.bridges, *network.end_stations})
        }
        self._ports = {egress: _Port(plan, egress) for egress in sorted(plan.gates)}
        self._hops: defaultdict[tuple[str, int, str], list[Hop]] = defaultdict(list)
        for name, planned in plan.streams.items():
            for path, hops in enumerate(planned.paths):
                for hop in hops:
                    self._hops[name, path, hop.egress.node].append(hop)
        control = plan.intent.classes_with(ClassRole.CONTROL)
        self._control_octets = max((c.max_frame_octets + 20 for c in control), default=0)
        self._events: list[tuple[int, int, str, PortRef | str, Frame | None]] = []
        self._count = count()
        self._latencies: list[tuple[Frame, int]] = []

    def run(self, duration_ns: int) -> Outcome:
        for name, planned in self._plan.streams.items():
            for path in range(len(planned.paths)):
                self._talk(name, path, duration_ns)
        cycles = [gates.cycle_ns for gates in self._plan.gates.values()]
        bounds = [planned.latency_bound_ns for planned in self._plan.streams.values()]
        end = 2 * (duration_ns + max(bounds, default=0) + max(cycles, default=0))
        while self._events and self._events[0][0] < end:
            now, _, kind, place, frame = heapq.heappop(self._events)
            if kind == "arrives":
                self._arrive(now, place, frame)
            elif kind == "is queued":
                self._queue(now, place, frame)
            else:
                self._send(now, place)
        stuck = [f for p in self._ports.values() for queue in p.queues.values() for f in queue]
        return Outcome(self._latencies, stuck)

    def _talk(self, name: str, path: int, duration_ns: int) -> None:
        stream = self._plan.intent.streams[name]
        roots = self._hops[name, path, stream.talker]
        for begin in range(0, duration_ns, stream.period_ns):
            frame = Frame(name, path, begin + min(hop.offset_ns for hop in roots))
            for hop in roots:
                at = begin + hop.offset_ns - self._clocks[stream.talker]
                self._transmit(at + self._delay_ns(hop.egress), hop.egress, frame)

    def _transmit(self, start_ns: int, egress: PortRef, frame: Frame) -> None:
        if self._random.random() < self._loss:
            return
        link = self._network.links[egress]
        octets = self._plan.intent.streams[frame.stream].payload_octets
        end = start_ns + self._network.reception_ns(link, octets) + link.propagation_ns
        self._at(end, "arrives", link.target.node, frame)

    def _arrive(self, now_ns: int, node: str, frame: Frame) -> None:
        stream = self._plan.intent.streams[frame.stream]
        if node in stream.listeners:
            by_talkers_clock = now_ns + self._clocks[stream.talker]
            self._latencies.append((frame, by_talkers_clock - frame.planned_start_ns))
            return
        bridge = self._network.bridges[node]
        for hop in self._hops[frame.stream, frame.path, node]:
            processing = self._between(bridge.processing_min_ns, bridge.processing_max_ns)
            self._at(now_ns + processing, "is queued", hop.egress, frame)

    def _queue(self, now_ns: int, egress: PortRef, frame: Frame) -> None:
        number = self._plan.class_of(frame.stream).number
        self._ports[egress].queues[number].append(frame)
        self._send(now_ns, egress)

    def _send(self, now_ns: int, egress: PortRef) -> None:
        """Start the next frame of a port if its time has come, or come back when it has."""
        port, clock = self._ports[egress], self._clocks[egress.node]
        following = port.next_start(now_ns + clock)
        if following is None:
            return
        start, number, closes = following
        if start == now_ns + clock:
            start += self._delay_ns(egress)
            frame = port.queues[number][0]
            octets = self._plan.intent.streams[frame.stream].payload_octets
            end = start + self._network.occupation_ns(port.link, octets)
            if end <= closes:
                port.queues[number].popleft()
                self._transmit(start - clock, egress, frame)
            port.free_ns = start = min(end, closes)
        self._at(start - clock, "sends", egress, None)

    def _delay_ns(self, egress: PortRef) -> int:
        """A control frame may have just begun, and the sender be slow."""
        link = self._network.links[egress]
        longest = transmission_ns(self._control_octets, link.rate_bps)
        return self._between(0, longest) + self._between(0, self._network.gate_margin_ns)

    def _between(self, least: int, greatest: int) -> int:
        """Any figure, but more often the outermost: they are where plans break."""
        return self._random.choice((least, greatest, self._random.randint(least, greatest)))

    def _at(self, time_ns: int, kind: str, place: PortRef | str, frame: Frame | None) -> None:
        heapq.heappush(self._events, (time_ns, next(self._count), kind, place, frame))
