"""What a port is configured to do and what its kernel does, without a word of any mechanism.

A mechanism (`agent.mechanism`) keeps its own part in both, a frozen dataclass of its own type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000

# Of a switch's one agent: what must outlive it, and what it tells other programs.
STATE_DIR = Path("/run/tsn-agent")

Part = TypeVar("Part")


class OperStatus(StrEnum):
    """RFC 8343 `oper-status`; the kernel's operational states (RFC 2863) have the same names."""

    UP = "up"
    DOWN = "down"
    TESTING = "testing"
    UNKNOWN = "unknown"
    DORMANT = "dormant"
    NOT_PRESENT = "not-present"
    LOWER_LAYER_DOWN = "lower-layer-down"


class Clock(StrEnum):
    TAI = "tai"
    MONOTONIC = "monotonic"
    REALTIME = "realtime"
    BOOTTIME = "boottime"


@dataclass(frozen=True, slots=True)
class EmulatedLink:
    """A link whose rate is not that of its device: a cable of a lab, which is a veth pair.

    `device_bps` is what the device says and the kernel reckons with.
    """

    device_bps: int
    rate_bps: int

    @property
    def length_factor(self) -> Fraction:
        """How many octets pass the device in the time of one on the link: 10 for 1 Gb/s on veth."""
        return Fraction(self.device_bps, self.rate_bps)


@dataclass(frozen=True, slots=True)
class LinuxBridge:
    """What a Linux bridge is set to; `ports` are the numbers of its ports by name.

    The kernel numbers ports in the order in which they join the bridge. `port_states` are what the
    spanning tree protocol has each port do, in the words of tsn-linux.
    """

    vlan_filtering: bool
    multicast_snooping: bool
    ports: Mapping[str, int] = field(default_factory=dict)
    port_states: Mapping[str, str] = field(default_factory=dict)


class VerifyStatus(StrEnum):
    """Whether the other end of a link was found to put fragments together; the names are those of
    tsn-linux."""

    UNKNOWN = "unknown"
    INITIAL = "initial"
    VERIFYING = "verifying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class MacMerge:
    """What the MAC merge layer of a port does (IEEE 802.3 clause 99): whether it is to interrupt
    preemptable frames, and does. A fragment has so many octets at least, without its check."""

    tx_enabled: bool = False
    tx_active: bool = False
    verify_status: VerifyStatus = VerifyStatus.UNKNOWN
    tx_min_fragment_octets: int = 60


def _part(parts: tuple[Any, ...], kind: type[Part]) -> Part:
    return next((part for part in parts if isinstance(part, kind)), None) or kind()


@dataclass(frozen=True, slots=True)
class PortConfig:
    """What one port is asked to do: at most one part of each mechanism.

    `config[Kind]` is the part of that type. A mechanism that is asked for nothing has no part, or
    one equal to `Kind()`.
    """

    name: str
    parts: tuple[Any, ...] = ()

    def __getitem__(self, kind: type[Part]) -> Part:
        return _part(self.parts, kind)

    @property
    def is_empty(self) -> bool:
        """Whether no mechanism is asked for anything."""
        return all(part == type(part)() for part in self.parts)


