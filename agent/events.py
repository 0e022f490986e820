"""Events that the agent detects by itself: the notifications of `tsn-linux.yang` as values."""

from __future__ import annotations

from dataclasses import dataclass

from agent.model import OperStatus


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


Event = AgentStarted | PortDrift | PortRestored | PortStateChange | ClockStep
