"""The PTP instances of a switch, and what their daemons say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agent.kernel.ptp_management import (
    CurrentDataSet,
    DefaultDataSet,
    GptpPort,
    ParentDataSet,
    PortDataSet,
    TimePropertiesDataSet,
)

# sdo-id: IEEE Std 802.1AS-2020, 8.1; IEEE Std 1588-2019, 16.5
GPTP, DEFAULT_PROFILE = 256, 0


class TimeStamping(StrEnum):
    """Where frames get their time stamps; the names are ptp4l's and those of `tsn-linux.yang`."""

    HARDWARE = "hardware"
    SOFTWARE = "software"


class DelayMechanism(StrEnum):
    """How the delay of a path is measured, in ptp4l's words."""

    END_TO_END = "E2E"
    PEER_TO_PEER = "P2P"


@dataclass(frozen=True, slots=True)
class Servo:
    """How the clock is steered; None: as ptp4l does by itself. Numbers are written as configured.

    A clock that is further off than a threshold is set instead of slewed: the first one counts
    when the clock begins to follow, the other one later; 0 means never.
    """

    proportional_constant: str | None = None
    integral_constant: str | None = None
    first_step_threshold_ns: int | None = None
    step_threshold_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Instance:
    """What is configured of an instance but its ports; `index` is its number in the datastore.

    `sdo_id` is 256 for the profile of IEEE Std 802.1AS, 0 for the default one of IEEE Std 1588.
    A `free_running` instance leaves the clock of the system alone: it measures, or steers a virtual
    clock of its network card, where that has some. `time_stamping` is None where
    the hardware of its ports decides.
    """

    index: int
    domain: int
    sdo_id: int
    priority1: int
    priority2: int
    time_receiver_only: bool = False
    max_steps_removed: int | None = None
    time_stamping: TimeStamping | None = None
    free_running: bool = False
    servo: Servo = field(default_factory=Servo)


@dataclass(frozen=True, slots=True)
class InstancePort:
    """A port of an instance: both are configured together. `options` are ptp4l's, by name."""

    instance: Instance
    number: int
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ClockConfig:
    """The instances that a port is asked to be in, by their index."""

    instances: tuple[InstancePort, ...] = ()


@dataclass(frozen=True, slots=True)
class InstanceReport:
    """What the daemon of an instance answers; data sets are None where it does not.

    `failure` is why it does not run, in its own words. `gptp_ports` and `ports` are by PTP's
    number of the port.
    """

    default: DefaultDataSet | None = None
    current: CurrentDataSet | None = None
    parent: ParentDataSet | None = None
    time_properties: TimePropertiesDataSet | None = None
    ports: Mapping[int, PortDataSet] = field(default_factory=dict)
    gptp_ports: Mapping[int, GptpPort] = field(default_factory=dict)
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Membership:
    """A port in an instance as it is now; PTP numbers the ports of an instance from 1."""

    configured: InstancePort
    ptp_number: int
    time_stamping: TimeStamping
    report: InstanceReport = field(default_factory=InstanceReport, compare=False)
    virtual_clock: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ClockState:
    """The instances that a port is in, by their index."""

    memberships: tuple[Membership, ...] = ()
