"""The flows that end stations send: a plan's streams, or flows of an operator.

Beside the streams, best-effort frames drift through all phases of the cycle: they show whether the
gates hold them back. The first switch of a path sends them, for a talker's own port has no gates: a
long frame there would hold up the talker's streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum

from cnc.errors import InputError
from cnc.model import (
    NS_PER_S,
    ClassRole,
    Elimination,
    Forwarding,
    Intent,
    Plan,
    Stream,
    TrafficClass,
)
from cnc.testbed.lab.addressing import next_hops
from cnc.testbed.lab.supported import check_streams
from cnc.testbed.traffic.endpoint import IP_AND_UDP_OCTETS
from cnc.testbed.traffic.probe_filter import Marks
from cnc.testbed.traffic.sockets import PROBE
from cnc.testbed.traffic.untagged import Sending, UdpPackets, sending_of

BACKGROUND_SHARE = (331, 2_000)  # of the hyperperiod: 331 is prime, so all phases occur
BACKGROUND_OCTETS = 1_000
IP_AND_TCP_OCTETS = {4: 20 + 32, 6: 40 + 32}  # with TCP's time stamps
TCP_PORT = 5100  # of the first flow
UNKNOWN_MAC = "02:ff:ff:ff:ff:ff"  # a local address that no port and no bridge of a lab has


class Pattern(StrEnum):
    """When a flow's frames are sent.

    `PERIODIC`: one, or several back to back, at the offset in each period. `SATURATING`: as many as
    the talker's port takes; one is always ready, and the talker waits in the kernel until there is
    room for it.
    """

    PERIODIC = "periodic"
    SATURATING = "saturating"


@dataclass(frozen=True, slots=True)
class Flow:
    """IP packets from one node to another; `payload_octets` is a whole one.

    The period of a saturating flow is the time of one frame on the talker's cable: nothing sends
    faster than that.
    """

    name: str
    talker: str
    listener: str
    traffic_class: int
    ip_version: int
    dscp: int
    payload_octets: int
    period_ns: int
    offset_ns: int
    latency_bound_ns: int | None  # None: no bound
    pattern: Pattern = Pattern.PERIODIC
    frames: int = 1


@dataclass(frozen=True, slots=True)
class JitteredFlow(Flow):
    """A periodic flow whose frames are planned for up to `jitter_ns` later than its period says,
    evenly drawn by `seed` and the flow's name."""

    jitter_ns: int = 0
    seed: int = 0

    @classmethod
    def of(cls, flow: Flow, jitter_ns: int, seed: int) -> JitteredFlow:
        """A flow, with jitter."""
        its = {field.name: getattr(flow, field.name) for field in fields(Flow)}
        return cls(**its, jitter_ns=jitter_ns, seed=seed)


@dataclass(frozen=True, slots=True)
class TcpFlow(Flow):
    """A periodic flow whose frames are writes to a connection to `tcp_port` of its listener."""

    tcp_port: int = 0
    write_octets: int = 0


@dataclass(frozen=True, slots=True)
class BridgedFlow:
    """Frames of a bridged network at one of their listeners.

    Flows of one `stream` are the same frames, sent once, by the talker's `interface`. Frames of a
    scheduled stream are tagged with `vlan_id` and `pcp`; of others these are None. `payload_octets`
    is the MAC client data, behind the `ethertype`; None: that of probes. Each frame is to arrive
    `copies` times.
    """

    name: str
    stream: str
    talker: str
    interface: str
    listener: str
    traffic_class: int
    destination_mac: str
    vlan_id: int | None
    pcp: int | None
    payload_octets: int
    period_ns: int
    offset_ns: int
    latency_bound_ns: int | None  # None: no bound
    copies: int = 1
    pattern: Pattern = Pattern.PERIODIC
    frames: int = 1
    ethertype: int | None = None


@dataclass(frozen=True, slots=True)
class UntaggedFlow(BridgedFlow):
    """Frames of a stream that its talker sends untagged.

    `sending` is what leaves the talker. It is to arrive without a tag at `destination_mac`, the
    address of the listener: UDP packets at its ordinary socket.
    """

    sending: Sending | None = None


AnyFlow = Flow | UntaggedFlow | BridgedFlow


