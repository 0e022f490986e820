"""Figures from recorded frames: latency, loss, and frames sent outside their windows."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cnc.captures.gate import Gate
from cnc.model import Link, Network, Plan
from cnc.support.format import counted, duration, microseconds
from cnc.testbed.intent.lab_model import ImpairedLinks
from cnc.testbed.lab import wires
from cnc.testbed.traffic.pairing import Stray
from cnc.testbed.traffic.recording import AnyFlow, BridgedFlow, Frame, Recording
from cnc.testbed.traffic.replay.flow import ReplayedFlow

# Reading the clock costs virtual time, and netem rounds: time stamps are good to a microsecond.
RESOLUTION_NS = 1_000


@dataclass(frozen=True, slots=True)
class Spread:
    """A set of durations in nanoseconds. `p99_ns` is the least value in it that 99 % of them do not
    exceed; likewise `p50_ns` and `p80_ns`."""

    min_ns: int
    mean_ns: int
    p50_ns: int
    p80_ns: int
    p99_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True)
class Summary:
    """One flow's figures.

    Latency runs from the planned start of transmission, of several frames in a period the first's,
    to the receiver's time stamp; jitter is its difference from the latency of the previous frame
    that arrived, of several in a period the one in the same place. `late` counts frames
    for which `is_late`; `outside` those that left the last switch further than stamps can tell from
    any time its gate was open for them, `outside_max_ns` how far at worst; `duplicates` the copies
    beyond a frame's first; `out_of_order`: see the function. Of a stream in a bridged network
    `multiplied` counts frames that arrived more often than planned, and `strays` those that arrived
    where, or as, they should not. Where the plan limits its jitter, `jitter_bound_ns` is how much
    arrivals at the listener may vary against the period, and `arrivals_within_ns` how much they
    did, of several frames in a period at most of those in one place; None: nothing arrived.
    """

    flow: AnyFlow
    sent: int
    received: int
    late: int
    outside: int
    outside_max_ns: int
    duplicates: int
    out_of_order: int
    latency: Spread | None  # None: nothing arrived
    jitter: Spread | None  # None: fewer than two frames arrived
    multiplied: int = 0
    strays: Sequence[Stray] = ()
    jitter_bound_ns: int | None = None
    arrivals_within_ns: int | None = None  # None: not limited, or nothing arrived

    @property
    def is_unsteady(self) -> bool:
        """Whether arrivals varied more than the plan promises, beyond what time stamps can tell."""
        within_ns, bound_ns = self.arrivals_within_ns, self.jitter_bound_ns
        if within_ns is None or bound_ns is None:
            return False
        return within_ns > bound_ns + RESOLUTION_NS

    @property
    def lost(self) -> int:
        return self.sent - self.received

    def violations(self, *, of_gates: bool = True) -> list[str]:
        """The violations of the plan, one line for each kind; empty: none.

        A flow without a bound only has to be held back by closed gates, of which stamps of a real
        clock tell nothing: without `of_gates` they are left out.
        """
        name, bound_ns = self.flow.name, self.flow.latency_bound_ns
        violations = []
        if self.lost and bound_ns is not None:
            violations.append(f"{name}: {self.lost} of {counted(self.sent, 'frame')} lost")
        if self.late and self.latency and bound_ns is not None:
            violations.append(
                f"{name}: {self.late} of {counted(self.sent, 'frame')} late, the worst took "
                f"{microseconds(self.latency.max_ns)} µs of {microseconds(bound_ns)} µs"
            )
        if self.is_unsteady:
            violations.append(
                f"{name}: arrivals vary by {microseconds(self.arrivals_within_ns or 0)} µs of "
                f"{microseconds(self.jitter_bound_ns or 0)} µs"
            )
        if self.outside and of_gates:
            violations.append(
                f"{name}: {counted(self.outside, 'frame')} sent outside the gate's window, by up "
                f"to {duration(self.outside_max_ns)}"
            )
        if self.multiplied and isinstance(self.flow, BridgedFlow):
            violations.append(
                f"{name}: {counted(self.multiplied, 'frame')} arrived more often than "
                f"{counted(self.flow.copies, 'time')}"
            )
        return [*violations, *_about_strays(self.strays)]


def _about_strays(strays: Iterable[Stray]) -> Iterator[str]:
    """A line for each kind: where, and with which address and tag."""
    kinds = Counter(
        (stray.stream, stray.node, stray.destination_mac, stray.vlan_id, stray.pcp)
        for stray in strays
    )
    for (stream, node, mac, vlan_id, pcp), count in kinds.items():
        tag = "untagged" if vlan_id is None else f"VLAN {vlan_id}, PCP {pcp}"
        yield (
            f"{stream}: {counted(count, 'frame')} arrived at {node} to {mac} ({tag}), where the "
            "plan sends none"
        )


def spread(values: Sequence[int]) -> Spread:
    """The figures of one or more durations."""
    ordered = sorted(values)
    p50_ns, p80_ns, p99_ns = (
        ordered[-(-len(ordered) * percent // 100) - 1] for percent in (50, 80, 99)
    )
    return Spread(
        min_ns=ordered[0],
        mean_ns=round(statistics.fmean(ordered)),
        p50_ns=p50_ns,
        p80_ns=p80_ns,
        p99_ns=p99_ns,
        max_ns=ordered[-1],
    )


def is_late(frame: Frame, bound_ns: int) -> bool:
    """Whether a frame's latency, from the planned start of sending, exceeds the bound."""
    return frame.received_ns is not None and frame.received_ns - frame.planned_ns > bound_ns


