"""Nodes, links and traffic classes (IEEE 802.1Q-2022 clauses 8.6.6 and 12.29).

Times are integer nanoseconds, rates bits per second, sizes octets. A `Link` is one direction of a
cable, so it is also the egress port of its source node: gate control lists are keyed by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from cnc.model.profile import Profile

NS_PER_S = 1_000_000_000
_MILLION = 1_000_000
# What a port with gates in software sends from one opening without being put off: the quota that
# the agent gives it, 1,024 frames, with room for control (docs/operate/late-frames.md).
FRAMES_IN_ONE_GO = 1_000
# IEEE 802.3: how far a transmitter may be from its nominal rate. PTP sets clocks, but not the
# oscillator that times the bits on a link.
RATE_TOLERANCE_PPM = 100
# Of a control class that states no burst: what IEEE 802.1AS may have in the queue of a port at once
# (Sync or Follow_Up, Pdelay_Req, Pdelay_Resp or its Follow_Up, Announce), which is shorter than
# max-frame by more than the frame that LLDP or NETCONF add (docs/reference/bounds.md).
CONTROL_BURST_FRAMES = 4
CONTROL_SHARE = 10  # a control class that states no rate takes up to one part in so many of a link

# How late the gates of a software port are taken to open where nobody has measured it: what a busy
# machine, or an emulated one, takes to wake up without a real-time kernel
# (docs/operate/late-frames.md).
DEFAULT_GATE_MARGIN_NS = 1_000_000
SOFTWARE_ENTRIES_MAX = 430  # measured: longer lists are lost from the kernel's dump, so refused
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


class InHardware(StrEnum):
    """Whether filters have to be where the frames are forwarded: in the hardware of a switch."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    NEVER = "never"


class Forwarding(StrEnum):
    """By what the switches of a network forward the frames of streams."""

    ROUTED = "routed"  # the IP destination; the DSCP gives the class
    BRIDGED = "bridged"  # destination MAC address and VLAN (802.1Q 8.6.3); the PCP gives the class


@dataclass(frozen=True, slots=True)
class CyclicQueuing:
    """Cyclic queuing and forwarding (802.1Q-2022 annex T): what a switch receives in an interval of
    `interval_ns` it sends in the next. Intervals are counted on TAI from 1970.

    Frames that are sent in even intervals have the queue of their class, those of odd intervals the
    one of the class `odd`. In each interval the gate of one of both is open once, for `open_ns`.
    """

    interval_ns: int
    open_ns: int
    odd: str


class Shaper(StrEnum):
    """What decides when frames of a class leave that have neither instants nor intervals."""

    CREDIT = "cbs"  # the credit-based shaper (802.1Q-2022 8.6.8.2)
    STRICT = "strict"  # strict priority (8.6.8.1)


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """Frames that share a queue, and how they are told apart.

    `number` is the queue and the bit in a gate mask; `priority` the Linux skb priority and 802.1Q
    priority that leads there; `dscps` the IP code points given that priority.

    Of a control class at most `burst_frames` of its largest frames come to a port at once, and
    `rate_bps` on average, with preamble and gap: a token bucket (RFC 2697). None is the default of
    `Intent.control_burst_octets` and `Intent.control_rate_bps`.

    A best-effort class is to keep `min_share_ppb` parts of 10^9 of the cycle of each port of a
    switch that has a gate control list, in turns of its largest frame or longer. None: such a turn
    in each cycle.

    Windows that frames of a scheduled class share are planned for `reserve_ppb` parts of 10^9 of
    the time between two of them beyond what the streams need, for streams that come later.

    Where `windows_are_given`, a scheduled class has them as a share of each cycle. Its frames come
    at any time, and none is a stream's, unless it is `cyclic`.

    A best-effort class with a `shaper` has streams, too, whose frames leave at no planned instant
    and have a bound; with credits of `idle_slope_bps` at least at each port they leave by.
    """

    name: str
    number: int
    priority: int
    dscps: tuple[int, ...]
    role: ClassRole
    max_frame_octets: int = 1522  # on the link layer: MAC header to FCS
    burst_frames: int | None = None
    rate_bps: int | None = None
    min_share_ppb: int | None = None
    reserve_ppb: int = 0
    windows_are_given: bool = False
    cyclic: CyclicQueuing | None = None
    shaper: Shaper | None = None
    idle_slope_bps: int = 0


@dataclass(frozen=True, slots=True)
class Management:
    """Where a node's NETCONF server listens, and what the node can do; `profile` None: it runs our
    agent."""

    address: str
    port: int = 830
    user: str | None = None
    profile: Profile | None = None


