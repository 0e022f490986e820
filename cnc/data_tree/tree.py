"""The YANG data tree: its namespaces, and the state of a port and its agent as values.

Paths and names are those of `yang/`: IEEE 802.1Qcw's gate table under the bridge port, and
`tsn-linux` where no standard defines a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeVar

from cnc.data_tree.hardware import HardwareReport
from cnc.model import (
    NO_PARTS,
    BridgeForwarding,
    GateControlList,
    GateLimits,
    GateMode,
    Parts,
    PlaceParts,
    Profile,
    TalkerTable,
    WakeUps,
)

NETCONF = "urn:ietf:params:xml:ns:netconf:base:1.0"
NMDA = "urn:ietf:params:xml:ns:yang:ietf-netconf-nmda"
DATASTORES = "urn:ietf:params:xml:ns:yang:ietf-datastores"
INTERFACES = "urn:ietf:params:xml:ns:yang:ietf-interfaces"
IF_TYPE = "urn:ietf:params:xml:ns:yang:iana-if-type"
BRIDGE = "urn:ieee:std:802.1Q:yang:ieee802-dot1q-bridge"
SCHED = "urn:ieee:std:802.1Q:yang:ieee802-dot1q-sched"
SCHED_INTERFACE = "urn:ieee:std:802.1Q:yang:ieee802-dot1dc-sched-if"
SCHED_BRIDGE = "urn:ieee:std:802.1Q:yang:ieee802-dot1q-sched-bridge"
CBSA_BRIDGE = "urn:ieee:std:802.1Q:yang:ieee802-dot1q-cbsa-bridge"
PREEMPTION_BRIDGE = "urn:ieee:std:802.1Q:yang:ieee802-dot1q-preemption-bridge"
STREAM_IDENTIFICATION = "urn:ieee:std:802.1Q:yang:ieee802-dot1cb-stream-identification"
FRER = "urn:ieee:std:802.1Q:yang:ieee802-dot1cb-frer"
PSFP = "urn:ieee:std:802.1Q:yang:ieee802-dot1q-psfp"
PSFP_BRIDGE = "urn:ieee:std:802.1Q:yang:ieee802-dot1q-psfp-bridge"
PTP = "urn:ieee:std:1588:yang:ieee1588-ptp-tt"
TSN_LINUX = "urn:tsn-control-plane:yang:tsn-linux"
END_STATION = "urn:tsn-control-plane:yang:tsn-end-station"

_Part = TypeVar("_Part")

PRIORITIES = 8
EACH_PRIORITY = tuple(range(PRIORITIES))
"""The traffic class of each priority where each has its own."""
FOREIGN = "foreign: "  # how tsn-linux marks a root qdisc that the agent did not set
CLASSIFY_BRIDGED = (
    "restart tsn-agent on the switch, which sets these filters; one of a version that does not "
    "needs an update, or filters of your own at each ingress port (tc-flower(8))"
)
CLOCK = "tai"  # all base times are TAI; tsn-linux has it as the default, so it is never sent


@dataclass(frozen=True, slots=True)
class KernelSchedule:
    """A schedule read back from a switch's kernel."""

    base_time_ns: int
    gates: GateControlList


@dataclass(frozen=True, slots=True)
class ClassTraffic:
    """Frames of a traffic class that a port has sent since its taprio was set, and its backlog.
    `sent_octets` are theirs, without FCS; None where they are not reported."""

    sent_frames: int
    backlog_frames: int
    sent_octets: int | None = None


class Launches(NamedTuple):
    """Frames with a time of transmission that did not leave: they missed it, or were refused."""

    missed: int
    refused: int


@dataclass(frozen=True, slots=True)
class TalkerReport:
    """What an end station publishes to its talkers: now, and from a base time to come.

    `lateness` is how late they say they send, by name and path of the stream, `launches` which of
    their frames did not leave at their time.
    """

    running: TalkerTable | None = None
    pending: TalkerTable | None = None
    lateness: Mapping[tuple[str, int], WakeUps] = field(default_factory=dict)
    launches: Mapping[tuple[str, int], Launches] = field(default_factory=dict)

    @property
    def newest(self) -> TalkerTable | None:
        return self.pending or self.running


class Recoding(NamedTuple):
    """What one row of a port's `table` changes: a received code point `before` that stands for the
    priority `after`, or a priority `before` that is sent as the code point `after`."""

    table: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class ForeignEntry:
    """Frames to a MAC address leave by `port`, or go to the bridge itself, in these VLANs: a static
    entry of the kernel that the agent has not made."""

    port: str
    vlan_ids: tuple[range, ...]

    def has(self, vlan_id: int) -> bool:
        """Whether it is for frames in this VLAN."""
        return any(vlan_id in each for each in self.vlan_ids)


