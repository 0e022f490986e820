"""What a port should do and what its kernel does: the words of datastore, reconcile and kernel.

Times are integer nanoseconds on the schedule's clock (TAI by default).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class TaprioMode(StrEnum):
    """How the gates are run; the names are those of `tsn-linux.yang`."""

    SOFTWARE = "software"
    TXTIME_ASSIST = "txtime-assist"
    FULL_OFFLOAD = "full-offload"


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


class GateOperation(StrEnum):
    """What a gate control list entry does (802.1Q Table 8-7); hold and release need a MAC merge."""

    SET = "set-gate-states"
    HOLD = "set-and-hold-mac"
    RELEASE = "set-and-release-mac"


@dataclass(frozen=True, slots=True)
class GateEntry:
    """`gate_states` bit i is set when traffic class i may send (802.1Q 8.6.8.4)."""

    gate_states: int
    interval_ns: int
    operation: GateOperation = GateOperation.SET


@dataclass(frozen=True, slots=True)
class Schedule:
    """A gate control list and when its first cycle starts."""

    base_time_ns: int
    cycle_time_ns: int
    entries: tuple[GateEntry, ...]

    def is_congruent(self, other: Schedule) -> bool:
        """Whether both move the gates alike once both have started: whole cycles apart."""
        return (
            self.cycle_time_ns == other.cycle_time_ns
            and self.entries == other.entries
            and (self.base_time_ns - other.base_time_ns) % self.cycle_time_ns == 0
        )


@dataclass(frozen=True, slots=True)
class QueueRange:
    """The transmit queues `offset … offset+count-1` serve one traffic class."""

    count: int
    offset: int


@dataclass(frozen=True, slots=True)
class Taprio:
    """One port's taprio. The kernel changes `schedule` and `max_sdu_octets` in place, no more.

    `priority_map[p]` is the traffic class of skb priority p (16 entries), `queues[t]` the transmit
    queues of class t. `max_sdu_octets[t]` limits the service data units of class t (802.1Q
    queueMaxSDU; 0: no limit); it is empty, not all zero, where no class has a limit.
    """

    priority_map: tuple[int, ...]
    queues: tuple[QueueRange, ...]
    mode: TaprioMode
    clock: Clock
    schedule: Schedule
    max_sdu_octets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GateLimits:
    """What a port can take, as kernel and driver tell; None where neither says.

    `tick_tenth_ns` is how finely gates can be timed, in the standard's tenths of a nanosecond.
    """

    list_max: int | None = None
    cycle_max_ns: int | None = None
    interval_max_ns: int | None = None
    tick_tenth_ns: int | None = None


@dataclass(frozen=True, slots=True)
class ClassCounters:
    """What the kernel counted for one traffic class since its taprio was set.

    `frames` were sent, `backlog_frames` wait in the class's queues now. `tx_overruns` (frames still
    on the wire when their gate closed) and `window_drops` are counted by hardware alone; None where
    the kernel has no such count.
    """

    frames: int
    octets: int
    drops: int
    tx_overruns: int | None = None
    window_drops: int | None = None
    backlog_frames: int = 0


@dataclass(frozen=True, slots=True)
class PortConfig:
    """What one port is asked to do. `taprio` is None where gates are not enabled.

    `dscp_priorities` maps a DSCP (0..63) to the skb priority frames leaving by this port get.
    """

    name: str
    taprio: Taprio | None
    dscp_priorities: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PortState:
    """What the kernel says about one port.

    `running` is the schedule in force (None: no taprio of ours, or its first base time is ahead),
    `pending` the one that waits for its base time. `taprio` carries the fixed part (map, queues,
    mode, clock) with the newest schedule. `foreign_qdisc` names a root qdisc somebody else set.
    `counters[t]` belongs to traffic class t. `limits` hold for `taprio.mode`, for the software mode
    where there is no taprio. `statistics` has the names of RFC 8343. `has_mac_merge`: the port can
    interrupt a preemptable frame (IEEE 802.3 clause 99). `carrier_losses` counts how often the link
    went down. `bridge` is the Linux bridge that the port is a member of.
    """

    name: str
    ifindex: int
    tx_queues: int
    link_speed_bps: int | None
    root_qdisc: str
    foreign_qdisc: str | None
    taprio: Taprio | None
    running: Schedule | None
    pending: Schedule | None
    dscp_priorities: Mapping[int, int] = field(default_factory=dict)
    limits: GateLimits = GateLimits()
    counters: tuple[ClassCounters, ...] = ()
    oper_status: OperStatus = OperStatus.UNKNOWN
    mac_address: str | None = None
    driver: str | None = None
    has_mac_merge: bool = False
    statistics: Mapping[str, int] = field(default_factory=dict)
    carrier_losses: int = 0
    bridge: str | None = None

    @property
    def link_is_up(self) -> bool:
        """Whether frames can leave; drivers that do not tell (RFC 2863 `unknown`) count as up."""
        return self.oper_status in (OperStatus.UP, OperStatus.UNKNOWN)

    def moves_gates_as(self, schedule: Schedule) -> bool:
        """Whether the newest list does what `schedule` asks, now and for ever.

        A running list repeats, so a base time whole cycles away asks for nothing new, be it past
        or ahead. One that still waits must start exactly when wanted.
        """
        if self.taprio is None:
            return False
        newest = self.taprio.schedule
        return newest == schedule if self.pending else newest.is_congruent(schedule)


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

    `offset_from_master_ns` is how far this clock was ahead when it was last measured; None on the
    grandmaster, which has no master.
    """

    grandmaster_identity: str
    is_grandmaster: bool
    offset_from_master_ns: int | None
    ports: Mapping[int, PtpPortState]


class AgentError(Exception):
    """A configuration the switch cannot take; the message names the port and the reason."""
