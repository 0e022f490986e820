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


class Clock(StrEnum):
    TAI = "tai"
    MONOTONIC = "monotonic"
    REALTIME = "realtime"
    BOOTTIME = "boottime"


@dataclass(frozen=True, slots=True)
class GateEntry:
    """`gate_states` bit i is set when traffic class i may send (802.1Q 8.6.8.4)."""

    gate_states: int
    interval_ns: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """A gate control list and when its first cycle starts."""

    base_time_ns: int
    cycle_time_ns: int
    entries: tuple[GateEntry, ...]


@dataclass(frozen=True, slots=True)
class QueueRange:
    """The transmit queues `offset … offset+count-1` serve one traffic class."""

    count: int
    offset: int


@dataclass(frozen=True, slots=True)
class Taprio:
    """One port's taprio qdisc. The kernel cannot change anything but `schedule` in place.

    `priority_map[p]` is the traffic class of skb priority p (16 entries), `queues[t]` the transmit
    queues of class t.
    """

    priority_map: tuple[int, ...]
    queues: tuple[QueueRange, ...]
    mode: TaprioMode
    clock: Clock
    schedule: Schedule


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


class AgentError(Exception):
    """A configuration the switch cannot take; the message names the port and the reason."""