@dataclass(frozen=True, slots=True)
class BridgeReport:
    """A Linux bridge of a switch: the interfaces that are its ports, sorted, and how its kernel
    forwards frames by static entries.

    `recoded` is by port what its tables change of code points, empty where they change nothing.
    Without VLAN filtering a bridge forwards by address alone; without multicast snooping it sends
    frames of a group address to all ports. Both are True where the switch does not report it.
    `lacking_modules` are YANG modules of mechanisms that it has not, where it was asked;
    `revisions` are those of modules that it has.

    `held_back` are the ports with a link that the spanning tree protocol does not let forward, with
    their state; `hides_tags` those whose driver takes VLAN tags off received frames;
    `foreign_vlans` those that the agent has not registered, by port, or by the bridge
    itself; `foreign_entries` the static entries that it has not made, by MAC address.
    `counts` is what it has counted of frames of streams, parts of mechanisms.
    """

    ports: tuple[str, ...]
    forwarding: BridgeForwarding
    filters_vlans: bool = True
    snoops_multicast: bool = True
    recoded: Mapping[str, tuple[Recoding, ...]] = field(default_factory=dict)
    lacking_modules: frozenset[str] = frozenset()
    revisions: Mapping[str, str] = field(default_factory=dict)
    held_back: Mapping[str, str] = field(default_factory=dict)
    hides_tags: frozenset[str] = frozenset()
    foreign_vlans: Mapping[str, frozenset[int]] = field(default_factory=dict)
    foreign_entries: Mapping[str, tuple[ForeignEntry, ...]] = field(default_factory=dict)
    counts: Parts = field(default=NO_PARTS, compare=False)


@dataclass(frozen=True, slots=True)
class GatesReport:
    """The gates of a port, and how it classifies frames, by its kernel; and the limits of the port.

    `mode` and `clock` (a name of tsn-linux) are None where the port has no taprio.
    `current_time_ns` is the port's TAI clock when the switch answered. `extras` are as those of
    `StoredGates`, in the same wording. `traffic` is by traffic class, empty where it is not
    reported. `bridge` is the Linux bridge that the port is a member of; `bridged_priorities` are
    the rules for the frames that it forwards, None where the agent has none. `wake_ups` are those
    of timers that open its gates, None where none do or nothing was measured.
    `software_gates_refused` is why gates of mode software would not hold all its frames back; None:
    they would. `transmit_quota_frames` is how many frames the kernel sends in one run of a queue
    that such gates hold, None where it does not say so, or an older agent reports. `hardware` is
    None where nothing is said of it.
    """

    root_qdisc: str = "noqueue"
    mode: GateMode | None = None
    clock: str | None = None
    running: KernelSchedule | None = None
    pending: KernelSchedule | None = None
    priority_map: tuple[int, ...] = (0,) * PRIORITIES
    number_of_classes: int = 0
    dscp_priorities: Mapping[int, int] = field(default_factory=dict)
    current_time_ns: int | None = None
    limits: GateLimits = field(default_factory=GateLimits)
    extras: tuple[str, ...] = ()
    traffic: Mapping[int, ClassTraffic] = field(default_factory=dict)
    bridge: str | None = None
    bridged_priorities: Mapping[int, int] | None = None
    wake_ups: WakeUps | None = None
    software_gates_refused: str | None = None
    transmit_quota_frames: int | None = None
    hardware: HardwareReport | None = None

    @property
    def foreign_qdisc(self) -> str | None:
        """The kind of a root qdisc that the agent did not set, else None."""
        kind = self.root_qdisc.removeprefix(FOREIGN)
        return None if kind == self.root_qdisc else kind

    @property
    def unclassified(self) -> str | None:
        """Which frames the port's DSCP rules do not classify; None: they classify all frames."""
        if self.bridge is None or self.bridged_priorities == self.dscp_priorities:
            return None
        return f"frames bridged by {self.bridge} are not classified: " + (
            "DSCP rules see routed frames only"
            if self.bridged_priorities is None
            else "the filters at the port's egress differ from its DSCP rules"
        )

    def limits_in(self, mode: GateMode) -> GateLimits:
        """The port's limits in `mode`, as far as the switch reports them.

        A switch reports the limits of the mode that runs, without a list those of its kernel: they
        do not apply to the hardware, nor the hardware's to the kernel. What it knows of the driver
        it reports always.
        """
        if mode is GateMode.FULL_OFFLOAD and self.hardware and self.hardware.offload:
            return self.hardware.offload.limits
        reports_hardware = self.mode is GateMode.FULL_OFFLOAD
        return self.limits if reports_hardware is (mode is GateMode.FULL_OFFLOAD) else GateLimits()

    @property
    def newest(self) -> KernelSchedule | None:
        return self.pending or self.running


