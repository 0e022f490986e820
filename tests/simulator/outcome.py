"""Whether a plan keeps its promises: its streams sent through its lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.frer.model import Recovery, SequenceFunctions
from cnc.model import ClassRole, Elimination, GateControlList, Link, Network, Plan, PortRef
from tests.simulator.adversary import Adversary, Chance, Nobody
from tests.simulator.filters import DroppingFilters
from tests.simulator.motion import Motion, Record
from tests.simulator.octets import FrameTimes
from tests.simulator.ports import Disturbance, Flow, Frame, LateFrame, Port


class Miss(NamedTuple):
    """A frame that came to a listener late, or never."""

    frame: Frame
    listener: str
    latency_ns: int | None


def misses(plan: Plan, adversary: Adversary, *, duration_ns: int) -> list[str]:
    """What `missed` finds, in words."""
    bounds = {name: planned.latency_bound_ns for name, planned in plan.streams.items()}
    found = []
    for frame, listener, latency in missed(plan, adversary, duration_ns=duration_ns):
        how = f"{latency} ns, promised {bounds[frame.flow.name]} ns" if latency else "never came"
        if latency and latency <= bounds[frame.flow.name]:
            how = "came twice"
        found.append(f"{frame.flow.name}, frame {frame.number}, {listener}: {how}")
    return found


def missed(
    plan: Plan,
    adversary: Adversary,
    *,
    duration_ns: int,
    disturbance: Disturbance | None = None,
    late_frame: LateFrame | None = None,
    is_filtered: bool = False,
) -> list[Miss]:
    """The frames of all periods that begin within the duration and come late, twice, or never
    although no link lost them. Filters of first switches drop frames if it `is_filtered`."""
    flows = flows_of(plan)
    sent = [
        (at + late_frame.by_ns, link, frame)
        if late_frame and (frame.flow.name, frame.number) == late_frame[:2]
        else (at, link, frame)
        for at, link, frame in sent_by(plan, flows, duration_ns)
    ]
    end_ns = _end_ns(plan, duration_ns)
    filters = DroppingFilters(plan) if is_filtered else None
    record = run(plan, adversary, sent, end_ns=end_ns, disturbance=disturbance, filters=filters)
    arrived: dict[tuple[Frame, str], int] = {}
    for each in record.arrivals:
        arrived[each.frame, each.listener] = each.latency_ns
    counts = Counter((each.frame, each.listener) for each in record.arrivals)
    lost: dict[Frame, set[PortRef]] = {}
    for frame, link in record.lost:
        lost.setdefault(frame, set()).add(link.source)
    excused = {
        (frame, listener)
        for frame, ports in lost.items()
        for listener in frame.flow.listeners - _reached(frame.flow, frame.flow.talker, ports)
    }
    bounds = {name: planned.latency_bound_ns for name, planned in plan.streams.items()}
    found = []
    expected = {frame: None for _, _, frame in sent}
    for frame in expected:
        for listener in sorted(frame.flow.listeners):
            latency = arrived.get((frame, listener))
            is_lost = latency is None and (frame, listener) in excused
            is_in_time = latency is not None and latency <= bounds[frame.flow.name]
            if (not is_lost and not is_in_time) or counts[frame, listener] > 1:
                found.append(Miss(frame, listener, latency))
    return found


def is_kept(plan: Plan, seeds: range, *, duration_ns: int) -> bool:
    """Whether no frame is late in any of several runs against chance, and none unsteady in all."""
    if any(misses(plan, Chance(seed), duration_ns=duration_ns) for seed in seeds):
        return False
    return not unsteady(plan, map(Chance, seeds), duration_ns=duration_ns)


def unsteady(plan: Plan, adversaries: Iterable[Adversary], *, duration_ns: int) -> list[str]:
    """Where arrivals vary more than the plan promises, by whichever path they come. From run to run
    clocks differ, as they may from minute to minute."""
    if not plan.jitter_ns:
        return []
    spreads: dict[tuple[str, str], list[int]] = {}
    for (name, listener, _), its in arrivals_ns(plan, adversaries, duration_ns=duration_ns).items():
        spreads.setdefault((name, listener), []).append(max(its) - min(its))
    return [
        f"{name}, {listener}: {spread} ns, promised {bound} ns"
        for name, bounds in plan.jitter_ns.items()
        for listener, bound in bounds.items()
        if (spread := max(spreads.get((name, listener), ()), default=0)) > bound
    ]


def arrivals_ns(
    plan: Plan, adversaries: Iterable[Adversary], *, duration_ns: int
) -> dict[tuple[str, str, int], set[int]]:
    """When frames came, after the first start of their copies, by stream, listener and the place of
    the frame in its period. Without those that may have come in the turn of one that was lost."""
    found: dict[tuple[str, str, int], set[int]] = {}
    for adversary in adversaries:
        sent = list(sent_by(plan, flows_of(plan), duration_ns))
        record = run(plan, adversary, sent, end_ns=_end_ns(plan, duration_ns))
        first_lost: dict[tuple[str, int], int] = {}
        for frame, _ in record.lost:
            period = frame.flow.name, frame.number
            first_lost[period] = min(frame.place, first_lost.get(period, frame.place))
        for each in record.arrivals:
            period = each.frame.flow.name, each.frame.number
            if first_lost.get(period, each.frame.place) < each.frame.place:
                continue
            key = each.frame.flow.name, each.listener, each.frame.place
            found.setdefault(key, set()).add(each.at_ns)
    return found


def starved(plan: Plan) -> list[tuple[PortRef, str]]:
    """The classes of best effort and control of which the largest frame never leaves a port, with
    all streams on their way."""
    intent = plan.intent
    cycle = max((gates.cycle_ns for gates in plan.gates.values()), default=0)
    overhead = intent.network.overhead.link_layer_octets
    probes = []
    for port in sorted(plan.gates.keys() & intent.network.links.keys()):
        link = intent.network.links[port]
        for c in intent.classes.values():
            if c.role is not ClassRole.SCHEDULED:
                ways = {port.node: (link,)}
                octets = c.max_frame_octets - overhead
                flow = Flow(c.name, port.node, c.number, octets, ways, frozenset())
                probes.append((0, link, Frame(flow, 0, 0)))
    sent = [*sent_by(plan, flows_of(plan), 2 * cycle), *probes]
    record = run(plan, Nobody(), sent, end_ns=_end_ns(plan, 2 * cycle))
    left = {frame for _, frame, _ in record.departures}
    return [(link.source, frame.flow.name) for _, link, frame in probes if frame not in left]


def run(
    plan: Plan,
    adversary: Adversary,
    sent: list[tuple[int, Link, Frame]],
    *,
    end_ns: int,
    disturbance: Disturbance | None = None,
    filters: DroppingFilters | None = None,
) -> Record:
    """Frames through the plan's lists, on ports by the standard."""
    intent = plan.intent
    times = FrameTimes.of(intent.network.overhead)
    faster = {port: adversary.faster_ppm() for port in sorted(intent.network.links)}

    def port(link: Link) -> Port:
        gates, ppm = list_of(plan, link.source), faster[link.source]
        return Port(intent, link, gates, adversary, disturbance, faster_ppm=ppm)

    def last_bit_ns(flow: Flow, link: Link) -> int:
        octets = flow.octets_on(link.source)
        return times.last_bit_ns(octets, link.rate_bps, faster[link.source])

    motion = Motion(intent.network, adversary, port, last_bit_ns, filters)
    return motion.run(_with_lateness(intent.network, adversary, sent), end_ns)


