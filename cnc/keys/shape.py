"""The shape of an intent document: its keys, their types, units and defaults.

These models check one value at a time; what values mean together is for `semantics` to check. They
are also the source of the published JSON Schema, so every description speaks to the operator.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from cnc import profiles
from cnc.keys.contributed import with_keys
from cnc.keys.keys import Level
from cnc.keys.mapping import Shape, wrapped
from cnc.keys.profile import ProfileKeys
from cnc.keys.shaping import StatedShaping
from cnc.keys.units import DURATION, SIZE, TIME_SHARE
from cnc.keys.values import (
    BURST_MAX_FRAMES,
    CLOCK_ERROR_SCHEMA,
    CYCLE_MAX_NS,
    FRAMES_MAX,
    HOST,
    HOST_SLIPS,
    MIN_SHARE_MAX_PPB,
    PAYLOAD_MAX_OCTETS,
    RECOVERY_DEFAULT,
    RESERVE_MAX_PPB,
    SHARE_MAX_PPB,
    Boolean,
    Dscp,
    Duration,
    End,
    EtherType,
    FiltersInHardware,
    FrameSize,
    Gates,
    IpVersion,
    Leaf,
    Mac,
    MacRange,
    Name,
    OverheadSize,
    PortName,
    Rate,
    RecoveryWord,
    TcpPort,
    UserName,
    VlanId,
    WindowStart,
    choice,
    clock_error,
    integer,
    quantity,
    recovery_mapping,
    text,
)
from cnc.model import (
    DEFAULT_ADDRESS_RANGE,
    DEFAULT_BRIDGE_DEVICE,
    DEFAULT_FILTERING_ENTRIES_MAX,
    DEFAULT_INDIVIDUAL_RANGE,
    ClassRole,
    Forwarding,
    FrameOverhead,
    Windows,
)


def _profile(value: object) -> object:
    """Accept the name of a profile that comes with the suite for what its file states."""
    return profiles.keys_of(value) if isinstance(value, str) else value


def _listed(value: object) -> list[Any]:
    """Accept a bare value for a list of one."""
    return value if isinstance(value, list) else [value]


def _named(value: object) -> dict[Any, object]:
    """Accept a list of names, or empty values, for a mapping from names to mappings."""
    if isinstance(value, dict):
        return {name: {} if its is None else its for name, its in value.items()}
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError("a list of names, or a mapping from names to their properties")
    if len(set(value)) < len(value):
        raise ValueError("each name once")
    return {name: {} for name in value}


class Processing(Shape):
    """Time in a switch, from the last bit received until the frame is in its queue."""

    min_ns: Duration = Field(description="the minimum processing time, a duration such as 1us")
    max_ns: Duration = Field(description="the maximum processing time, a duration such as 5us")


_Windows = Annotated[Windows, choice(Windows)]
_ClockError = Annotated[int | None, Leaf(clock_error, CLOCK_ERROR_SCHEMA)]


class ClockError(Shape):
    """How far two clocks may differ: by their hops in the clock tree, and at most."""

    network: _ClockError = Field(
        description="maximum difference between any two clocks of the network, a duration such as "
        "1us"
    )
    neighbours_ns: Duration | None = Field(
        None,
        description="maximum difference between a clock and the one that it follows, a duration "
        "such as 100ns; two clocks differ by as much for each hop between them, whichever tree the "
        "clocks choose; default: any two differ by the maximum of the network",
    )


class Recovery(Shape):
    """What streams come back from within their bounds, and whether all of them must."""

    disturbance_ns: Duration = Field(
        RECOVERY_DEFAULT,
        validate_default=True,
        description="maximum time that a disturbance, such as a burst of control frames or a "
        "missed window, keeps a port from sending, a duration such as 100us",
    )
    required: Boolean = Field(
        False,
        description="whether a plan is refused in which no bound is found for a stream on how long "
        "it may be late after a disturbance; default: cnc warns of such streams",
    )


@with_keys(Level.DEFAULTS)
class Defaults(Shape):
    """Defaults of links and switches."""

    rate_bps: Rate = Field(description="rate of a link, such as 1Gbps")
    propagation_ns: Duration = Field(description="delay of a cable, a duration such as 100ns")
    processing: Processing = Field(description="bounds on the time a frame spends in a switch")
    clock_error: Annotated[
        ClockError,
        BeforeValidator(
            lambda value: value if isinstance(value, dict) else {"network": value},
            json_schema_input_type=_ClockError | ClockError,
        ),
    ] = Field(
        description="maximum difference between two clocks of the network, a duration such as 1us; "
        "or measured: from what ptp4l measures (clocks.md); or a mapping, with what neighbours in "
        "the clock tree differ by"
    )
    gate_margin_ns: Duration | None = Field(
        None,
        description="maximum delay of a frame's start by the switch or talker itself, such as the "
        "wake-up latency of a timer; a duration such as 50us; kept free after each planned frame; "
        "default: what the switches measured, or 1ms where they were not asked; 0ns without "
        "software gates",
    )
    gate_early_ns: Duration = Field(
        "0ns",
        validate_default=True,
        description="how much sooner than its list says a gate may open or close, such as the "
        "jitter of an offload; a duration such as 100ns",
    )
    recovery: Annotated[
        Recovery | None,
        BeforeValidator(recovery_mapping, json_schema_input_type=RecoveryWord | Recovery),
    ] = Field(
        RECOVERY_DEFAULT,
        validate_default=True,
        description="maximum time that a disturbance, such as a burst of control frames or a "
        "missed window, keeps a port from sending; after any one of them streams come back within "
        "their bounds, but those of which cnc warns that no bound is found; a duration such as "
        "100us; or required: after 100us, and a plan is refused that has no bound for all streams; "
        "or a mapping with both; or none: frames may stay late",
    )
    gates: Gates = Field(
        "software",
        validate_default=True,
        description="component that runs the gate control list: the kernel, its txtime assistance "
        "or the port",
    )
    filters_in_hardware: FiltersInHardware = Field(
        "preferred",
        validate_default=True,
        description="in a bridged network, where filters of frames have to be; preferred: in the "
        "hardware of a switch that forwards, in the kernel of one whose kernel does; required: a "
        "switch whose kernel forwards is refused, and what only a program of the kernel does; "
        "never: one whose hardware forwards is refused",
    )
    windows: _Windows = Field(
        "auto",
        validate_default=True,
        description="how frames leave by a port; exact: each at a planned instant; shared: in a "
        "window with frames of other streams, in any order; auto: exact where the plan has room "
        "for that, shared elsewhere",
    )
    user: UserName | None = Field(None, description="NETCONF user name")
    netconf_port: TcpPort = Field(830, description="TCP port of NETCONF over SSH")


class ClassWindows(Shape):
    """How frames of streams leave, as a bare word says it; or windows that are given to a class."""

    frames: _Windows | None = Field(
        None, description="how frames of its streams leave by a port; default: defaults.windows"
    )
    share_ppb: Annotated[int, quantity(TIME_SHARE, 1, SHARE_MAX_PPB)] | None = Field(
        None,
        description="the part of each cycle of each switch port without a gate-control-list of its "
        "own for which its gate alone is open, beside those of control, such as 30%",
    )
    every_ns: Annotated[int, quantity(DURATION, 1, CYCLE_MAX_NS)] | None = Field(
        None, description="the time from one such window to the next, a duration such as 1ms"
    )
    after: WindowStart | None = Field(
        None,
        description="when such a window begins: a duration after the start of each cycle, or a "
        "class with windows every so long, behind whose windows they begin; default: 0ns",
    )


@with_keys(Level.CLASS)
class Class(Shape):
    """A traffic class: a queue, and the frames that use it."""

    traffic_class: Annotated[int, integer(0, 7)] = Field(
        description="number of the queue and of the bit in a gate mask, 0 to 7"
    )
    priority: Annotated[int, integer(0, 7)] = Field(
        description="802.1Q priority (and Linux skb priority) of its frames, 0 to 7"
    )
    dscp: Annotated[
        tuple[Dscp, ...],
        BeforeValidator(_listed, json_schema_input_type=Dscp | list[Dscp]),
    ] = Field((), description="IP code points of its frames, 0 to 63: one, or a list")
    role: Annotated[ClassRole, choice(ClassRole)] = Field(
        description="scheduled: its gate opens for planned frames only; control: never closes; "
        "best-effort: open wherever nothing is planned"
    )
    max_frame_octets: FrameSize = Field(
        "1522B",
        validate_default=True,
        description="longest frame from MAC header to FCS, in octets, such as 1522B",
    )
    burst: Annotated[int, integer(1, BURST_MAX_FRAMES)] | None = Field(
        None,
        description="of a control class: the most frames that come to a port at once, each of "
        "which may be as long as max-frame; default: 4",
    )
    rate_bps: Rate | None = Field(
        None,
        description="of a control class: the most it sends on average, with preambles and gaps, a "
        "rate such as 1Mbps; default: a tenth of each link",
    )
    min_share_ppb: Annotated[int, quantity(TIME_SHARE, 1, MIN_SHARE_MAX_PPB)] | None = Field(
        None,
        description="of a best-effort class: the least share of its cycle that each gate control "
        "list of a switch port leaves it, without guard bands, in turns of its max-frame or "
        "longer, such as 25%; default: one such turn in each cycle",
    )
    windows: (
        Annotated[
            ClassWindows,
            BeforeValidator(wrapped("frames", str), json_schema_input_type=_Windows | ClassWindows),
        ]
        | None
    ) = Field(
        None,
        description="of a scheduled class: how frames of its streams leave by a port; or a share "
        "of the cycle of each switch port that it is given without streams (gates.md); default: "
        "defaults.windows",
    )
    reserve_ppb: Annotated[int, quantity(TIME_SHARE, 1, RESERVE_MAX_PPB)] | None = Field(
        None,
        description="of a scheduled class: for how much more of a port's time, beyond what the "
        "streams need, windows that frames share are planned, such as 20%: streams that are added "
        "later have room there, and no bound of another one grows. Of a class with shaping: cbs or "
        "strict: by how much its bounds are stated longer than they are, such as 20%, within the "
        "max-latency of each stream, which streams that are added later may use; default: none",
    )
    shaping: StatedShaping | None = Field(
        None,
        description="of a scheduled class in a bridged network: cqf, cyclic queuing and forwarding "
        "(cqf.md): its streams have no offsets, and a bound of as many intervals as there are "
        "switches on their way, and one more; a second class, with odd-of, has its second queue. "
        "Of a class with the role best-effort: cbs or strict (shapers.md): its streams have no "
        "offsets, and a bound by network calculus; cbs: the credit-based shaper, with a slope from "
        "the streams; strict: strict priority. Default: frames of a scheduled class leave at "
        "planned times, and the others have no bound",
    )

    @property
    def share(self) -> ClassWindows | None:
        """Its windows where they are given, and not for frames of streams; None: they are not."""
        return self.windows if self.windows and self.windows.share_ppb is not None else None


class Management(Shape):
    """Address of the NETCONF server of a switch."""

    address: Annotated[str, text(HOST, "an IP address or a host name", HOST_SLIPS)] = Field(
        description="IP address or host name"
    )
    port: TcpPort | None = Field(None, description="TCP port; default: defaults.netconf-port")
    user: UserName | None = Field(None, description="user name; default: defaults.user")


@with_keys(Level.PORT)
class Port(Shape):
    """Limits of the gates of a switch port, or the list that they run."""

    number: Annotated[int, integer(1, 4095)] | None = Field(
        None,
        description="of a switch with a profile that does not report it: the number of the port in "
        "its bridge (port-number of ieee802-dot1q-bridge)",
    )
    gate_entries_max: Annotated[int, integer(0, 65535)] = Field(
        0, description="longest gate control list, in entries; 0: no limit known"
    )
    gate_interval_min_ns: Duration = Field(
        "0ns",
        validate_default=True,
        description="shortest interval of a gate control list, a duration such as 1us",
    )
    gate_interval_max_ns: Duration = Field(
        "0ns",
        validate_default=True,
        description="longest interval of a gate control list, a duration such as 1ms; longer ones "
        "are split; 0ns: no limit known",
    )
    gate_cycle_max_ns: Duration = Field(
        "0ns",
        validate_default=True,
        description="longest cycle of a gate control list, a duration such as 1s; 0ns: no limit "
        "known",
    )
    gate_tick_ns: Annotated[int, quantity(DURATION, 1)] = Field(
        "1ns",
        validate_default=True,
        description="gates change only at multiples of it, a duration such as 8ns",
    )
    gate_early_ns: Duration | None = Field(
        None,
        description="how much sooner than its list says a gate may open or close; default: "
        "gate-early of the switch",
    )
    fits_only: Boolean | None = Field(
        None, description="as fits-only of the switch, for this port; default: that of the switch"
    )
    preemption: Boolean = Field(
        False,
        description="frames of best effort give way to all others (preemption.md), which needs "
        "gates: full-offload, and a MAC merge layer that has verified the other end of the link: a "
        "push is refused where the port does not say so",
    )


@with_keys(Level.SWITCH)
class Switch(Shape):
    """A bridge of the network."""

    management: (
        Annotated[
            Management,
            BeforeValidator(wrapped("address", str), json_schema_input_type=str | Management),
        ]
        | None
    ) = Field(
        None, description="address of its NETCONF server; a switch without one is never configured"
    )
    profile: (
        Annotated[
            ProfileKeys,
            BeforeValidator(_profile, json_schema_input_type=str | ProfileKeys),
        ]
        | None
    ) = Field(
        None,
        description="of a switch that does not run tsn-agent: what it can do "
        "(foreign-switches.md), the name of a profile that comes with cnc, or a file such as "
        "./lan9668.yaml; default: it runs tsn-agent",
    )
    ports: Annotated[
        dict[PortName, Port],
        BeforeValidator(
            _named, json_schema_input_type=list[PortName] | dict[PortName, Port | None]
        ),
    ] = Field(description="its interfaces: a list of names, or a mapping from name to limits")
    bridge: PortName | None = Field(
        None,
        description="in a bridged network: the Linux bridge that its ports belong to; default: "
        f"{DEFAULT_BRIDGE_DEVICE}",
    )
    filtering_entries_max: Annotated[int, integer(1, 1_000_000)] | None = Field(
        None,
        description="in a bridged network: the most streams that it may forward, one static "
        f"filtering entry for each; default: {DEFAULT_FILTERING_ENTRIES_MAX}",
    )
    processing: Processing | None = Field(None, description="default: defaults.processing")
    gates: Gates | None = Field(None, description="default: defaults.gates")
    filters_in_hardware: FiltersInHardware | None = Field(
        None, description="default: defaults.filters-in-hardware"
    )
    gate_early_ns: Duration | None = Field(None, description="default: defaults.gate-early")
    fits_only: Boolean = Field(
        False,
        description="true: its ports transmit a frame only if that ends before its gate closes "
        "(IEEE 802.1Q-2022 8.6.8.4), so that a window needs no guard band as long as best effort's "
        "largest frame",
    )


@with_keys(Level.END_STATION)
class EndStation(Shape):
    """A talker or listener, or both."""

    management: (
        Annotated[
            Management,
            BeforeValidator(wrapped("address", str), json_schema_input_type=str | Management),
        ]
        | None
    ) = Field(
        None,
        description="address of its NETCONF server, whose agent tells local talkers when to send; "
        "an end station without one is never configured",
    )
    ports: list[PortName] = Field(
        ["eth0"], min_length=1, description="its interfaces, a list of names"
    )
    gates: Gates | None = Field(
        None,
        description="component that runs a gate control list on its ports, with which its own best "
        "effort is kept back while its streams are due: the kernel, its txtime assistance or the "
        "port; needs management; default: no list",
    )
    mac: Mac | None = Field(
        None,
        description="the MAC address of its port: by it who asks `cnc serve` for a stream names "
        "the station; in a bridged network the last switch gives it frames of streams that have an "
        "identification",
    )


@with_keys(Level.LINK)
class Link(Shape):
    """A cable, the same in both directions."""

    ends: list[End] = Field(
        min_length=2, max_length=2, description="the two ports it joins, each node/port"
    )
    rate_bps: Rate | None = Field(None, description="such as 100Mbps; default: defaults.rate")
    propagation_ns: Duration | None = Field(
        None, description="a duration such as 500ns; default: defaults.propagation"
    )


class Window(Shape):
    """When in each period the talker may start to send."""

    earliest_ns: Duration = Field(
        "0ns", validate_default=True, description="a duration after the start of the period"
    )
    latest_ns: Duration | None = Field(
        None, description="a duration after the start of the period; default: its end"
    )


_Names = Annotated[list[Name], Field(min_length=1)]
_Route = Annotated[tuple[Name, ...], Field(min_length=1)]


def _routes(value: object) -> object:
    """Accept a bare route for a list of one."""
    if not isinstance(value, list) or not value:
        raise ValueError("switches, such as [s1, s2, s3], or a list of such lists")
    return value if isinstance(value[0], list) else [value]


@with_keys(Level.STREAM)
class Stream(Shape):
    """Frames that one talker sends periodically: one each period, or several back to back."""

    # `templates` has replaced these two by the keys and streams that they stand for.
    template: Name | None = Field(
        None, description="a template, whose keys it has where it does not state them itself"
    )
    for_: dict[Name, list[int | str] | str] | None = Field(
        None,
        description="it stands for many streams: a mapping from names to values, a list such as "
        "[1, 2, 3] or a range such as 1-40; {NAME} in its own name and in its values, also those "
        "of its template, is replaced by each value in turn; with several names by each "
        "combination",
    )
    talker: Name = Field(description="the end station that sends")
    listeners: list[Name] = Field(min_length=1, description="the end stations that receive")
    class_: (
        Annotated[
            tuple[Name, ...],
            Field(min_length=1),
            BeforeValidator(_listed, json_schema_input_type=Name | _Names),
        ]
        | None
    ) = Field(
        None,
        description="the class of its frames, or a list to choose from, each with the role "
        "scheduled; default: any such class",
    )
    period_ns: Annotated[int, quantity(DURATION, 1, CYCLE_MAX_NS)] = Field(
        description="the time from one frame to the next, or from the first of `frames` to the "
        "first of the next, a duration such as 1ms"
    )
    payload_octets: Annotated[int, quantity(SIZE, 1, PAYLOAD_MAX_OCTETS)] = Field(
        description="the IP packet with its headers, or what is behind the ethertype, in octets, "
        "such as 200B; up to 9000B, where "
        "max-frame of its class and the MTUs of all ports on its way allow it"
    )
    max_latency_ns: Annotated[int, quantity(DURATION, 1)] = Field(
        description="from the planned start of sending to the last bit of the last frame at the "
        "last listener, a duration such as 500us"
    )
    max_jitter_ns: Annotated[int, quantity(DURATION, 1)] | None = Field(
        None,
        description="the most that the arrival of its frames (last bit) may vary at each listener, "
        "a duration such as 10us, at most max-latency; default: not limited",
    )
    window: Window | None = Field(
        None, description="when the talker may send; default: at any time"
    )
    ip: IpVersion = Field(6, description="IP version, 4 or 6")
    ethertype: EtherType | None = Field(
        None,
        description="in a bridged network: the EtherType of its frames where they carry no IP "
        "packets, such as 0x22f0 of AVTP or 0x8892 of PROFINET; payload is what is behind it; "
        "default: IP packets",
    )
    paths: Annotated[int, integer(1, 2, "1 or 2")] = Field(
        1,
        description="2: every frame is sent twice, over paths that share no link between switches, "
        "and the listener keeps the first (IEEE 802.1CB), unless elimination says otherwise",
    )
    route: (
        Annotated[
            tuple[_Route, ...],
            Field(min_length=1),
            BeforeValidator(_routes, json_schema_input_type=_Route | list[_Route]),
        ]
        | None
    ) = Field(
        None,
        description="the switches that its frames cross, in that order, such as [s1, s2, s3]; a "
        "list of such lists, one for each listener, or for each of two paths; default: the plan "
        "chooses its way",
    )
    destination_mac: Mac | None = Field(
        None,
        description="in a bridged network: the destination MAC address of its frames; a group "
        "address where it has several listeners or two paths; default: assigned from addresses",
    )
    vlan: VlanId | None = Field(
        None,
        description="in a bridged network: the VLAN of its frames, 2 to 4094; default: assigned "
        "from addresses",
    )
    pcp: Annotated[int, integer(0, 7)] | None = Field(
        None,
        description="in a bridged network: the priority code point in the VLAN tag of its frames, "
        "0 to 7, which is the priority of its class and chooses it where class leaves a choice; "
        "streams with one destination-mac and vlan state one each; default: the priority of the "
        "class that the plan chooses",
    )
    frames: Annotated[int, integer(1, FRAMES_MAX)] = Field(
        1,
        description="how many frames of up to `payload` its talker sends back to back in each "
        "period, 1 to 1000",
    )
    windows: _Windows | None = Field(
        None,
        description="how its frames leave by a port: exact, shared or auto, as in defaults; not "
        "shared beside max-jitter, which only exact windows keep; default: windows of its class, "
        "or defaults.windows where it may have several classes that differ",
    )


_OVERHEAD = FrameOverhead()


class Frame(Shape):
    """Octets of a frame around its payload."""

    link_layer_octets: OverheadSize = Field(
        f"{_OVERHEAD.link_layer_octets}B",
        validate_default=True,
        description="MAC addresses, tag, EtherType and FCS, in octets",
    )
    physical_octets: OverheadSize = Field(
        f"{_OVERHEAD.physical_octets}B",
        validate_default=True,
        description="preamble, start delimiter and inter-frame gap, in octets",
    )
    gap_octets: OverheadSize = Field(
        f"{_OVERHEAD.gap_octets}B",
        validate_default=True,
        description="the inter-frame gap alone, in octets",
    )
    min_payload_octets: OverheadSize = Field(
        f"{_OVERHEAD.min_payload_octets}B",
        validate_default=True,
        description="shorter payloads are padded to this, in octets",
    )


class Addresses(Shape):
    """Addresses that a plan assigns to streams: one MAC address in one VLAN for each."""

    macs: MacRange = Field(
        f"{DEFAULT_ADDRESS_RANGE.first_mac} - {DEFAULT_ADDRESS_RANGE.last_mac}",
        validate_default=True,
        description="the first and the last MAC address; group addresses, which do for one "
        "listener and for several; the default is of those that IEEE 802c leaves to administrators",
    )
    individual_macs: MacRange = Field(
        f"{DEFAULT_INDIVIDUAL_RANGE.first_mac} - {DEFAULT_INDIVIDUAL_RANGE.last_mac}",
        validate_default=True,
        description="the same for streams with an identification; addresses of one station each, "
        "since a Linux bridge forwards IP packets to a group address by their IP group alone",
    )
    vlans: Annotated[
        tuple[VlanId, ...],
        Field(min_length=1),
        BeforeValidator(
            _listed,
            json_schema_input_type=VlanId | Annotated[list[VlanId], Field(min_length=1)],
        ),
    ] = Field(
        DEFAULT_ADDRESS_RANGE.vlan_ids,
        description="VLANs, 2 to 4094: one, or a list of which the next is used when all addresses "
        "of one are taken; nothing but streams may use them",
    )


@with_keys(Level.NETWORK)
class Document(Shape):
    """A time-sensitive network and its streams."""

    name: Name = Field(description="name of the network")
    defaults: Defaults = Field(description="defaults for links and switches")
    frame: Frame = Field(
        {},
        validate_default=True,
        description="octets around a payload; the default is Ethernet with a VLAN tag",
    )
    forwarding: Annotated[Forwarding, choice(Forwarding)] = Field(
        "routed",
        validate_default=True,
        description="by what switches forward the frames of streams; routed: by the routes to "
        "their IP destination that the switches have, in the class of their DSCP; bridged: by "
        "destination MAC address and VLAN, for which a push writes filtering entries, in the class "
        "of the priority code point of their VLAN tag",
    )
    addresses: Addresses | None = Field(
        None,
        description="in a bridged network: destination addresses that the plan assigns to streams "
        "which do not state theirs",
    )
    classes: dict[Name, Class] = Field(description="traffic classes by name")
    switches: dict[Name, Switch] = Field(description="switches by name")
    end_stations: Annotated[
        dict[Name, EndStation],
        BeforeValidator(_named, json_schema_input_type=list[Name] | dict[Name, EndStation | None]),
    ] = Field(description="a list of names, or a mapping from name to properties")
    links: list[
        Annotated[
            Link, BeforeValidator(wrapped("ends", list), json_schema_input_type=list[End] | Link)
        ]
    ] = Field(description="cables: [node/port, node/port], or a mapping with more properties")
    templates: dict[Name, Stream] | None = Field(
        None, description="keys that streams have in common, by name"
    )
    streams: dict[Name, Stream] = Field(description="streams by name")