@dataclass(frozen=True, slots=True)
class PortReport:
    """What a switch reports of a port, or of a bridge: `parts` of mechanisms, each of a type of its
    own, and what is of the interface itself.

    `oper_status` is RFC 8343's; `mtu_octets` the longest packet that the port sends. `not_applied`
    is why what is stored of the port is not in force, where the agent cannot apply it. `profile` is
    that of a switch which does not run our agent.
    """

    parts: PlaceParts = field(default_factory=PlaceParts)
    oper_status: str | None = None
    link_speed_bps: int | None = None
    tx_queues: int | None = None
    mtu_octets: int | None = None
    not_applied: str | None = None
    profile: Profile | None = None

    def __getitem__(self, kind: type[_Part]) -> _Part:
        """The part of a mechanism; what reports nothing where there is none."""
        return self.parts[kind]

    def get(self, kind: type[_Part]) -> _Part | None:
        """The part of a mechanism; None where there is none."""
        return self.parts.get(kind)

    @property
    def link_fault(self) -> str | None:
        """Why the link carries no frames; None also where the switch does not report its state."""
        # RFC 8343: an interface without link detection (a tunnel, a dummy) stays unknown.
        has_link = self.oper_status in {None, "up", "unknown"}
        return None if has_link else f"the link is {self.oper_status}"


@dataclass(frozen=True, slots=True)
class PtpReport:
    """State of the switch's PTP daemon; `port_states` are tsn-linux's names.

    `offset_from_master_ns` is how far its clock was ahead of its parent's by the last measurement.
    `identity` and `parent` are None where the agent does not say them.
    """

    grandmaster: str
    is_grandmaster: bool
    offset_from_master_ns: int | None
    port_states: tuple[str, ...]
    identity: str | None = None
    parent: str | None = None

    @property
    def is_locked(self) -> bool:
        """Whether its clock follows a grandmaster, or is the grandmaster."""
        return "slave" in self.port_states or (self.is_grandmaster and "master" in self.port_states)


class ClockSource(StrEnum):
    """What keeps a switch's clock; the names are those of tsn-linux."""

    MANAGED = "managed"
    UNMANAGED = "unmanaged"
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class ClockReport:
    """What a switch says of its clock: see `clock` in tsn-linux.

    Of a managed one: `offset_max_ns` is its greatest distance from its time transmitter's in the
    last `measured_s` seconds, in which it followed without a gap; None where it does not follow;
    `others` are its PTP instances that no schedule follows, with their domains.
    `synchronised` is what the kernel says of an unmanaged one, None where that is not known.
    """

    source: ClockSource
    instance: int | None = None
    offset_max_ns: int | None = None
    measured_s: int = 0
    synchronised: bool | None = None
    domain: int | None = None
    others: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class KeptTerm:
    """The highest term that a switch has met of those who act for its network; the first rollout
    with it was of `controller`, and came at `taken` (ISO 8601)."""

    network: str
    term: int
    controller: str
    taken: str

    def __str__(self) -> str:
        return (
            f"it belongs to network {self.network}, for which {self.controller} acts since "
            f"{self.taken} (term {self.term})"
        )


@dataclass(frozen=True, slots=True)
class AgentReport:
    """State of the agent: the duration of its last change, and the features of its kernel.

    `refused` says by the names of mechanisms why the kernel cannot run them. `classifier` is the
    back end that applies DSCP rules (tsn-linux's name). `ptp` is None where no PTP daemon answers,
    `clock` where the agent does not say what keeps the clock.
    `gates_wait` is what stored gates wait for since the agent has started; None: none waits.
    `refuses_late_rollouts`: it heeds the instant until which a rollout may be applied.
    `keeps_terms`: it heeds who acts for a network, and has met `kept_term`.
    `not_applied` is by port why what the switch has stored of it is not in force.
    `profile` is what a switch can do that does not run our agent: what is said here of an agent is
    not known of it.
    """

    tai_offset_s: int | None
    last_change_us: int | None
    classifier: str | None = None
    ptp: PtpReport | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    clock: ClockReport | None = None
    gates_wait: str | None = None
    refuses_late_rollouts: bool = False
    keeps_terms: bool = False
    kept_term: KeptTerm | None = None
    not_applied: Mapping[str, str] = field(default_factory=dict)
    profile: Profile | None = None
