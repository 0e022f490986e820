"""Events that the agent detects by itself: the notifications of `tsn-linux.yang` as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.model import OperStatus, PtpPortState


@dataclass(frozen=True, slots=True)
class AgentStarted:
    pid: int


@dataclass(frozen=True, slots=True)
class PortDrift:
    """`difference`: what the kernel has that the configuration has not, in words."""

    port: str
    difference: str


@dataclass(frozen=True, slots=True)
class PortRestored:
    port: str


@dataclass(frozen=True, slots=True)
class PortStateChange:
    """`link_speed_bps` is None while the kernel knows none."""

    port: str
    oper_status: OperStatus
    link_speed_bps: int | None


@dataclass(frozen=True, slots=True)
class ClockStep:
    """`step_ns`: by how much CLOCK_TAI moved ahead, compared with CLOCK_MONOTONIC."""

    tai_offset_s: int
    step_ns: int


@dataclass(frozen=True, slots=True)
class PtpGrandmasterChange:
    """`grandmaster` and `before` are identities as ptp4l writes them (001122.fffe.334455)."""

    instance: int
    grandmaster: str
    before: str
    is_grandmaster: bool


@dataclass(frozen=True, slots=True)
class PtpPortStateChange:
    instance: int
    port: str
    state: PtpPortState
    before: PtpPortState


@dataclass(frozen=True, slots=True)
class LatentError:
    """Copies of a recovery function do not come by all paths (IEEE Std 802.1CB-2017, 7.4.4).

    `entry` is its index in the Sequence recovery table, `copies` how many came by each port since
    they were last compared.
    """

    entry: int
    difference: int
    copies: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LatentErrorEnded:
    entry: int


@dataclass(frozen=True, slots=True)
class MultipathEvent:
    """A notification of `tsn-multipath`, by its name, with its leaves."""

    name: str
    leaves: Mapping[str, object]


Event = (
    AgentStarted
    | PortDrift
    | PortRestored
    | PortStateChange
    | ClockStep
    | PtpGrandmasterChange
    | PtpPortStateChange
    | LatentError
    | LatentErrorEnded
    | MultipathEvent
)