@dataclass(frozen=True, slots=True)
class Bridge:
    """A switch. Processing runs from the last bit received to the frame lying in its queue.

    Where forwarding is bridged, its ports belong to the Linux bridge `bridge_device`, which holds
    up to `filtering_entries_max` static filtering entries, one for each address and VLAN. An agent
    has its filters in hardware where that forwards, in software elsewhere: `filters_in_hardware`
    says which of both is refused.
    """

    name: str
    processing_min_ns: int
    processing_max_ns: int
    management: Management | None = None
    gate_mode: GateMode = GateMode.SOFTWARE
    bridge_device: str = DEFAULT_BRIDGE_DEVICE
    filtering_entries_max: int = DEFAULT_FILTERING_ENTRIES_MAX
    filters_in_hardware: InHardware = InHardware.PREFERRED


class TalkerInterference(StrEnum):
    """What of a talker's own other traffic may be ahead of its scheduled frame.

    No switch gates a talker's port, so nothing but the talker keeps its best effort back.
    """

    ONE_FRAME = "one-frame"  # its largest best-effort frame may just have started
    NONE = "none"  # it sends nothing else, or its own gates keep it back


@dataclass(frozen=True, slots=True)
class EndStation:
    """A talker or listener. Without `management` no rollout configures it.

    `mac` is the address by which CUCs name it, and by which it takes frames of streams that
    switches translate; None: unknown.
    `lateness_ns` is how much later than planned its frames may start for reasons of the talker
    itself, other frames apart; None: the gate margin of the network. `lateness_key` is that by
    which an operator states it. `program_lateness_ns` is that of a program whose frames are not,
    where that is stated and does not count.
    `gate_mode` is how its ports run a gate control list that keeps its own best effort back while
    its streams are due; None: they have none.
    """

    name: str
    management: Management | None = None
    interference: TalkerInterference = TalkerInterference.NONE
    mac: str | None = None
    lateness_ns: int | None = None
    lateness_key: str = "talker-lateness"
    program_lateness_ns: int | None = None
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
    interval_min_ns: int = 0


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
    gate_early_ns: int = 0  # gates may open and close so much sooner than their list says
    fits_only: bool = False  # it starts no frame that would not end before its gate closes
    preemption: bool = False  # frames that no stream has give way to all others (IEEE 802.3br)

    def within(self, limits: GateLimits) -> Link:
        """The link with the tighter of its own limits and `limits`."""
        return replace(
            self,
            gate_entries_max=_tighter(self.gate_entries_max, limits.entries_max),
            gate_interval_max_ns=_tighter(self.gate_interval_max_ns, limits.interval_max_ns),
            gate_cycle_max_ns=_tighter(self.gate_cycle_max_ns, limits.cycle_max_ns),
            gate_tick_ns=math.lcm(self.gate_tick_ns, limits.tick_ns),
            gate_interval_min_ns=max(self.gate_interval_min_ns, limits.interval_min_ns),
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

    `clock_error_ns` bounds the difference between any two clocks, and, if it is not None,
    `clock_error_neighbours_ns` that for each hop between them in the clock tree
    (`cnc.model.clock_error`); `gate_margin_ns` how much later
    than planned a frame may start for reasons of its sender, other frames apart, unless that is an
    end station with a lateness of its own.
    `disturbance_ns` is the longest time that a disturbance keeps a port from sending scheduled
    frames, after which streams come back within their bounds: each that the plan says so of, and
    all of them where `recovery_required`; None: none need.
    """

    bridges: Mapping[str, Bridge]
    end_stations: Mapping[str, EndStation]
    links: Mapping[PortRef, Link]
    clock_error_ns: int
    overhead: FrameOverhead = FrameOverhead()
    gate_margin_ns: int = 0
    disturbance_ns: int | None = None
    recovery_required: bool = False
    forwarding: Forwarding = Forwarding.ROUTED
    clock_error_neighbours_ns: int | None = None

    @property
    def managed(self) -> dict[str, Bridge | EndStation]:
        """The nodes that a rollout configures: all bridges, and end stations with an address."""
        stations = (each for each in self.end_stations.values() if each.management)
        return {**self.bridges, **{station.name: station for station in stations}}

    def profile(self, node: str) -> Profile | None:
        """What a node can do that does not run our agent; None: it does."""
        management = self.managed[node].management if node in self.managed else None
        return management.profile if management else None

    def gate_mode(self, node: str) -> GateMode | None:
        """How the ports of a node run gate control lists; None where a plan has none for it."""
        if node in self.bridges:
            return self.bridges[node].gate_mode
        station = self.end_stations.get(node)
        return station.gate_mode if station else None

    def lateness_ns(self, node: str) -> int:
        """How much later than planned frames may start for reasons of their sender, other frames
        apart: the gate margin of a switch, the lateness of talkers."""
        station = self.end_stations.get(node)
        if station is None or station.lateness_ns is None:
            return self.gate_margin_ns
        return station.lateness_ns

    def gate_entries_max(self, link: Link) -> int | None:
        """The longest gate control list of the port; None where no limit is known."""
        limits = [link.gate_entries_max] if link.gate_entries_max else []
        if self.gate_mode(link.source.node) is not GateMode.FULL_OFFLOAD:
            limits.append(SOFTWARE_ENTRIES_MAX)
        return min(limits, default=None)

    def described(self, node: str) -> str:
        """The kind of a node and its name."""
        return f"{'switch' if node in self.bridges else 'end station'} {node}"

    def wire_octets(self, payload_octets: int) -> int:
        """What a frame takes of a link, from its preamble to the end of the inter-frame gap."""
        overhead = self.overhead
        octets = max(payload_octets, overhead.min_payload_octets) + overhead.link_layer_octets
        return octets + overhead.physical_octets

    def occupation_ns(self, link: Link, payload_octets: int) -> int:
        """How long a frame keeps the link busy at its nominal rate, inter-frame gap included,
        rounded up: a measure of load."""
        return transmission_ns(self.wire_octets(payload_octets), link.rate_bps)

    def occupation_max_ns(self, link: Link, payload_octets: int) -> int:
        """The longest that a frame may keep the link busy, inter-frame gap included."""
        return transmission_max_ns(self.wire_octets(payload_octets), link.rate_bps)

    def occupation_min_ns(self, link: Link, payload_octets: int) -> int:
        """The shortest."""
        return transmission_min_ns(self.wire_octets(payload_octets), link.rate_bps)

    def within(self, limits: Mapping[PortRef, GateLimits]) -> Network:
        """The network with ports as limited as they are here and in `limits`."""
        links = {
            source: link.within(limits[source]) if source in limits else link
            for source, link in self.links.items()
        }
        return replace(self, links=links)

    def reception_ns(self, link: Link, payload_octets: int) -> int:
        """From the first preamble bit to the last bit of the frame check sequence, at the nominal
        rate, rounded up."""
        return transmission_ns(self._received_octets(payload_octets), link.rate_bps)

    def reception_max_ns(self, link: Link, payload_octets: int) -> int:
        """The longest that this may take."""
        return transmission_max_ns(self._received_octets(payload_octets), link.rate_bps)

    def reception_min_ns(self, link: Link, payload_octets: int) -> int:
        """The shortest."""
        return transmission_min_ns(self._received_octets(payload_octets), link.rate_bps)

    def gap_min_ns(self, link: Link) -> int:
        """The shortest inter-frame gap, which is the end of an occupation."""
        return transmission_min_ns(self.overhead.gap_octets, link.rate_bps)

    def _received_octets(self, payload_octets: int) -> int:
        return self.wire_octets(payload_octets) - self.overhead.gap_octets

    def untagged_lead_ns(self, link: Link, payload_octets: int) -> int:
        """How much sooner than after `reception_min_ns` a frame without a VLAN tag may be
        received."""
        overhead = self.overhead
        untagged = replace(
            overhead, link_layer_octets=max(overhead.link_layer_octets - VLAN_TAG_OCTETS, 0)
        )
        tagged_ns = self.reception_min_ns(link, payload_octets)
        return tagged_ns - replace(self, overhead=untagged).reception_min_ns(link, payload_octets)


def transmission_ns(octets: int, rate_bps: int) -> int:
    """Time of `octets` on a link at its nominal rate, rounded up to whole nanoseconds."""
    return -(-octets * 8 * NS_PER_S // rate_bps)


def transmission_max_ns(octets: int, rate_bps: int) -> int:
    """Time of `octets` on the slowest link of a nominal rate, rounded up."""
    return -(-octets * 8 * NS_PER_S * _MILLION // (rate_bps * (_MILLION - RATE_TOLERANCE_PPM)))


def transmission_min_ns(octets: int, rate_bps: int) -> int:
    """Time of `octets` on the fastest link of a nominal rate, rounded down."""
    return octets * 8 * NS_PER_S * _MILLION // (rate_bps * (_MILLION + RATE_TOLERANCE_PPM))