def cbr_period_ns(rate_bps: int, payload_octets: int) -> int:
    """The period at which IP packets of this size make up a constant bit rate, rounded up."""
    return -(-payload_octets * 8 * NS_PER_S // rate_bps)


def saturating_period_ns(intent: Intent, talker: str, listener: str, payload_octets: int) -> int:
    """How long one frame keeps the cable busy by which the talker reaches the listener."""
    network = intent.network
    return network.occupation_ns(next_hops(network, listener)[talker], payload_octets)


def least_payload_octets(ip_version: int) -> int:
    """The smallest IP packet that can hold a probe: headers and a sequence number."""
    return IP_AND_UDP_OCTETS[ip_version] + PROBE.size


def flow_of_class(
    intent: Intent, role: ClassRole, ends: tuple[str, str], payload_octets: int, period_ns: int
) -> Flow:
    """IPv4 packets of the first class of a role, from one node to another; nobody promises them
    anything."""
    its_class = intent.classes_with(role)[0]
    talker, listener = ends
    return Flow(
        name=f"{talker} to {listener}",
        talker=talker,
        listener=listener,
        traffic_class=its_class.number,
        ip_version=4,
        dscp=min(its_class.dscps, default=0),
        payload_octets=payload_octets,
        period_ns=period_ns,
        offset_ns=0,
        latency_bound_ns=None,
    )


def class_of_dscp(intent: Intent, dscp: int) -> TrafficClass:
    """The class that packets of a code point are in: best effort where none has it."""
    return next(
        (each for each in intent.classes.values() if dscp in each.dscps),
        intent.unreserved_classes()[0],
    )


def marks(sent: Sequence[AnyFlow]) -> Marks:
    """In what the probes of flows are at end stations and on cables of a bridged network."""
    bridged = [flow for flow in sent if isinstance(flow, BridgedFlow)]
    packets = (flow.sending for flow in bridged if isinstance(flow, UntaggedFlow))
    return Marks(
        tuple(sorted({its.port for its in packets if isinstance(its, UdpPackets)})),
        tuple(sorted({flow.ethertype for flow in bridged if flow.ethertype is not None})),
    )


def flows(plan: Plan) -> list[AnyFlow]:
    """The planned streams at their listeners, and best-effort flows from the first switch of each
    path to its end.

    The latter have different offsets: where cables have delays they queue at the gates, and frames
    that pass a gate together are still on the cable when the next window opens.

    Raises:
        InputError: a stream the lab cannot send.
    """
    check_streams(plan.intent)
    planned = [stream for name, stream in plan.intent.streams.items() if name in plan.streams]
    if plan.intent.network.forwarding is Forwarding.BRIDGED:
        of_streams = [flow for stream in planned for flow in _bridged_stream_flows(plan, stream)]
        return [*of_streams, *_flooded_background(plan, of_streams)]
    result = [_stream_flow(plan, stream) for stream in planned]
    return [*result, *_background(plan.intent, result)]


def over_tcp(sent: Sequence[AnyFlow], names: Sequence[str]) -> list[AnyFlow]:
    """The flows, of which those with these names go over TCP. Their segments are as long as their
    packets were.

    Raises:
        InputError: there is none of that name, or it cannot.
    """
    for name in names:
        if name not in {flow.name for flow in sent}:
            raise InputError(
                f"--tcp: found the flow {name!r}, expected one of "
                f"{', '.join(flow.name for flow in sent)}"
            )
    return [_over_tcp(n, flow) if flow.name in names else flow for n, flow in enumerate(sent)]


def _over_tcp(number: int, flow: AnyFlow) -> TcpFlow:
    if isinstance(flow, BridgedFlow):
        raise InputError(
            f"--tcp: the end stations of a bridged network send {flow.name} as Ethernet frames",
            hint="trace TCP in a network whose switches route",
        )
    write_octets = flow.payload_octets - IP_AND_TCP_OCTETS[flow.ip_version]
    if write_octets < 1:
        raise InputError(
            f"--tcp: a payload of {flow.payload_octets} octets of {flow.name} has no room for the "
            f"headers of TCP over IPv{flow.ip_version}",
            hint=f"{IP_AND_TCP_OCTETS[flow.ip_version] + 1} octets or more",
        )
    its = {field.name: getattr(flow, field.name) for field in fields(Flow)}
    return TcpFlow(**its, tcp_port=TCP_PORT + number, write_octets=write_octets)


def _gated_paths(intent: Intent, of_streams: Sequence[AnyFlow]) -> list[tuple[str, str]]:
    """The first switch and the end of each path with gates, each once."""
    paths = {
        (next_hops(intent.network, flow.listener)[flow.talker].target.node, flow.listener)
        for flow in of_streams
    }
    return sorted((switch, end) for switch, end in paths if switch != end)


def _background_period_ns(intent: Intent) -> int:
    return intent.hyperperiod_ns() * BACKGROUND_SHARE[0] // BACKGROUND_SHARE[1]


def _background(intent: Intent, of_streams: Sequence[Flow]) -> Iterator[Flow]:
    gated = _gated_paths(intent, of_streams)
    period_ns = _background_period_ns(intent)
    for number, ends in enumerate(gated):
        flow = flow_of_class(intent, ClassRole.BEST_EFFORT, ends, BACKGROUND_OCTETS, period_ns)
        yield replace(
            flow,
            name=f"background {flow.name}",
            ip_version=6,
            offset_ns=period_ns * number // len(gated),
        )


def _flooded_background(plan: Plan, of_streams: Sequence[BridgedFlow]) -> Iterator[BridgedFlow]:
    """Untagged frames to an address that no switch knows, which floods all of the ordinary VLAN:
    sent by each first switch once, and counted at each end of its paths."""
    intent = plan.intent
    gated = _gated_paths(intent, of_streams)
    switches = sorted({switch for switch, _ in gated})
    best_effort = intent.unreserved_classes()[0]
    period_ns = _background_period_ns(intent)
    for switch, listener in gated:
        yield BridgedFlow(
            name=f"background {switch} to {listener}",
            stream=f"background {switch}",
            talker=switch,
            interface=intent.network.bridges[switch].bridge_device,
            listener=listener,
            traffic_class=best_effort.number,
            destination_mac=UNKNOWN_MAC,
            vlan_id=None,
            pcp=None,
            payload_octets=BACKGROUND_OCTETS,
            period_ns=period_ns,
            offset_ns=period_ns * switches.index(switch) // len(switches),
            latency_bound_ns=None,
        )


def _bridged_stream_flows(plan: Plan, stream: Stream) -> Iterator[BridgedFlow]:
    planned = plan.streams[stream.name]
    first, *others = (path[0] for path in planned.paths)
    if any(other != first for other in others):
        raise InputError(
            f"stream {stream.name} is planned to leave {stream.talker} "
            f"{len(planned.paths)} times in a period, and cnc lab sends its frames once",
            hint="where a talker has one link its switch copies each frame to both paths: plan it "
            "again with that",
        )
    address = plan.addresses[stream.name]
    stream_class = plan.class_of(stream.name)
    for listener in stream.listeners:
        is_only = len(stream.listeners) == 1
        flow = BridgedFlow(
            name=stream.name if is_only else f"{stream.name} to {listener}",
            stream=stream.name,
            talker=stream.talker,
            interface=first.egress.port,
            listener=listener,
            traffic_class=stream_class.number,
            destination_mac=address.destination_mac,
            vlan_id=address.vlan_id,
            pcp=stream_class.priority,
            payload_octets=stream.payload_octets,
            period_ns=stream.period_ns,
            offset_ns=first.offset_ns,
            latency_bound_ns=planned.latency_bound_ns,
            copies=1 if stream.elimination is Elimination.SWITCH else len(planned.paths),
            frames=stream.frames,
            ethertype=stream.ethertype,
        )
        yield _untagged(plan, stream, flow) if stream.identification else flow


def _untagged(plan: Plan, stream: Stream, flow: BridgedFlow) -> UntaggedFlow:
    """The flow of a stream as its talker sends it untagged, made of what it is with a tag."""
    mac = plan.intent.network.end_stations[flow.listener].mac
    if mac is None:
        raise InputError(
            f"stream {stream.name}: its talker sends it untagged, and {flow.listener} has no mac "
            "to which it could come",
            hint=f"give end-stations.{flow.listener} its mac",
        )
    values = {field.name: getattr(flow, field.name) for field in fields(BridgedFlow)}
    arrives = {**values, "destination_mac": mac, "vlan_id": None, "pcp": None}
    return UntaggedFlow(**arrives, sending=sending_of(stream, mac))


def _stream_flow(plan: Plan, stream: Stream) -> Flow:
    if len(stream.listeners) != 1:
        raise InputError(
            f"stream {stream.name} has {len(stream.listeners)} listeners",
            hint="the lab routes unicast only: give every stream one listener to measure it",
        )
    least = least_payload_octets(stream.ip_version)
    if stream.payload_octets < least:
        raise InputError(
            f"stream {stream.name}: a payload of {stream.payload_octets} octets cannot hold a "
            f"probe over IPv{stream.ip_version}",
            hint=f"{least} octets or more: headers and a sequence number",
        )
    _check_route(plan, stream)
    stream_class = plan.class_of(stream.name)
    return Flow(
        name=stream.name,
        talker=stream.talker,
        listener=stream.listeners[0],
        traffic_class=stream_class.number,
        ip_version=stream.ip_version,
        dscp=min(stream_class.dscps),
        payload_octets=stream.payload_octets,
        period_ns=stream.period_ns,
        offset_ns=plan.streams[stream.name].hops[0].offset_ns,
        latency_bound_ns=plan.streams[stream.name].latency_bound_ns,
        frames=stream.frames,
    )


def _check_route(plan: Plan, stream: Stream) -> None:
    """The lab routes by destination address, along shortest paths. A plan may route a stream
    differently; frames on a route without their windows would be measured in vain."""
    first = next_hops(plan.intent.network, stream.listeners[0])
    for hop in plan.streams[stream.name].hops:
        if first[hop.egress.node].source != hop.egress:
            raise InputError(
                f"stream {stream.name} is planned to leave {hop.egress.node} by "
                f"{hop.egress.port}, the lab's route to {stream.listeners[0]} goes by "
                f"{first[hop.egress.node].source.port}",
                hint="cnc lab routes along shortest paths only: emulate a network without "
                "equally long ways and with room on its links",
            )
