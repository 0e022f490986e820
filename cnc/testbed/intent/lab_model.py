"""How a lab emulates a network: parts of an intent that no plan depends on.

Times are integer nanoseconds; frequencies are off by parts in 10^9, ratios are of 10^9 or 10^12.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cnc.model import PortRef


@dataclass(frozen=True, slots=True)
class ClockStep:
    """A clock is set ahead by `by_ns`, below 0 back, `at_ns` of virtual time after its lab is
    up."""

    at_ns: int
    by_ns: int


@dataclass(frozen=True, slots=True)
class Clock:
    """How a node's clock differs from true time where a lab emulates it: by `offset_ns` when it
    starts, ahead if above zero, and its oscillator by `frequency_offset_ppb`, faster if above zero.

    To that the frequency adds a sinusoid, which begins at 0 and rises, and a random walk, which
    goes `random_walk_ppt` far in a second (parts in 10^12 per root second, one standard deviation).
    0: none of it. `steps` are in the order of time.
    """

    offset_ns: int = 0
    frequency_offset_ppb: int = 0
    random_walk_ppt: int = 0
    sinusoid_amplitude_ppb: int = 0
    sinusoid_period_ns: int = 0
    seed: int = 0
    steps: tuple[ClockStep, ...] = ()


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of the nodes that have one that differs."""

    by_node: Mapping[str, Clock] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Impairments:
    """What a cable does to frames where a lab emulates it: they come up to `jitter_ns` later than
    after its propagation, and by a Pareto distribution `pareto_ns` on average, `frame_loss_ppb` of
    10^9 are lost, and so are those with a wrong bit, of which `bit_errors_ppt` of 10^12 are."""

    jitter_ns: int = 0
    frame_loss_ppb: int = 0
    bit_errors_ppt: int = 0
    pareto_ns: int = 0


@dataclass(frozen=True, slots=True)
class ImpairedLinks:
    """What the links of these ports do to frames, where they do anything."""

    by_port: Mapping[PortRef, Impairments] = field(default_factory=dict)


class LabKernels(StrEnum):
    """What the nodes of a lab are."""

    SHARED = "shared"  # namespaces of one kernel
    OWN = "own"  # user-mode kernels, each with a clock of its own


class LabClocks(StrEnum):
    """What keeps the clocks of kernels of their own together."""

    GPTP = "gptp"  # a ptp4l at each, which follows that of the first switch
    FREE = "free"  # nothing: each goes as its oscillator does


class LabTime(StrEnum):
    """When the one time of kernels of their own passes, once the lab is up."""

    VIRTUAL = "virtual"  # while a command runs, as fast as the machine can
    REAL = "real"  # always, as the machine's clock does, or slower if the machine is too slow


@dataclass(frozen=True, slots=True)
class Emulation:
    """How a lab emulates the network; `clocks` and `time` are of kernels of their own."""

    kernels: LabKernels = LabKernels.SHARED
    clocks: LabClocks = LabClocks.GPTP
    time: LabTime = LabTime.VIRTUAL
