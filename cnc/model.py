"""The words every other room speaks: network, streams, plan.

Times are integer nanoseconds, rates bits per second, sizes octets. A `Link` is one direction of a
cable, so it is also the egress port of its source node: gate control lists are keyed by it.

Terms follow IEEE 802.1Q-2022; the stream requirements are those of 802.1Qcc clause 46.2.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from cnc.loops.model import LoopDelay
from cnc.mechanisms.frer.model import Elimination
from cnc.mechanisms.identification.model import Identification
from cnc.mechanisms.stream_filters.model import (
    DEFAULT_STREAM_FILTERS_MAX,
)

if TYPE_CHECKING:
    from cnc.mechanisms.stream_filters.model import FilteredStream

_Part = TypeVar("_Part")

NS_PER_S = 1_000_000_000
CONTROL_SHARE = 10  # a control class that states no rate takes up to one part in so many of a link

# How late the gates of a software port are taken to open where nobody has measured it: what a busy
# machine, or an emulated one, takes to wake up without a real-time kernel (docs/late-frames.md).
DEFAULT_GATE_MARGIN_NS = 1_000_000

MAC_OCTETS = 6
VLAN_TAG_OCTETS = 4
ORDINARY_MTU_OCTETS = 1500  # IEEE 802.3: client data of a basic frame
DEFAULT_BRIDGE_DEVICE = "br0"
DEFAULT_FILTERING_ENTRIES_MAX = 2_048


class PortRef(NamedTuple):
    """A port of a node, written `node/port`."""

    node: str
    port: str

    def __str__(self) -> str:
        return f"{self.node}/{self.port}"


class ClassRole(StrEnum):
    """What the schedule does with a traffic class."""

    SCHEDULED = "scheduled"  # its gate opens for planned frames only
    CONTROL = "control"  # its gate never closes: PTP, network control
    BEST_EFFORT = "best-effort"  # its gate is open wherever nothing is planned


class GateMode(StrEnum):
    """How a port runs its gate control list (Linux taprio's flags)."""

    SOFTWARE = "software"
    TXTIME_ASSIST = "txtime-assist"
    FULL_OFFLOAD = "full-offload"


class Forwarding(StrEnum):
    """By what the switches of a network forward the frames of streams."""

    ROUTED = "routed"  # the IP destination; the DSCP gives the class
    BRIDGED = "bridged"  # destination MAC address and VLAN (802.1Q 8.6.3); the PCP gives the class


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """Frames that share a queue, and how they are told apart.

    `number` is the queue and the bit in a gate mask; `priority` the Linux skb priority and 802.1Q
    priority that leads there; `dscps` the IP code points given that priority.

    A control class sends at most `burst_frames` of its largest frames in a row, and `rate_bps` on
    average, counted on the wire with preamble and gap: a token bucket (RFC 2697). None is the
    default of `Intent.control_burst_octets` and `Intent.control_rate_bps`.
    """

    name: str
    number: int
    priority: int
    dscps: tuple[int, ...]
    role: ClassRole
    max_frame_octets: int = 1522  # on the link layer: MAC header to FCS
    burst_frames: int | None = None
    rate_bps: int | None = None


@dataclass(frozen=True, slots=True)
class Management:
    """Where a node's NETCONF server listens."""

    address: str
    port: int = 830
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Bridge:
    """A switch. Processing runs from the last bit received to the frame lying in its queue.

    Where forwarding is bridged, its ports belong to the Linux bridge `bridge_device`, which holds
    up to `filtering_entries_max` static filtering entries, one for each address and VLAN, and up to
    `stream_filters_max` stream filters.
    """

    name: str
    processing_min_ns: int
    processing_max_ns: int
    management: Management | None = None
    gate_mode: GateMode = GateMode.SOFTWARE
    bridge_device: str = DEFAULT_BRIDGE_DEVICE
    filtering_entries_max: int = DEFAULT_FILTERING_ENTRIES_MAX
    stream_filters_max: int = DEFAULT_STREAM_FILTERS_MAX


class TalkerInterference(StrEnum):
    """What of a talker's own other traffic may be ahead of its scheduled frame.

    No switch gates a talker's port, so nothing but the talker keeps its best effort back.
    """

    ONE_FRAME = "one-frame"  # its largest best-effort frame may just have started
    NONE = "none"  # it sends nothing else, or its own gates keep it back


@dataclass(frozen=True, slots=True)
class EndStation:
    """A talker or listener. Without `management` no rollout configures it.

    `mac` is the address by which it takes frames of streams that switches translate; None: unknown.
    `lateness_ns` is how much later than planned its frames may start for reasons of the talker
    itself, other frames apart; None: the gate margin of the network.
    `gate_mode` is how its ports run a gate control list that keeps its own best effort back while
    its streams are due; None: they have none.
    """

    name: str
    management: Management | None = None
    interference: TalkerInterference = TalkerInterference.NONE
    mac: str | None = None
    lateness_ns: int | None = None
    gate_mode: GateMode | None = None


@dataclass(frozen=True, slots=True)
class GateLimits:
    """What the gates of a port can do, as its switch states it (802.1Q 12.29.1); 0: not known.

    Every interval of a list is a multiple of `tick_ns`.
    """

    entries_max: int = 0
    interval_max_ns: int = 0
    cycle_max_ns: int = 0
    tick_ns: int = 1


@dataclass(frozen=True, slots=True)
class WakeUps:
    """How late the timers of a switch have opened gates in the last 24 hours, as it measured, or
    talkers of an end station have sent, as they did.

    `quantile_ns` is what all but one in 100,000 keep to; None where fewer were measured, which is
    not enough to tell.
    """

    count: int
    maximum_ns: int
    quantile_ns: int | None = None


@dataclass(frozen=True, slots=True)
class MeasuredMargin:
    """The gate margin that a network needs, or the lateness of a talker: the latest of `count`
    wake-ups at `port`, the worst of its ports, was `maximum_ns` late; `value_ns` is that, rounded
    up."""

    value_ns: int
    port: PortRef
    maximum_ns: int
    count: int


@dataclass(frozen=True, slots=True)
class ClocksApart:
    """Two clocks, by their nodes, and how far they are apart at most; `links` counts the clocks on
    the way between them that have measured an offset."""

    first: str
    second: str
    apart_ns: int
    links: int


@dataclass(frozen=True, slots=True)
class MeasuredClockError:
    """The clock error that a network needs: twice what its two clocks that are furthest apart may
    differ (`cnc.mechanisms.clock.error`), rounded up."""

    value_ns: int
    apart: ClocksApart


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a cable, and with it the egress port `source`."""

    source: PortRef
    target: PortRef
    rate_bps: int
    propagation_ns: int
    gate_entries_max: int = 0  # 0: no limit known
    gate_interval_min_ns: int = 0
    gate_interval_max_ns: int = 0  # 0: no limit known
    gate_cycle_max_ns: int = 0  # 0: no limit known
    gate_tick_ns: int = 1  # gates change at multiples of it
    preemption: bool = False  # asked for by a plan of before; nothing configures it

    def within(self, limits: GateLimits) -> Link:
        """The link with the tighter of its own limits and `limits`."""
        return replace(
            self,
            gate_entries_max=_tighter(self.gate_entries_max, limits.entries_max),
            gate_interval_max_ns=_tighter(self.gate_interval_max_ns, limits.interval_max_ns),
            gate_cycle_max_ns=_tighter(self.gate_cycle_max_ns, limits.cycle_max_ns),
            gate_tick_ns=math.lcm(self.gate_tick_ns, limits.tick_ns),
        )


def _tighter(*limits: int) -> int:
    """The least of those that are known; 0 if none is."""
    return min(filter(None, limits), default=0)


@dataclass(frozen=True, slots=True)
class FrameOverhead:
    """Octets added to a payload on the wire (IEEE 802.3 clause 3, with a C-VLAN tag)."""

    link_layer_octets: int = 22  # MAC addresses 12, tag 4, EtherType 2, FCS 4
    physical_octets: int = 20  # preamble and start delimiter 8, inter-frame gap 12
    gap_octets: int = 12  # the part of physical_octets that follows the last bit
    min_payload_octets: int = 46


@dataclass(frozen=True, slots=True)
class Network:
    """Nodes and directed links.

    `clock_error_ns` bounds the difference between any two clocks; `gate_margin_ns` how much later
    than planned a frame may start for reasons of its sender, other frames apart, unless that is an
    end station with a lateness of its own.
    `disturbance_ns` is the longest time that a disturbance keeps a port from sending scheduled
    frames, after which every stream must come back within its bound; None: none need.
    """

    bridges: Mapping[str, Bridge]
    end_stations: Mapping[str, EndStation]
    links: Mapping[PortRef, Link]
    clock_error_ns: int
    overhead: FrameOverhead = FrameOverhead()
    gate_margin_ns: int = 0
    disturbance_ns: int | None = None
    forwarding: Forwarding = Forwarding.ROUTED

    @property
    def managed(self) -> dict[str, Bridge | EndStation]:
        """The nodes that a rollout configures: all bridges, and end stations with an address."""
        stations = (each for each in self.end_stations.values() if each.management)
        return {**self.bridges, **{station.name: station for station in stations}}

    def gate_mode(self, node: str) -> GateMode | None:
        """How the ports of a node run gate control lists; None where a plan has none for it."""
        if node in self.bridges:
            return self.bridges[node].gate_mode
        station = self.end_stations.get(node)
        return station.gate_mode if station else None

    def described(self, node: str) -> str:
        """The kind of a node and its name."""
        return f"{'switch' if node in self.bridges else 'end station'} {node}"

    def wire_octets(self, payload_octets: int) -> int:
        """What a frame takes of a link, from its preamble to the end of the inter-frame gap."""
        overhead = self.overhead
        octets = max(payload_octets, overhead.min_payload_octets) + overhead.link_layer_octets
        return octets + overhead.physical_octets

    def occupation_ns(self, link: Link, payload_octets: int) -> int:
        """How long a frame keeps the link busy, inter-frame gap included, rounded up."""
        return transmission_ns(self.wire_octets(payload_octets), link.rate_bps)

    def within(self, limits: Mapping[PortRef, GateLimits]) -> Network:
        """The network with ports as limited as they are here and in `limits`."""
        links = {
            source: link.within(limits[source]) if source in limits else link
            for source, link in self.links.items()
        }
        return replace(self, links=links)

    def reception_ns(self, link: Link, payload_octets: int) -> int:
        """From the first preamble bit to the last bit of the frame check sequence, rounded up."""
        octets = self.wire_octets(payload_octets) - self.overhead.gap_octets
        return transmission_ns(octets, link.rate_bps)

    def untagged_lead_ns(self, link: Link, payload_octets: int) -> int:
        """How much sooner than after `reception_ns` a frame without a VLAN tag is received."""
        overhead = self.overhead
        untagged = replace(
            overhead, link_layer_octets=max(overhead.link_layer_octets - VLAN_TAG_OCTETS, 0)
        )
        tagged_ns = self.reception_ns(link, payload_octets)
        return tagged_ns - replace(self, overhead=untagged).reception_ns(link, payload_octets)


def transmission_ns(octets: int, rate_bps: int) -> int:
    """Time of `octets` on a link, rounded up to whole nanoseconds."""
    return -(-octets * 8 * NS_PER_S // rate_bps)


@dataclass(frozen=True, slots=True)
class Stream:
    """Periodic frames from one talker to its listeners (802.1Qcc TSpec and requirements).

    `payload_octets` is the MAC client data of one frame: an IP packet with its headers. In each
    period the talker sends up to `frames` of them back to back (802.1Qcc 46.2.3.5:
    MaxFramesPerInterval). `max_latency_ns` runs from the planned start of transmission at the
    talker to the last bit of the last frame at the last listener. The talker may start between
    `earliest_ns` and `latest_ns` of each period.
    A plan chooses one of `traffic_classes` for the whole way, since a frame's DSCP names it.
    With two `paths` each frame is sent twice, over trees that share no link between bridges, for
    the listener to keep the first copy (IEEE 802.1CB); the latency of both counts from the first.
    Where `elimination` is by switches, the last one on the way keeps it, and the listener gets one.
    `destination_mac` and `vlan_id` are what the operator states of its address where forwarding is
    bridged; None: the plan assigns it. `identification` tells its frames from others of a talker
    that sends them untagged: the first switch gives them their address, VLAN and PCP, the last one
    takes them away again. None: the talker does so itself.
    `max_jitter_ns` bounds how much the arrival of the last bit may vary at each listener against
    the period, by whichever path the frame comes; None: it need not be bounded.
    """

    name: str
    talker: str
    listeners: tuple[str, ...]
    traffic_classes: tuple[str, ...]
    period_ns: int
    payload_octets: int
    max_latency_ns: int
    earliest_ns: int = 0
    latest_ns: int | None = None  # None: any time of the period
    ip_version: int = 6
    paths: int = 1
    destination_mac: str | None = None
    vlan_id: int | None = None
    identification: Identification | None = None
    max_jitter_ns: int | None = None
    frames: int = 1
    elimination: Elimination = Elimination.LISTENER


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """What a bridged network knows the frames of a stream by (802.1CB 6.4: null identification).

    `destination_mac` is written as six pairs of lower-case hexadecimal digits with colons. The PCP
    in the VLAN tag is the priority of the stream's class.
    """

    destination_mac: str
    vlan_id: int

    @classmethod
    def of(cls, stream: FilteredStream) -> StreamAddress:
        """What the frames of a stream that a filter takes are sent to."""
        return cls(stream.destination_mac, stream.vlan_id)

    def __str__(self) -> str:
        return f"{self.destination_mac} in VLAN {self.vlan_id}"

    @property
    def is_group(self) -> bool:
        """Whether frames to the address may leave by several ports (IEEE 802: the I/G bit)."""
        return bool(int(self.destination_mac[:2], 16) & 1)


def mac_number(mac: str) -> int:
    """A MAC address, six pairs of hexadecimal digits with colons, as a number."""
    return int(mac.replace(":", ""), 16)


def mac_text(number: int) -> str:
    """The MAC address with a number, as six pairs of lower-case hexadecimal digits with colons."""
    return number.to_bytes(MAC_OCTETS, "big").hex(":")


@dataclass(frozen=True, slots=True)
class AddressRange:
    """Destination addresses that a plan may assign: each of the MAC addresses, the first and the
    last included, in each of the VLANs."""

    first_mac: str
    last_mac: str
    vlan_ids: tuple[int, ...]

    @property
    def macs(self) -> range:
        """The MAC addresses as numbers."""
        return range(mac_number(self.first_mac), mac_number(self.last_mac) + 1)

    def __len__(self) -> int:
        return len(self.macs) * len(self.vlan_ids)


# Group addresses, since they do for one listener and for several, on one path or two. Local ones of
# the quadrant that IEEE 802c leaves to administrators (AAI: the second digit of a group address is
# 3), so that no vendor and no protocol has them; 54:53:4e is TSN in ASCII.
DEFAULT_ADDRESS_RANGE = AddressRange("03:54:53:4e:00:00", "03:54:53:4e:ff:ff", (10,))
# Individual addresses of the same quadrant (the second digit is 2) for streams that talkers send as
# untagged IP: a Linux bridge forwards an IP packet to a group address by its IP group alone.
DEFAULT_INDIVIDUAL_RANGE = AddressRange("02:54:53:4e:00:00", "02:54:53:4e:ff:ff", (10,))


@dataclass(frozen=True, slots=True)
class Parts:
    """What is asked at one place, or of a network: at most one part of each type, which is a
    mechanism's own.

    `parts[Type]` is `Type()`, which asks for nothing, where there is none. Equal whatever the order
    in which parts were added.
    """

    parts: tuple[Any, ...] = ()

    @classmethod
    def of(cls, *parts: object) -> Parts:
        """These parts, without those that ask for nothing."""
        asking = (each for each in parts if each != type(each)())
        return cls(tuple(sorted(asking, key=lambda each: type(each).__name__)))

    def __getitem__(self, kind: type[_Part]) -> _Part:
        return next((each for each in self.parts if isinstance(each, kind)), None) or kind()

    def having(self, *parts: object) -> Parts:
        """The same with these in place of those of their types."""
        kinds = {type(each) for each in parts}
        return Parts.of(*(each for each in self.parts if type(each) not in kinds), *parts)


@dataclass(frozen=True, slots=True)
class Intent:
    """What the network must carry. `document` is the operator's text as plain data, verbatim.

    `stated_limits` are what switches said of their ports; the links of `network` keep them.
    `measured_margin` is where the network's gate margin comes from if neither the operator stated
    it nor the constant holds; `measured_lateness` is where the lateness of talkers comes from, by
    end station, if the operator stated none and the gate margin does not hold;
    `measured_clock_error` is where the clock error comes from, if the operator wants it measured.
    Of `assignable` the streams of a bridged network get what the operator does not state of their
    addresses, of `individual` those with an `identification`. `parts` are what is asked beside: of
    mechanisms (`cnc.mechanisms`), of control loops and of a lab.
    """

    name: str
    network: Network
    classes: Mapping[str, TrafficClass]
    streams: Mapping[str, Stream]
    document: Mapping[str, Any] = field(compare=False, repr=False)
    stated_limits: Mapping[PortRef, GateLimits] = field(default_factory=dict)
    measured_margin: MeasuredMargin | None = None
    measured_lateness: Mapping[str, MeasuredMargin] = field(default_factory=dict)
    measured_clock_error: MeasuredClockError | None = None
    assignable: AddressRange = DEFAULT_ADDRESS_RANGE
    individual: AddressRange = DEFAULT_INDIVIDUAL_RANGE
    parts: Parts = Parts()

    def __getitem__(self, kind: type[_Part]) -> _Part:
        """The part of this type; what asks for nothing where there is none."""
        return self.parts[kind]

    def having(self, *parts: object) -> Intent:
        """The same with these parts in place of those of their types."""
        return replace(self, parts=self.parts.having(*parts))

    @property
    def states_gate_margin(self) -> bool:
        """Whether the operator stated the gate margin."""
        return "gate-margin" in self.document.get("defaults", {})

    def with_gate_margin(self, value_ns: int, measured: MeasuredMargin | None = None) -> Intent:
        """The same to carry, through gates that open up to `value_ns` late."""
        network = replace(self.network, gate_margin_ns=value_ns)
        return replace(self, network=network, measured_margin=measured)

    @property
    def wants_measured_clock_error(self) -> bool:
        """Whether the operator leaves the clock error to what the clocks measure."""
        return bool(self.document.get("defaults", {}).get("clock-error") == "measured")

    def with_clock_error(self, measured: MeasuredClockError) -> Intent:
        """The same to carry, by clocks that differ by no more than this."""
        network = replace(self.network, clock_error_ns=measured.value_ns)
        return replace(self, network=network, measured_clock_error=measured)

    def states_lateness(self, station: str) -> bool:
        """Whether the operator stated how late the talkers of an end station may be."""
        is_known = self.network.end_stations[station].lateness_ns is not None
        return is_known and station not in self.measured_lateness

    def with_lateness(self, measured: Mapping[str, MeasuredMargin]) -> Intent:
        """The same to carry, from talkers of these end stations that were so late."""
        stations = {
            name: replace(station, lateness_ns=measured[name].value_ns)
            if name in measured
            else station
            for name, station in self.network.end_stations.items()
        }
        network = replace(self.network, end_stations=stations)
        return replace(self, network=network, measured_lateness=measured)

    def within(self, limits: Mapping[PortRef, GateLimits]) -> Intent:
        """The same to carry, on ports as limited as their switches state."""
        return replace(self, network=self.network.within(limits), stated_limits=limits)

    def classes_of(self, stream: Stream) -> list[TrafficClass]:
        """The classes a plan may choose from for the stream."""
        return [self.classes[name] for name in stream.traffic_classes]

    def classes_with(self, role: ClassRole) -> list[TrafficClass]:
        return [c for c in self.classes.values() if c.role is role]

    def control_burst_octets(self) -> int:
        """The most octets that control frames may keep a link busy with in a row.

        Where no control class states a burst, all of them together send one frame in a row.
        """
        control = self.classes_with(ClassRole.CONTROL)
        physical = self.network.overhead.physical_octets
        frames = [c.max_frame_octets + physical for c in control]
        if all(c.burst_frames is None for c in control):
            return max(frames, default=0)
        bursts = [1 if c.burst_frames is None else c.burst_frames for c in control]
        return sum(burst * octets for burst, octets in zip(bursts, frames, strict=True))

    def control_rate_bps(self, link: Link) -> int:
        """The most that control frames take of a link on average, in bits a second on the wire.

        A class that states no rate may take a tenth of each link.
        """
        return sum(
            link.rate_bps // CONTROL_SHARE if c.rate_bps is None else c.rate_bps
            for c in self.classes_with(ClassRole.CONTROL)
        )

    def hyperperiod_ns(self) -> int:
        return math.lcm(1, *(s.period_ns for s in self.streams.values()))


@dataclass(frozen=True, slots=True)
class GateEntry:
    """`gate_states` bit i is set when traffic class i may send (802.1Q 8.6.8.4)."""

    gate_states: int
    interval_ns: int


@dataclass(frozen=True, slots=True)
class GateControlList:
    """A port's cycle. Its base time is a multiple of `cycle_ns` on the TAI clock."""

    cycle_ns: int
    entries: tuple[GateEntry, ...]


@dataclass(frozen=True, slots=True)
class Hop:
    """A planned transmission: first preamble bit at `offset_ns` after the nominal period start.

    That is the first frame's; further ones of the period follow it back to back. The offset repeats
    every period and may exceed it; `traffic_class` is the queue used.
    """

    egress: PortRef
    offset_ns: int
    traffic_class: int


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The way of one stream, and the latency it is promised.

    Each of `paths` is a tree, parents before children; streams that are sent twice have two.
    `latency_bound_ns` runs from the talker's first start to the last bit of the last frame of the
    period at the last listener, by whichever path it comes.
    """

    paths: tuple[tuple[Hop, ...], ...]
    latency_bound_ns: int

    @property
    def hops(self) -> tuple[Hop, ...]:
        """The hops of all paths, one path after the other."""
        return tuple(hop for path in self.paths for hop in path)

    @property
    def talker_offsets_ns(self) -> tuple[int, ...]:
        """When the talker starts to send, from the start of each period: one for each path."""
        return tuple(path[0].offset_ns for path in self.paths)


@dataclass(frozen=True, slots=True)
class Plan:
    """Offsets for every stream and a gate control list for every bridge port they cross.

    `refused` holds the reason for each stream that has no place because its operator accepted a
    plan without it; it is empty unless that was asked for. `recovery_ns` is by stream how long
    after the end of a disturbance its frames may still be later than their bound; empty where the
    network need not recover. `addresses` has every planned stream of a bridged network; it is empty
    in a routed one. `jitter_ns` has every planned stream whose jitter the operator limits, and for
    each of its listeners the spread of arrivals that it is promised. `loops` has how long each
    control loop takes whose two streams are planned.
    """

    intent: Intent
    streams: Mapping[str, StreamPlan]
    gates: Mapping[PortRef, GateControlList]
    algorithm: str
    refused: Mapping[str, str] = field(default_factory=dict)
    recovery_ns: Mapping[str, int] = field(default_factory=dict)
    addresses: Mapping[str, StreamAddress] = field(default_factory=dict)
    jitter_ns: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    loops: Mapping[str, LoopDelay] = field(default_factory=dict)

    def class_of(self, stream: str) -> TrafficClass:
        """The class that all frames of a planned stream use."""
        number = self.streams[stream].paths[0][0].traffic_class
        return next(c for c in self.intent.classes.values() if c.number == number)


@dataclass(frozen=True, slots=True)
class PortConfiguration:
    """All that a port with a gate control list is configured with, but the base time.

    `priority_map[p]` is the traffic class of priority p (8 entries); `dscp_priorities` the priority
    frames leaving by this port get for their DSCP.
    """

    number_of_classes: int
    priority_map: tuple[int, ...]
    mode: GateMode
    gates: GateControlList
    dscp_priorities: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class TalkerStream:
    """What a talker is told of one stream: see `cnc.mechanisms.talker_offsets.derive.Transmission`.

    `dscp` is None where the class has none, `address` in a routed network; in a bridged one
    `priority` is the PCP.
    """

    name: str
    path: int
    period_ns: int
    offset_ns: int
    payload_octets: int
    priority: int
    dscp: int | None
    listeners: tuple[str, ...]
    address: StreamAddress | None = None
    frames: int = 1


@dataclass(frozen=True, slots=True)
class TalkerConfiguration:
    """All that a port of an end station is configured with but the base time.

    The streams that leave by the port, by name and path; and its `gates`. Where a rollout
    `owns_gates` of the port, None is no gate control list; else whatever is configured there is
    another client's, and stays.
    """

    streams: tuple[TalkerStream, ...]
    gates: PortConfiguration | None = None
    owns_gates: bool = False


NO_STREAMS = TalkerConfiguration(())


@dataclass(frozen=True, slots=True)
class TalkerTable:
    """A talker's configuration that applies to periods that begin at `base_time_ns` or later."""

    base_time_ns: int
    configuration: TalkerConfiguration


@dataclass(frozen=True, slots=True)
class BridgeForwarding:
    """How the Linux bridge of a switch forwards the frames of streams: what a rollout sets there.

    `entries` are the static filtering entries: the ports by which frames to an address leave.
    `vlans` are the VLANs of streams, each with the ports that are members, where frames are tagged.
    Ports in `trusting` give a tagged frame the priority of its PCP (802.1Q 6.9.3). All ports are
    sorted by name. A VLAN without a member is one that streams have left: nothing of it stays.
    `names` are the streams of the addresses, as far as they are known, for messages. `parts` are
    what mechanisms do with the frames beside (`cnc.mechanisms`).
    """

    entries: Mapping[StreamAddress, tuple[str, ...]]
    vlans: Mapping[int, tuple[str, ...]]
    trusting: tuple[str, ...]
    names: Mapping[StreamAddress, str] = field(default_factory=dict, compare=False)
    parts: Parts = Parts()

    def __getitem__(self, kind: type[_Part]) -> _Part:
        """The part of a mechanism; what asks for nothing where there is none."""
        return self.parts[kind]

    def having(self, *parts: object) -> BridgeForwarding:
        """The same with these parts in place of those of their types."""
        return replace(self, parts=self.parts.having(*parts))

    @property
    def members(self) -> set[str]:
        """The ports that are members of a VLAN of streams."""
        return {port for ports in self.vlans.values() for port in ports}


NO_FORWARDING = BridgeForwarding({}, {}, ())

PortSettings = PortConfiguration | TalkerConfiguration | BridgeForwarding
"""What a rollout configures on a port of a switch, on one of an end station, or on a bridge."""


def gated_port(settings: PortSettings | None) -> PortConfiguration | None:
    """What the gates of a port are configured with; None where a rollout sets none."""
    if isinstance(settings, TalkerConfiguration):
        return settings.gates
    return settings if isinstance(settings, PortConfiguration) else None


def gates_of(settings: PortSettings | None) -> GateControlList | None:
    """The gate control list of a port; None where a rollout sets none."""
    port = gated_port(settings)
    return port.gates if port else None


@dataclass(frozen=True, slots=True)
class StoredPort:
    """A port as the running datastore has it.

    `configuration` is None where gates are off, or where they are on and what is stored is no
    schedule in force: `is_draft`. `has_interface_gates`: there are gates outside its bridge port,
    in the table of IEEE 802.1DC, which no rollout sets. `dscps` are those of the stored rules,
    whatever else is there.
    `extras` says in words what is set that no rollout sets, and that changes what the port does
    with frames. `talker` is what a port of an end station has, `forwarding` what a bridge has; with
    it are the `tables` of mechanisms, whole, whoever set their entries: an edit keeps to numbers
    that are free.
    """

    configuration: PortConfiguration | None
    base_time_ns: int
    dscps: frozenset[int]
    extras: tuple[str, ...] = ()
    talker: TalkerTable | None = None
    forwarding: BridgeForwarding | None = None
    tables: Parts = Parts()
    is_draft: bool = False
    has_interface_gates: bool = False

    @property
    def is_gated(self) -> bool:
        """Whether gates are on."""
        return self.is_draft or self.has_interface_gates or self.configuration is not None
