"""Cyclic queuing: does each frame leave a switch in the interval behind that in which it came, and
are all in time?

From the text of 802.1Q-2022 annex T and the lists as they are, whatever the planner has computed.
A queue is known by its gate: the even one may be open in even intervals alone, and only while
a frame that starts then is looked at by the next switch within the same interval, by any two
clocks. If so, all frames that a port sends in an interval are those that came to their first
switches in one and the same, and these have to fit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from cnc.account.frames import AddedOctets, Transmission
from cnc.account.judge import Judge, Told
from cnc.account.openings import GateCycle
from cnc.account.violation import Violation
from cnc.account.wire import control_ns, held_up_ns, slot_ns, wire_ns
from cnc.mechanisms.cqf.model import Cyclic, cyclic_of
from cnc.model import (
    FRAMES_IN_ONE_GO,
    NS_PER_S,
    ClassRole,
    Hop,
    Intent,
    Link,
    Plan,
    PortRef,
    Stream,
    TalkerInterference,
    transmission_max_ns,
)
from cnc.model.clock_error import ClockErrors

_WHOLE_PPB = 10**9
_ROUNDED_NS = 1_000  # a planner's rounding of times to later, by which filters let frames pass


class _Opening(NamedTuple):
    """When a port may send frames of an interval, from its beginning on."""

    opens_ns: int
    closes_ns: int


class _Burst(NamedTuple):
    """How many frames of a stream may come in one interval, and how long they keep a link busy."""

    frames: int
    busy_ns: int


def _given(plan: Plan) -> Collection[PortRef]:
    """The ports of switches by which frames leave at no planned time."""
    if cyclic_of(plan.intent) is None:
        return ()
    planned = {h.egress for its in plan.streams.values() if its.has_instants for h in its.hops}
    bridges = plan.intent.network.bridges
    return {port for port in plan.gates if port.node in bridges and port not in planned}


def _repeats_ns(intent: Intent) -> dict[PortRef, int]:
    cyclic = cyclic_of(intent)
    ports = intent.network.links if cyclic else ()
    return {
        port: 2 * cyclic.interval_ns
        for port in ports
        if cyclic and port.node in intent.network.bridges
    }


def _lists(plan: Plan, ports: Collection[PortRef] | None) -> Iterator[Violation]:
    """What is wrong with lists beside the windows: of ports without planned frames alone, as the
    rules for planned lists find the rest."""
    intent = plan.intent
    known = sum(1 << its.number for its in intent.classes.values())
    control = sum(1 << its.number for its in intent.classes_with(ClassRole.CONTROL))
    for port in _given(plan):
        gates, link = plan.gates[port], intent.network.links.get(port)
        if (ports is not None and port not in ports) or link is None:
            continue
        if not _is_whole(plan, port):
            continue  # which the rules for all lists report
        for index, entry in enumerate(gates.entries):
            if strange := entry.gate_states & ~known:
                text = f"entry {index} opens gates {strange:#04x} of no class"
                yield Violation("gate-mask", str(port), text)
            if entry.gate_states & control != control:
                text = f"entry {index} ({entry.gate_states:#04x}) closes the gate of control"
                yield Violation("gate-control", str(port), text)
        cycle = GateCycle(gates, gated=0, best_effort=0, guard_ns=0)
        for its in intent.classes_with(ClassRole.BEST_EFFORT):
            bit, needed_ns = 1 << its.number, slot_ns(intent, link, its)
            runs = [run for run in cycle.runs_ns(bit, bit) if run >= needed_ns]
            if not runs:
                text = f"class {its.name} is never open for the {needed_ns} ns of its largest frame"
                yield Violation("starved-best-effort", str(port), text)
            kept_ns = sum(run - link.gate_early_ns for run in runs)
            if kept_ns * _WHOLE_PPB < (its.min_share_ppb or 0) * gates.cycle_ns:
                text = f"class {its.name} is open for {kept_ns} ns of {gates.cycle_ns} ns"
                yield Violation("best-effort-share", str(port), text)


def _is_whole(plan: Plan, port: PortRef) -> bool:
    gates = plan.gates[port]
    intervals = [each.interval_ns for each in gates.entries]
    return bool(intervals) and min(intervals) > 0 and sum(intervals) == gates.cycle_ns


def _times(
    plan: Plan, _told: Told, _transmissions: Sequence[Transmission], _added: AddedOctets
) -> Iterator[Violation]:
    """Which frames may leave in another interval than the next, find no room there, or are late."""
    cyclic = cyclic_of(plan.intent)
    yield from _kinds(plan, cyclic)
    if cyclic is not None:
        yield from _Judged(plan, cyclic).all()


def _kinds(plan: Plan, cyclic: Cyclic | None) -> Iterator[Violation]:
    """Streams that are forwarded otherwise than their class."""
    for name, planned in plan.streams.items():
        if (stream := plan.intent.streams.get(name)) is None:
            continue
        interval_ns = cyclic.interval_ns if cyclic and plan.intent.is_cyclic(stream) else 0
        if planned.interval_ns != interval_ns:
            text = f"is forwarded by intervals of {planned.interval_ns} ns, its class by those of "
            yield Violation("cqf-interval", name, f"{text}{interval_ns} ns")
        elif interval_ns and any(hop.offset_ns or hop.window_ns for hop in planned.hops):
            yield Violation("cqf-interval", name, "has instants, and its class has none")


class _Judged:
    """The streams of the class in a plan."""

    def __init__(self, plan: Plan, cyclic: Cyclic) -> None:
        self._plan, self._cyclic = plan, cyclic
        self._intent, self._network = plan.intent, plan.intent.network
        self._clocks = ClockErrors(self._network)
        self._flows = {
            plan.intent.streams[name]: its
            for name, its in plan.streams.items()
            if its.is_cyclic and name in plan.intent.streams
            if all(hop.egress in self._network.links for hop in its.hops)
        }

    def all(self) -> Iterator[Violation]:
        leaving: defaultdict[PortRef, list[_Burst]] = defaultdict(list)
        access_ns: dict[PortRef, int | None] = {}
        for stream, planned in self._flows.items():
            start = planned.hops[0].egress
            if start not in access_ns:
                access_ns[start] = self._access_ns(self._network.links[start])
                yield from self._beside(self._network.links[start])
            if (waits_ns := access_ns[start]) is None:
                text = f"its talker has more to send by {start} than that sends"
                yield Violation("cqf-talker", stream.name, text)
                continue
            bursts = self._bursts(stream, self._network.links[start], waits_ns)
            for hop in planned.hops:
                if hop.egress.node in self._network.bridges:
                    leaving[hop.egress].append(self._burst(stream, hop, bursts))
        openings = {}
        for port in sorted(leaving):
            found = self._opening(port)
            if isinstance(found, str):
                yield Violation("cqf-window", str(port), found)
                continue
            openings[port] = found
            yield from self._room(port, found, leaving[port])
        for stream, planned in self._flows.items():
            waits_ns = access_ns[planned.hops[0].egress]
            if waits_ns is not None and self._has_all(planned.hops, openings):
                yield from self._late(stream, waits_ns, openings)

    def _beside(self, link: Link) -> Iterator[Violation]:
        """Planned frames of a talker wait for one of the class at most, and that is planned."""
        talker = self._network.end_stations[link.source.node]
        for name, planned in self._plan.streams.items():
            if not planned.has_instants or all(hop.egress != link.source for hop in planned.hops):
                continue
            if talker.interference is TalkerInterference.NONE:
                text = "waits for no frame of its talker by its plan, which has some of no instant"
                yield Violation("cqf-talker", name, text)
            elif any(hop.traffic_class < self._cyclic.even.number for hop in planned.hops):
                text = f"goes behind all frames of class {self._cyclic.even.name} at its talker"
                yield Violation("cqf-talker", name, text)

    def _has_all(self, hops: Sequence[Hop], openings: Mapping[PortRef, _Opening]) -> bool:
        bridges = self._network.bridges
        return all(hop.egress in openings for hop in hops if hop.egress.node in bridges)

    def _access_ns(self, link: Link) -> int | None:
        """For how long a talker's link is busy at once, if all its streams begin together; None:
        for ever."""
        leaving = []
        for name, planned in self._plan.streams.items():
            stream = self._intent.streams.get(name)
            for path in planned.paths if stream else ():
                if stream and path[0].egress == link.source:
                    octets = self._network.wire_octets(stream.payload_octets)
                    one_ns = transmission_max_ns(octets, link.rate_bps)
                    leaving.append((stream.period_ns, stream.frames * one_ns))
        if sum(NS_PER_S * busy // period for period, busy in leaving) >= NS_PER_S:
            return None
        blocked_ns = held_up_ns(self._intent, link)
        until_ns = 0
        while True:
            begun = [(1 + max(until_ns - 1, 0) // period, busy) for period, busy in leaving]
            work_ns = sum(bursts * busy for bursts, busy in begun)
            longer_ns = blocked_ns + work_ns
            longer_ns += control_ns(self._intent, link, longer_ns)
            if longer_ns <= until_ns:
                return until_ns
            if longer_ns > 1 << 50:
                return None
            until_ns = longer_ns

    def _bursts(self, stream: Stream, link: Link, waits_ns: int) -> int:
        """How many bursts of a stream the first switch may look at within one interval: they are
        due a period apart, by the clock of the talker, and come up to so much later."""
        apart_ns = self._clocks.between_ns(link.source.node, link.target.node)
        late_ns = waits_ns + 2 * apart_ns + _ROUNDED_NS
        if link.target.node in self._network.bridges:
            late_ns += self._network.bridges[link.target.node].processing_max_ns
        return 1 + (self._cyclic.interval_ns + late_ns - 1) // stream.period_ns

    def _burst(self, stream: Stream, hop: Hop, bursts: int) -> _Burst:
        octets = self._network.wire_octets(stream.payload_octets)
        one_ns = transmission_max_ns(octets, self._network.links[hop.egress].rate_bps)
        frames = bursts * stream.frames
        return _Burst(frames, frames * one_ns)

    def _opening(self, port: PortRef) -> _Opening | str:
        """When frames leave by a port, in each interval alike or at the least and the most; or why
        some leave in another interval, or beside others."""
        gates, link = self._plan.gates.get(port), self._network.links[port]
        if gates is None or not _is_whole(self._plan, port):
            return "has no gate control list that tells two queues apart"
        if gates.cycle_ns % (2 * self._cyclic.interval_ns):
            return f"its cycle of {gates.cycle_ns} ns is no multiple of two intervals"
        cycle = GateCycle(gates, gated=0, best_effort=0, guard_ns=0)
        both: set[_Opening] = set()
        for parity in (0, 1):
            found = self._openings(cycle, link, parity)
            if isinstance(found, str):
                return found
            both |= found
        return both.pop() if len(both) == 1 else "its windows are not alike in all intervals"

    def _openings(self, cycle: GateCycle, link: Link, parity: int) -> set[_Opening] | str:
        """Those of the queue of even intervals, parity 0, or of odd ones, by a list."""
        queue = (self._cyclic.even, self._cyclic.odd)[parity]
        which = ("even", "odd")[parity]
        interval_ns = self._cyclic.interval_ns
        least_ns, most_ns = self._limits_ns(link)
        bit = 1 << queue.number
        beside = sum(
            1 << its.number
            for its in self._intent.classes.values()
            if its.role is not ClassRole.CONTROL and its.number != queue.number
        )
        alone = cycle.stretches(opened=bit, shut=beside, within_ns=cycle.cycle_ns)
        if alone != cycle.stretches(opened=bit, shut=0, within_ns=cycle.cycle_ns):
            return f"class {queue.name} is open beside others"
        numbers, found = [], set()
        for start_ns, end_ns in alone:
            number, opens_ns = divmod(start_ns, interval_ns)
            closes_ns = opens_ns + end_ns - start_ns
            if number % 2 != parity or opens_ns < least_ns or closes_ns > most_ns:
                return (
                    f"class {queue.name} is open from {opens_ns} to {closes_ns} ns of interval "
                    f"{number}, expected in {which} ones within {least_ns} to {most_ns} ns"
                )
            numbers.append(number)
            found.add(_Opening(opens_ns, closes_ns))
        if numbers != [*range(parity, cycle.cycle_ns // interval_ns, 2)]:
            return f"class {queue.name} is not open once in each {which} interval"
        return found

    def _limits_ns(self, link: Link) -> tuple[int, int]:
        """Within what of an interval a gate may be open so that a frame is looked at in the same
        by the next switch, and all have left before others come to the queue."""
        longest = max(its.max_frame_octets for its in self._intent.classes.values())
        longest += self._network.overhead.physical_octets
        nominal_ns = longest * 8 * NS_PER_S // link.rate_bps
        outlasts_ns = transmission_max_ns(longest, link.rate_bps) - nominal_ns
        most_ns = self._cyclic.interval_ns - self._network.gate_margin_ns - outlasts_ns
        bridge = self._network.bridges.get(link.target.node)
        if bridge is None:
            return 0, most_ns
        apart_ns = self._clocks.between_ns(link.source.node, bridge.name)
        shortest = self._network.overhead.min_payload_octets
        soonest_ns = link.propagation_ns + self._network.reception_min_ns(link, shortest)
        least_ns = max(apart_ns + link.gate_early_ns - soonest_ns, 0)
        latest_ns = link.propagation_ns + bridge.processing_max_ns + apart_ns
        return least_ns, most_ns - latest_ns - 1  # what is there as an interval ends is too late

    def _room(
        self, port: PortRef, opening: _Opening, bursts: Sequence[_Burst]
    ) -> Iterator[Violation]:
        """Whether all frames of an interval leave in it."""
        link, margin_ns = self._network.links[port], self._network.gate_margin_ns
        before = [
            wire_ns(self._intent, link, its)
            for its in self._intent.classes.values()
            if its.role is ClassRole.BEST_EFFORT
            or (its.role is ClassRole.SCHEDULED and not its.windows_are_given)
        ]
        frames, busy_ns = (sum(its) for its in zip(*bursts, strict=True))
        runs = -(-frames // FRAMES_IN_ONE_GO)
        ready_ns = self._network.bridges[port.node].processing_max_ns - opening.opens_ns
        begun_ns = max(margin_ns + max(before, default=0), ready_ns)
        done_ns = begun_ns + (runs - 1) * margin_ns + busy_ns
        done_ns += control_ns(self._intent, link, busy_ns)
        has_ns = opening.closes_ns - opening.opens_ns - link.gate_early_ns
        if done_ns > has_ns:
            text = (
                f"{frames} frames of one interval have left {done_ns} ns after the gate opens, "
                f"which is for {has_ns} ns"
            )
            yield Violation("cqf-room", str(port), text)

    def _late(
        self, stream: Stream, waits_ns: int, openings: Mapping[PortRef, _Opening]
    ) -> Iterator[Violation]:
        planned, network = self._flows[stream], self._network
        first = network.links[planned.hops[0].egress]
        worst_ns = 0
        switches = {stream.talker: 0}
        for hop in planned.hops:
            link = network.links[hop.egress]
            crossed = switches.get(hop.egress.node, 0)
            switches[link.target.node] = crossed + (link.target.node in network.bridges)
            if link.target.node not in stream.listeners:
                continue
            # By the clock that its start is told by, and that its arrival is.
            took_ns = waits_ns + link.propagation_ns + 2 * network.clock_error_ns
            if crossed:
                looked_at_ns = network.bridges[first.target.node].processing_max_ns
                took_ns += first.propagation_ns + looked_at_ns
                took_ns += crossed * self._cyclic.interval_ns + openings[hop.egress].closes_ns
            worst_ns = max(worst_ns, took_ns)
        if worst_ns > planned.latency_bound_ns:
            text = f"may take {worst_ns} ns, the plan says {planned.latency_bound_ns} ns at most"
            yield Violation("bound", stream.name, text)
        if worst_ns > stream.max_latency_ns:
            text = f"may take {worst_ns} ns, its max-latency is {stream.max_latency_ns} ns"
            yield Violation("deadline", stream.name, text)


JUDGE = Judge(given=_given, repeats=_repeats_ns, lists=_lists, times=_times, is_local=True)
