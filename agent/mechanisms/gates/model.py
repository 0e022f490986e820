"""The gates of a port: gate control list, taprio around it, and what the kernel reports of both.

Times are integer nanoseconds on the schedule's clock (TAI by default).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agent.model import Clock, EmulatedLink
from agent.traffic_classes import QueueRange

NAME = "gates"

# What the agent has the kernel send at least in one run of a queue, so that the frames of one
# window leave in one go (agent.mechanisms.gates.transmit_quota).
TRANSMIT_QUOTA_FRAMES = 1024

UNKNOWN_LENGTHS = EmulatedLink(0, 0)  # a size table that is none of the agent's


class TaprioMode(StrEnum):
    """How the gates are run; the names are those of `tsn-linux.yang`."""

    SOFTWARE = "software"
    TXTIME_ASSIST = "txtime-assist"
    FULL_OFFLOAD = "full-offload"


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
class GateSchedule:
    """A gate control list and when its first cycle starts."""

    base_time_ns: int
    cycle_time_ns: int
    entries: tuple[GateEntry, ...]

    def is_congruent(self, other: GateSchedule) -> bool:
        """Whether both move the gates alike once both have started: whole cycles apart."""
        return (
            self.cycle_time_ns == other.cycle_time_ns
            and self.entries == other.entries
            and (self.base_time_ns - other.base_time_ns) % self.cycle_time_ns == 0
        )


@dataclass(frozen=True, slots=True)
class Taprio:
    """One port's taprio.

    The kernel changes `schedule`, `max_sdu_octets`, `preemptable` and the size table in place, no
    more.

    `priority_map[p]` is the traffic class of skb priority p (16 entries), `queues[t]` the transmit
    queues of class t. `max_sdu_octets[t]` limits the service data units of class t (802.1Q
    queueMaxSDU; 0: no limit); it is empty, not all zero, where no class has a limit. On an
    `emulated` link frames count for as long as they take there (agent.mechanisms.gates
    .frame_lengths); UNKNOWN_LENGTHS says that they count for something else.

    `preemptable` are the classes that another mechanism has handed to the port with it; None: none
    were or are, so that a kernel which knows no preemption is told nothing.
    """

    priority_map: tuple[int, ...]
    queues: tuple[QueueRange, ...]
    mode: TaprioMode
    clock: Clock
    schedule: GateSchedule
    max_sdu_octets: tuple[int, ...] = ()
    emulated: EmulatedLink | None = None
    preemptable: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class GateLimits:
    """What a port can take, as kernel and driver report it; None where neither does.

    `tick_tenth_ns` is how finely gates can be timed, in the standard's tenths of a nanosecond.
    """

    list_max: int | None = None
    cycle_max_ns: int | None = None
    interval_max_ns: int | None = None
    tick_tenth_ns: int | None = None
    interval_min_ns: int | None = None


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
class TransmitQuotaState:
    """How many frames the kernel sends in one run of a queue, and whether the agent may set it."""

    frames: int
    is_settable: bool


@dataclass(frozen=True, slots=True)
class GateConfig:
    """What the gates of a port are asked to do; None: they are not enabled."""

    taprio: Taprio | None = None


@dataclass(frozen=True, slots=True)
class GateState:
    """What the kernel does with the gates of a port.

    `running` is the schedule in force (None: no taprio of ours, or its first base time is ahead),
    `pending` the one that waits for its base time. `taprio` carries the fixed part (map, queues,
    mode, clock) with the newest schedule. `counters[t]` belongs to traffic class t.
    `hardware_peers` are the ports from which hardware forwards frames to this one, past software
    gates (agent.mechanisms.gates.hardware). `transmit_quota` is the whole machine's, None where the
    kernel does not show it.
    """

    taprio: Taprio | None = None
    running: GateSchedule | None = None
    pending: GateSchedule | None = None
    counters: tuple[ClassCounters, ...] = ()
    limits_by_mode: Mapping[TaprioMode, GateLimits] = field(default_factory=dict)
    hardware_peers: tuple[str, ...] = ()
    transmit_quota: TransmitQuotaState | None = None

    @property
    def limits(self) -> GateLimits:
        """Those of the mode that the gates run in; of the software mode where there are none."""
        mode = self.taprio.mode if self.taprio else TaprioMode.SOFTWARE
        return self.limits_by_mode.get(mode, GateLimits())

    @property
    def transmit_quota_frames(self) -> int | None:
        """How many frames a run of a queue that software gates hold sends: now, or once the agent
        has set them. None where that is not known."""
        quota = self.transmit_quota
        if quota is None or self.taprio is not None or not quota.is_settable:
            return quota.frames if quota else None
        return max(quota.frames, TRANSMIT_QUOTA_FRAMES)

    def moves_gates_as(self, schedule: GateSchedule) -> bool:
        """Whether the newest schedule does what `schedule` asks, now and for ever.

        A running schedule repeats, so a base time whole cycles away asks for nothing new, be it
        past or ahead. One that still waits must start exactly when asked.
        """
        if self.taprio is None:
            return False
        newest = self.taprio.schedule
        return newest == schedule if self.pending else newest.is_congruent(schedule)