def out_of_order(frames: Iterable[Frame]) -> int:
    """How many frames of a flow arrived after one with a greater sequence number: RFC 4737's
    reordered packets, section 3.3. Frames with the same time stamp count as in order."""
    arrived = sorted((f.received_ns, f.seq) for f in frames if f.received_ns is not None)
    greatest = itertools.accumulate((seq for _, seq in arrived), max)
    return sum(seq < highest for (_, seq), highest in zip(arrived, greatest, strict=True))


def wake_up_error(sent: Sequence[AnyFlow], frames: Sequence[Frame]) -> Spread:
    """Wake-up latency of the talkers, those of streams if there are any: the machine's timing
    error."""
    names = {flow.name for flow in sent if flow.latency_bound_ns is not None}
    names = names or {flow.name for flow in sent}
    return spread([f.sent_ns - f.planned_ns for f in frames if f.flow in names])


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late a talker sent at most, and what the plan allows it."""

    talker: str
    late_ns: int
    allowed_ns: int

    @property
    def is_allowed(self) -> bool:
        return self.late_ns <= self.allowed_ns


def talker_lateness(
    plan: Plan, sent: Sequence[AnyFlow], frames: Sequence[Frame]
) -> Lateness | None:
    """Of the talkers of streams the one that leaves the least of what the plan allows, or exceeds
    it most; None where no stream was sent."""
    talkers = {flow.name: flow.talker for flow in sent if flow.latency_bound_ns is not None}
    late_ns: dict[str, int] = {}
    for frame in frames:
        if talker := talkers.get(frame.flow):
            late_ns[talker] = max(late_ns.get(talker, 0), frame.sent_ns - frame.planned_ns)
    found = (
        Lateness(name, ns, plan.intent.network.lateness_ns(name)) for name, ns in late_ns.items()
    )
    return min(found, key=lambda each: each.allowed_ns - each.late_ns, default=None)


def summarise(
    plan: Plan,
    sent: Sequence[AnyFlow],
    frames: Sequence[Frame],
    *,
    timed_wires: bool = False,
    own_clocks: bool = False,
) -> list[Summary]:
    """One summary for each flow, in the flows' order.

    `timed_wires`: the lab's cables have delays, which are subtracted from the arrival times.
    `own_clocks`: each node has its own. A listener's stamps may then differ by the planned clock
    error from the clock of the last switch, and tell so much less of its gates.

    What strayed, if `frames` are a whole recording, is in the summary of its stream's first flow.
    """
    by_flow: dict[str, list[Frame]] = {flow.name: [] for flow in sent}
    for frame in sorted(frames, key=lambda frame: frame.seq):
        by_flow[frame.flow].append(frame)
    strays: dict[str, list[Stray]] = {}
    for stray in frames.strays if isinstance(frames, Recording) else ():
        strays.setdefault(stray.stream, []).append(stray)
    tolerance_ns = RESOLUTION_NS + (plan.intent.network.clock_error_ns if own_clocks else 0)
    return [
        _summary(
            plan,
            flow,
            by_flow[flow.name],
            strays.pop(_stream_of(flow), ()),
            timed_wires=timed_wires,
            tolerance_ns=tolerance_ns,
        )
        for flow in sent
    ]


def _stream_of(flow: AnyFlow) -> str:
    return flow.stream if isinstance(flow, BridgedFlow) else flow.name


def _summary(
    plan: Plan,
    flow: AnyFlow,
    frames: Sequence[Frame],
    strays: Sequence[Stray],
    *,
    timed_wires: bool,
    tolerance_ns: int,
) -> Summary:
    most = flow.copies if isinstance(flow, BridgedFlow) else math.inf
    arrivals = [
        (frame.received_ns, frame.received_ns - frame.planned_ns, _octets(flow, frame))
        for frame in frames
        if frame.received_ns is not None
    ]
    distances_ns: list[int] = []
    last = _link_to(plan.intent.network, flow.listener)
    if last is not None and last.source in plan.gates and not _is_delayed(plan, last):
        queues = plan.intent.queues_of(flow.traffic_class)
        gates = [Gate(plan.gates[last.source], each) for each in queues]
        for received_ns, _, octets in arrivals:
            left_ns = received_ns
            if timed_wires:
                left_ns -= wires.travel_ns(plan.intent.network, last, octets)
            distances_ns.append(min(gate.shut_ns(left_ns) for gate in gates))
    latencies = [latency_ns for _, latency_ns, _ in arrivals]
    differences = list(_differences(frames, flow.frames))
    bound_ns = flow.latency_bound_ns
    jitter_bound_ns = plan.jitter_ns.get(_stream_of(flow), {}).get(flow.listener)
    return Summary(
        flow=flow,
        sent=len(frames),
        received=len(arrivals),
        late=0 if bound_ns is None else sum(is_late(frame, bound_ns) for frame in frames),
        outside=sum(distance_ns > tolerance_ns for distance_ns in distances_ns),
        outside_max_ns=max(distances_ns, default=0),
        duplicates=sum(max(0, frame.copies - 1) for frame in frames),
        out_of_order=out_of_order(frames),
        latency=spread(latencies) if latencies else None,
        jitter=spread(differences) if differences else None,
        multiplied=sum(frame.copies > most for frame in frames),
        strays=strays,
        jitter_bound_ns=jitter_bound_ns,
        arrivals_within_ns=None if jitter_bound_ns is None else _within_ns(frames, flow.frames),
    )


def _is_delayed(plan: Plan, link: Link) -> bool:
    """Whether when a frame comes by a cable does not tell when it left."""
    its = plan.intent[ImpairedLinks].by_port.get(link.source)
    return its is not None and its.pareto_ns > 0


def _octets(flow: AnyFlow, frame: Frame) -> int:
    """The length of a frame's packet."""
    if isinstance(flow, ReplayedFlow):
        return flow.timeline.octets_of(frame.seq)
    return flow.payload_octets


def _within_ns(frames: Iterable[Frame], in_a_period: int) -> int | None:
    """How much the arrivals of frames in one place of their period varied, at most."""
    by_place: dict[int, list[int]] = {}
    for frame in frames:
        if frame.received_ns is not None:
            latencies = by_place.setdefault(frame.seq % in_a_period, [])
            latencies.append(frame.received_ns - frame.planned_ns)
    return max((max(its) - min(its) for its in by_place.values()), default=None)


def _differences(frames: Iterable[Frame], in_a_period: int) -> Iterator[int]:
    """Of the latencies of frames that arrived one after the other, in the order of `frames`."""
    before: dict[int, int] = {}
    for frame in frames:
        if frame.received_ns is not None:
            latency_ns, place = frame.received_ns - frame.planned_ns, frame.seq % in_a_period
            if place in before:
                yield abs(latency_ns - before[place])
            before[place] = latency_ns


def _link_to(network: Network, listener: str) -> Link | None:
    """The cable into an end station, if it has just one."""
    into = [link for link in network.links.values() if link.target.node == listener]
    return into[0] if len(into) == 1 else None