def _with_lateness(
    network: Network, adversary: Adversary, sent: Iterable[tuple[int, Link, Frame]]
) -> Iterator[tuple[int, Link, Frame]]:
    """Frames as talkers send them. That of a window that frames share need not be late at its port,
    since others may go meanwhile, but in coming there."""
    for at, link, frame in sent:
        most = network.lateness_ns(link.source.node)
        yield at + (adversary.lateness_ns(most) if frame.flow.is_shared else 0), link, frame


def list_of(plan: Plan, port: PortRef) -> GateControlList | None:
    """The list that a port runs: an end station has none unless the operator gives it gates."""
    is_gated = plan.intent.network.gate_mode(port.node) is not None
    return plan.gates.get(port) if is_gated else None


def flows_of(plan: Plan) -> list[tuple[Flow, list[tuple[int, Link]]]]:
    """A flow for each path of each stream, with the offsets of the talker's ports; one for both
    where switches take out second copies, so that the talker sends each frame once."""
    flows = []
    links = plan.intent.network.links
    for name, planned in plan.streams.items():
        stream = plan.intent.streams[name]
        paths = planned.paths
        if stream.elimination is Elimination.SWITCH:
            paths = (tuple({hop.egress: hop for hops in paths for hop in hops}.values()),)
        for hops in paths:
            ways: dict[str, tuple[Link, ...]] = {}
            roots = []
            for hop in hops:
                link = links[hop.egress]
                ways[link.source.node] = (*ways.get(link.source.node, ()), link)
                if link.source.node == stream.talker:
                    roots.append((hop.offset_ns, link))
            # A frame's DSCP is the same all the way, and so is its class.
            number = hops[0].traffic_class
            listeners = frozenset(stream.listeners)
            octets = max(stream.payload_octets, plan.intent.network.overhead.min_payload_octets)
            flow = Flow(
                name,
                stream.talker,
                number,
                octets,
                ways,
                listeners,
                stream.frames,
                is_shared=hops[0].is_shared,
            )
            flows.append((flow if paths is planned.paths else _numbered(plan, flow), roots))
    return flows


