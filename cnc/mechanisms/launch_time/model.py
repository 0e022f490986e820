"""Launch times of end stations: what an intent states, what a port is asked for, what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

DEFAULT_DELTA_NS = 500_000
DELTA_MAX_NS = 2**31 - 1  # struct tc_etf_qopt


class LaunchMode(StrEnum):
    """What keeps to the time of transmission of a frame."""

    SOFTWARE = "software"  # a timer of the kernel
    HARDWARE = "hardware"  # the device


@dataclass(frozen=True, slots=True)
class StationLaunch:
    """What is stated of an end station. `delta_ns` before its time a frame leaves the qdisc."""

    mode: LaunchMode
    delta_ns: int = DEFAULT_DELTA_NS


@dataclass(frozen=True, slots=True)
class LaunchTimes:
    """The end stations of an intent that have a launch time."""

    stations: Mapping[str, StationLaunch] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Launch:
    """What the frames of these priorities, sorted, are to have at a port."""

    mode: LaunchMode
    delta_ns: int
    priorities: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PortLaunch:
    """The launch time that a port is asked for, or has stored; None: none."""

    configuration: Launch | None = None


class Row(NamedTuple):
    """A launch time of a port, in the history."""

    mode: LaunchMode
    delta_ns: int
    priorities: tuple[int, ...]


class KernelLaunch(NamedTuple):
    """What the kernel does with frames of a priority; `discarded_frames` since that was set."""

    mode: LaunchMode
    delta_ns: int
    discarded_frames: int = 0


@dataclass(frozen=True, slots=True)
class LaunchReport:
    """What the kernel has at a port, by priority."""

    by_priority: Mapping[int, KernelLaunch] = field(default_factory=dict)