@dataclass(frozen=True, slots=True)
class PortState:
    """What the kernel says about one port; `state[Kind]` is the part of one mechanism.

    `foreign_qdisc` names a root qdisc that the agent did not set. `statistics` has the names of
    RFC 8343. `mac_merge` is None where the port can interrupt no frame.
    `has_hardware_stamps`: its hardware stamps what it sends and receives (ethtool -T).
    `carrier_losses` counts how often the link went down. `bridge` is the Linux bridge that the
    port is a member of, `as_bridge` what the interface is set to if it is one itself, and
    `bridge_departures` how often it was seen to leave one: it loses its VLANs each time.
    `link_speed_bps` is None while the kernel knows none; of an `emulated` link
    it is the rate that is emulated. `mtu_octets` is the longest packet that the port sends.
    `switch_id` names the hardware that forwards the frames of the port by itself (switchdev): the
    kernel does not see them. None: the kernel forwards. `xdp_program` is the number of the program
    that sees frames before all else does (XDP), but no VLAN tags where the driver takes them off
    (`rx_vlan_offload`).
    """

    name: str
    ifindex: int
    tx_queues: int
    link_speed_bps: int | None
    root_qdisc: str
    foreign_qdisc: str | None = None
    oper_status: OperStatus = OperStatus.UNKNOWN
    mac_address: str | None = None
    driver: str | None = None
    mac_merge: MacMerge | None = None
    has_hardware_stamps: bool = False
    statistics: Mapping[str, int] = field(default_factory=dict)
    carrier_losses: int = 0
    bridge: str | None = None
    as_bridge: LinuxBridge | None = None
    emulated: EmulatedLink | None = None
    bridge_departures: int = 0
    mtu_octets: int | None = None
    switch_id: str | None = None
    xdp_program: int | None = None
    rx_vlan_offload: bool = False
    parts: tuple[Any, ...] = ()

    def __getitem__(self, kind: type[Part]) -> Part:
        return _part(self.parts, kind)

    def with_part(self, part: object) -> PortState:
        """The state with `part` in place of the part of its type; an empty one is left out.

        So states are equal when their parts are, whatever the order in which these were set.
        """
        parts = {type(other): other for other in self.parts} | {type(part): part}
        ordered = sorted(parts.values(), key=lambda each: type(each).__qualname__)
        return replace(self, parts=tuple(each for each in ordered if each != type(each)()))

    @property
    def link_is_up(self) -> bool:
        """Whether frames can leave; RFC 2863 `unknown`, which some drivers report, counts as up."""
        return self.oper_status in (OperStatus.UP, OperStatus.UNKNOWN)


class PtpPortState(StrEnum):
    """IEEE Std 1588-2019, table 20, in its order; the names are those of `tsn-linux.yang`."""

    INITIALIZING = "initializing"
    FAULTY = "faulty"
    DISABLED = "disabled"
    LISTENING = "listening"
    PRE_MASTER = "pre-master"
    MASTER = "master"
    PASSIVE = "passive"
    UNCALIBRATED = "uncalibrated"
    SLAVE = "slave"


@dataclass(frozen=True, slots=True)
class PtpStatus:
    """What the PTP daemon says of itself; `ports` are by PTP's port number.

    `offset_from_master_ns` is how far this clock was ahead of that of `parent_identity`, its
    neighbour towards the grandmaster, when it was last measured; None on the grandmaster, which is
    its own parent.
    """

    clock_identity: str
    parent_identity: str
    grandmaster_identity: str
    is_grandmaster: bool
    offset_from_master_ns: int | None
    ports: Mapping[int, PtpPortState]

    @property
    def is_locked(self) -> bool:
        """Whether its clock is in step with another one, or is what others are in step with."""
        states = self.ports.values()
        leads = self.is_grandmaster and PtpPortState.MASTER in states
        return leads or PtpPortState.SLAVE in states


@dataclass(frozen=True, slots=True)
class LastChange:
    """The newest configuration that was applied and kept; `ports` counts those that changed."""

    time: datetime
    duration_us: int
    ports: int


class Refusal(NamedTuple):
    """One reason for a client: `text` names the port where there is one, `tag` is an error-tag of
    RFC 6241 appendix A."""

    text: str
    port: str | None = None
    tag: str = "operation-failed"


class AgentError(Exception):
    """A configuration the switch cannot take; the message names the port and the reason.

    `refusals` are the reasons one by one, in the words of the message.
    """

    def __init__(self, message: str, refusals: Sequence[Refusal] = ()) -> None:
        super().__init__(message)
        self.refusals = tuple(refusals) or (Refusal(message),)


def refused(refusals: Iterable[Refusal]) -> AgentError:
    """The error that has these refusals, one a line."""
    each = tuple(refusals)
    return AgentError("\n".join(refusal.text for refusal in each), each)