def _numbered(plan: Plan, flow: Flow) -> Flow:
    """The flow with numbers from its first switch to the last one before each listener."""
    ways = {each.source: each.target.node for links in flow.ports.values() for each in links}
    ends = {p for p, node in ways.items() if p.node == flow.talker or node in flow.listeners}
    told = bridge_forwardings(plan, {port.node for port in ends} - {flow.talker})
    recovers = {
        node: (its.history_length, its.reset_timeout_ms * 1_000_000)
        for node, each in told.items()
        if isinstance(
            its := each[SequenceFunctions].by_stream.get(plan.addresses[flow.name]), Recovery
        )
    }
    return replace(flow, numbered=frozenset(ways.keys() - ends), recovers=recovers)


def sent_by(
    plan: Plan, flows: Iterable[tuple[Flow, list[tuple[int, Link]]]], duration_ns: int
) -> Iterator[tuple[int, Link, Frame]]:
    """The frames of all periods that begin within the duration: when each enters which port."""
    first = {
        name: min(planned.talker_offsets_ns, default=0) for name, planned in plan.streams.items()
    }
    for flow, roots in flows:
        period = plan.intent.streams[flow.name].period_ns
        for number, begin in enumerate(range(0, duration_ns, period)):
            for place in range(flow.frames):
                # The latency of both copies of a frame counts from the first.
                frame = Frame(flow, number, begin + first[flow.name], place)
                for offset, link in roots:
                    yield begin + offset, link, frame


def _reached(flow: Flow, node: str, lost: set[PortRef]) -> set[str]:
    """The nodes that frames come to from a node on, if those that leave by some ports are lost."""
    onward = [link for link in flow.ports.get(node, ()) if link.source not in lost]
    return {node}.union(*(_reached(flow, link.target.node, lost) for link in onward))


def _end_ns(plan: Plan, duration_ns: int) -> int:
    """Long after the last frame should have come."""
    bounds = (planned.latency_bound_ns for planned in plan.streams.values())
    cycles = (gates.cycle_ns for gates in plan.gates.values())
    return 2 * (duration_ns + max(bounds, default=0) + max(cycles, default=0))
