"""Frames of classes with a shaper, one by one through a network, and a search for the worst.

Ports do what Linux does (net/sched/sch_cbs.c and sch_taprio.c of 6.12): credit by the idle
slopes of a plan, gates by its lists, classes in the order of their numbers; or what IEEE 802.1Q has
them do, whose credit does not grow while a gate is shut. Of bounds nothing is known here. Best
effort begins a frame right before a frame of a stream could, control comes when it harms, and
talkers are as late as they may be.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import NamedTuple

from cnc.mechanisms.cbs.model import IdleSlopes
from cnc.model import (
    NS_PER_S,
    ClassRole,
    GateControlList,
    Link,
    Plan,
    PortRef,
    TalkerInterference,
    transmission_max_ns,
)

_HIGHEST_OCTETS = 1542


class Frame(NamedTuple):
    stream: str
    due_ns: int


class Coming(NamedTuple):
    """A frame that comes into a queue of a port."""

    egress: PortRef
    frame: Frame


class Gate:
    """For how long the gate of a class is open, counted from an instant; always, of a port whose
    credit grows while it is shut."""

    def __init__(self, gates: GateControlList | None, number: int) -> None:
        self._cycle_ns = gates.cycle_ns if gates else 1
        self._open: list[tuple[int, int]] = []
        at_ns = 0
        for entry in gates.entries if gates else ():
            if entry.gate_states >> number & 1:
                self._open.append((at_ns, at_ns + entry.interval_ns))
            at_ns += entry.interval_ns
        self._each_ns = sum(end - start for start, end in self._open)

    def open_ns(self, from_ns: int, to_ns: int) -> int:
        if not self._open:
            return to_ns - from_ns
        return self._until_ns(to_ns) - self._until_ns(from_ns)

    def after_ns(self, from_ns: int, open_ns: int) -> int:
        """When it has been open for so long from an instant on."""
        if not self._open or not open_ns:
            return from_ns + open_ns
        wanted_ns = self._until_ns(from_ns) + open_ns
        cycles, left_ns = divmod(wanted_ns - 1, self._each_ns)
        for start, end in self._open:
            if left_ns < end - start:
                return cycles * self._cycle_ns + start + left_ns + 1
            left_ns -= end - start
        raise AssertionError("a cycle is open for its openings")

    def _until_ns(self, time_ns: int) -> int:
        cycles, into_ns = divmod(time_ns, self._cycle_ns)
        return cycles * self._each_ns + sum(
            max(min(end, into_ns) - start, 0) for start, end in self._open
        )


@dataclass(slots=True)
class _Credit:
    """Of a class at a port; `level` in bits times 10^9."""

    slope_bps: int
    highest: int
    level: int = 0
    last_ns: int = 0

    def ready_ns(self, gate: Gate) -> int:
        return gate.after_ns(self.last_ns, -self.level // self.slope_bps if self.level < 0 else 0)

    def sends(self, counted_bits: int, rate_bps: int, now_ns: int, gate: Gate) -> None:
        if self.level < 0:
            gained = self.level + self.slope_bps * gate.open_ns(self.last_ns, now_ns)
            self.level = min(gained, self.highest)
        self.level -= counted_bits * NS_PER_S * (rate_bps - self.slope_bps) // rate_bps
        self.last_ns = now_ns + counted_bits * NS_PER_S // rate_bps


@dataclass(slots=True)
class _Port:
    link: Link
    queues: defaultdict[int, deque[Frame]] = field(default_factory=lambda: defaultdict(deque))
    credits: dict[int, _Credit] = field(default_factory=dict)
    idle_from_ns: int = 0
    control_bits: int = 0
    control_at_ns: int = 0


class Harm(NamedTuple):
    """How often what the plan leaves open happens when it harms."""

    best_effort: float = 1.0
    control: float = 1.0
    late: float = 1.0
    freezes: bool = False  # credit does not grow while the gate is shut (802.1Q-2022 8.6.8.2)


class Shaped:
    """One run of a plan, whose talkers have their bursts at these phases of their periods."""

    def __init__(
        self, plan: Plan, phases_ns: Mapping[str, int], random: Random, harm: Harm
    ) -> None:
        self._plan, self._random, self._harm = plan, random, harm
        self._phases_ns, self._intent = phases_ns, plan.intent
        slopes = plan[IdleSlopes].by_port
        self._ports = {port: _Port(link) for port, link in plan.intent.network.links.items()}
        for ref, port in self._ports.items():
            for number, slope_bps in slopes.get(ref, {}).items():
                highest = slope_bps * 8 * _HIGHEST_OCTETS * NS_PER_S // port.link.rate_bps
                port.credits[number] = _Credit(slope_bps, highest)
        self._onward: defaultdict[tuple[str, str], list[PortRef]] = defaultdict(list)
        for name, planned in plan.streams.items():
            for hop in planned.hops:
                self._onward[name, hop.egress.node].append(hop.egress)
        self._events: list[tuple[int, int, PortRef | Coming]] = []
        self._order = count()
        self._gates: dict[tuple[PortRef, int], Gate] = {}
        self.worst_ns: dict[str, int] = {}
        self.entered_ns: dict[tuple[str, PortRef], int] = {}  # of the first frame of each

    def run(self, periods: int = 4) -> dict[str, int]:
        """By stream the longest time from when a talker was to have a frame to a listener."""
        until_ns = periods * max(its.period_ns for its in self._intent.streams.values())
        for name, planned in self._plan.streams.items():
            stream = self._intent.streams[name]
            for due_ns in range(self._phases_ns.get(name, 0), until_ns, stream.period_ns):
                if planned.shaper:
                    self._talk(name, planned.hops[0].egress, due_ns)
        while self._events:
            now_ns, _, what = heapq.heappop(self._events)
            if isinstance(what, PortRef):
                self._serve(what, now_ns)
            else:
                self._enter(what, now_ns)
        return self.worst_ns

    def _at(self, time_ns: int, what: PortRef | Coming) -> None:
        heapq.heappush(self._events, (time_ns, next(self._order), what))

    def _happens(self, how_often: float) -> bool:
        return self._random.random() < how_often

    def _talk(self, name: str, egress: PortRef, due_ns: int) -> None:
        network = self._intent.network
        late_ns = network.lateness_ns(egress.node) if self._happens(self._harm.late) else 0
        for _ in range(self._intent.streams[name].frames):
            self._at(due_ns + late_ns, Coming(egress, Frame(name, due_ns)))

    def _number(self, frame: Frame) -> int:
        return self._plan.streams[frame.stream].hops[0].traffic_class

    def _enter(self, what: Coming, now_ns: int) -> None:
        port, number = self._ports[what.egress], self._number(what.frame)
        self.entered_ns.setdefault((what.frame.stream, what.egress), now_ns)
        credit = port.credits.get(number)
        if credit and not port.queues[number] and credit.level > 0:
            credit.level, credit.last_ns = 0, now_ns
        port.queues[number].append(what.frame)
        self._at(now_ns, what.egress)

    def _serve(self, ref: PortRef, now_ns: int) -> None:
        port = self._ports[ref]
        if now_ns < port.idle_from_ns:
            return  # it looks again when it is free
        for number in sorted((n for n, its in port.queues.items() if its), reverse=True):
            frame = port.queues[number][0]
            takes_ns = self._takes_ns(port.link, frame)
            begins_ns = now_ns
            if credit := port.credits.get(number):
                begins_ns = max(begins_ns, credit.ready_ns(self._gate(ref, number)))
            begins_ns = self._opened_ns(ref, number, begins_ns, takes_ns)
            if begins_ns > now_ns:
                self._at(begins_ns, ref)
                continue
            if not (self._blocks(ref, port, number, now_ns) or self._controls(port, now_ns)):
                self._transmit(ref, port, port.queues[number].popleft(), now_ns)
            self._at(port.idle_from_ns, ref)
            return

    def _gate(self, ref: PortRef, number: int) -> Gate:
        if (ref, number) not in self._gates:
            gates = self._plan.gates.get(ref) if self._harm.freezes else None
            self._gates[ref, number] = Gate(gates, number)
        return self._gates[ref, number]

    def _opened_ns(self, ref: PortRef, number: int, now_ns: int, takes_ns: int) -> int:
        """When the gate of a class is open for long enough."""
        gates = self._plan.gates.get(ref)
        if gates is None or all(entry.gate_states >> number & 1 for entry in gates.entries):
            return now_ns
        begin_ns = now_ns // gates.cycle_ns * gates.cycle_ns - gates.cycle_ns
        opens_ns: int | None = None
        at_ns = begin_ns
        for entry in gates.entries * 4:
            if entry.gate_states >> number & 1:
                opens_ns = at_ns if opens_ns is None else opens_ns
            elif opens_ns is not None:
                begins_ns = max(opens_ns + self._intent.network.gate_margin_ns, now_ns)
                if begins_ns + takes_ns <= at_ns:
                    return begins_ns
                opens_ns = None
            at_ns += entry.interval_ns
        raise AssertionError(f"{ref} never opens queue {number} for {takes_ns} ns")

    def _blocks(self, ref: PortRef, port: _Port, number: int, now_ns: int) -> bool:
        """Whether best effort has begun a frame right before now, on a link that was idle."""
        begins_ns = max(port.idle_from_ns, now_ns - 1)
        talker = self._intent.network.end_stations.get(ref.node)
        if begins_ns >= now_ns or (talker and talker.interference is TalkerInterference.NONE):
            return False
        below = [its for its in self._intent.unreserved_classes() if its.number < number]
        if not below or not self._happens(self._harm.best_effort):
            return False
        lowest = max(below, key=lambda its: its.max_frame_octets)
        takes_ns = self._octets_ns(port.link, lowest.max_frame_octets)
        if self._opened_ns(ref, lowest.number, begins_ns, takes_ns) > begins_ns:
            return False
        port.idle_from_ns = begins_ns + takes_ns
        return True

    def _controls(self, port: _Port, now_ns: int) -> bool:
        """Whether control goes first: a token bucket, of which it takes what it may."""
        controls = self._intent.classes_with(ClassRole.CONTROL)
        if not controls or not self._happens(self._harm.control):
            return False
        octets = controls[0].max_frame_octets
        bits = 8 * (octets + self._intent.network.overhead.physical_octets)
        rate_bps, burst_bits = (
            self._intent.control_rate_bps(port.link),
            8 * (self._intent.control_burst_octets()),
        )
        sunk_bits = (now_ns - port.control_at_ns) * rate_bps // NS_PER_S
        level_bits = max(port.control_bits - sunk_bits, 0)
        if level_bits + bits > burst_bits:
            return False
        port.control_bits, port.control_at_ns = level_bits + bits, now_ns
        port.idle_from_ns = now_ns + self._octets_ns(port.link, octets)
        return True

    def _octets_ns(self, link: Link, frame_octets: int) -> int:
        octets = frame_octets + self._intent.network.overhead.physical_octets
        return transmission_max_ns(octets, link.rate_bps)

    def _takes_ns(self, link: Link, frame: Frame) -> int:
        payload = self._intent.streams[frame.stream].payload_octets
        return self._intent.network.occupation_max_ns(link, payload)

    def _transmit(self, ref: PortRef, port: _Port, frame: Frame, now_ns: int) -> None:
        network, link = self._intent.network, port.link
        stream = self._intent.streams[frame.stream]
        octets = network.wire_octets(stream.payload_octets)
        if credit := port.credits.get(self._number(frame)):
            gate = self._gate(ref, self._number(frame))
            credit.sends(8 * octets, link.rate_bps, now_ns, gate)
        port.idle_from_ns = now_ns + self._takes_ns(link, frame)
        there_ns = now_ns + network.reception_max_ns(link, stream.payload_octets)
        there_ns += link.propagation_ns
        target = link.target.node
        if target in stream.listeners:
            took_ns = there_ns - frame.due_ns
            self.worst_ns[frame.stream] = max(self.worst_ns.get(frame.stream, 0), took_ns)
            return
        queued_ns = there_ns + network.bridges[target].processing_max_ns
        for egress in self._onward[frame.stream, target]:
            self._at(queued_ns, Coming(egress, frame))


def search(plan: Plan, tagged: str, random: Random, rounds: int = 60) -> int:
    """The longest that a frame of a stream is found to take: phases are moved as long as that makes
    it later, beginning with those by which all bursts meet it where they first can."""
    streams = {name: plan.intent.streams[name] for name, its in plan.streams.items() if its.shaper}

    def worst_ns(phases_ns: Mapping[str, int], harm: Harm) -> int:
        run = Shaped(plan, phases_ns, random, harm)
        return run.run().get(tagged, 0)

    best_ns, longest_ns = 0, max(its.period_ns for its in streams.values())
    harms = (Harm(), Harm(freezes=True), Harm(late=0), Harm(0.5), Harm(control=0), Harm(0.7, 0.5))
    for harm in harms:
        phases_ns = meeting(plan, tagged, random, harm)
        found_ns = worst_ns(phases_ns, harm)
        for number in range(rounds):
            # One stream, or all together, which changes how they meet the gates.
            names = [*streams] if number % 4 == 0 else [random.choice([*streams])]
            by_ns = random.choice((1, 1_000, 20_000, 130_000, longest_ns // 3))
            by_ns = random.randint(-by_ns, by_ns)
            moved = {**phases_ns}
            for name in names:
                moved[name] = (moved[name] + by_ns) % streams[name].period_ns
            if (moved_ns := worst_ns(moved, harm)) >= found_ns:
                phases_ns, found_ns = moved, moved_ns
        best_ns = max(best_ns, found_ns)
    return best_ns


def meeting(plan: Plan, tagged: str, random: Random, harm: Harm) -> dict[str, int]:
    """Phases by which the bursts of all streams come right before that of one, each at the first
    port that both leave by."""
    streams = {name: plan.intent.streams[name] for name, its in plan.streams.items() if its.shaper}
    base_ns = max(its.period_ns for its in streams.values())
    phases_ns = dict.fromkeys(streams, base_ns)
    bridges = plan.intent.network.bridges
    way = [hop.egress for hop in plan.streams[tagged].hops if hop.egress.node in bridges]
    for _ in range(4):
        run = Shaped(plan, phases_ns, random, harm)
        run.run(3)
        for name in streams:
            shared = next((port for port in way if (name, port) in run.entered_ns), None)
            if name == tagged or shared is None:
                continue
            behind_ns = run.entered_ns[tagged, shared] - run.entered_ns[name, shared]
            phases_ns[name] = max(phases_ns[name] + behind_ns - 1, 0)
    return {name: ns % streams[name].period_ns for name, ns in phases_ns.items()}
