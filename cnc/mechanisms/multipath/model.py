"""What multipath TCP is asked at the ports of an end station, and what it does there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from cnc.mechanisms.multipath.connections import Connections

LIMIT_MAX = 8  # of the kernel: subflows beside the first, addresses of the peer
DEFAULT_SCHEDULER = "default"


class Mode(StrEnum):
    """What the paths of a connection are for."""

    HASSLE_FREE = "hassle-free"
    RELIABILITY = "reliability"
    LOW_LATENCY = "low-latency"
    SINGLE_PATH = "single-path"


class RadioTechnology(StrEnum):
    """By which a Wi-Fi interface sends."""

    LEGACY = "legacy"
    HT = "ht"
    VHT = "vht"
    HE = "he"
    EHT = "eht"


@dataclass(frozen=True, slots=True)
class Settings:
    """Of a station, with its paths. Of what is None the station keeps what it has; without
    `connections` these are its kernel's."""

    mode: Mode = Mode.HASSLE_FREE
    enabled: bool = True
    subflows: int = LIMIT_MAX
    add_addr_accepted: int = LIMIT_MAX
    scheduler: str | None = None
    congestion_control: str | None = None
    no_metrics_save: bool | None = None
    max_buffer_octets: int | None = None
    connections: Connections | None = None


@dataclass(frozen=True, slots=True)
class Path:
    """`backup` carries data only while no other path does, in mode reliability, and none in mode
    single-path. `announce`: peers are told of its addresses. The others are what makes it
    a backup of each connection; None and empty: nothing."""

    backup: bool = False
    announce: bool = False
    radio_technologies: tuple[RadioTechnology, ...] = ()
    minimum_signal_dbm: int | None = None
    data_limit_octets: int | None = None
    data_warning_percent: int | None = None


@dataclass(frozen=True, slots=True)
class Station:
    """A station with its paths by port."""

    paths: Mapping[str, Path]
    settings: Settings


@dataclass(frozen=True, slots=True)
class Stations:
    """The stations of an intent with paths, by name."""

    by_name: Mapping[str, Station] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StationPath:
    """What a port is asked to be, None: no path; and the settings of its station, None: it has no
    path at all."""

    path: Path | None = None
    settings: Settings | None = None

    @property
    def endpoint_flags(self) -> frozenset[str] | None:
        """Those of the endpoints of its addresses; None: it has none."""
        if self.path is None or self.settings is None:
            return None
        if self.path.backup and self.settings.mode is Mode.SINGLE_PATH:
            return None
        flags = {"signal"} if self.path.announce else {"subflow", "fullmesh"}
        if self.path.backup and self.settings.mode is Mode.RELIABILITY:
            flags.add("backup")
        return frozenset(flags)

    @property
    def kernel_values(self) -> dict[str, str]:
        """What the kernel of the station is set to, by the names of the module's state."""
        its = self.settings
        if its is None:
            return {}
        single = its.mode is Mode.SINGLE_PATH
        values: dict[str, object] = {
            "enabled": its.enabled,
            "subflows": 0 if single else its.subflows,
            "add-addr-accepted": its.add_addr_accepted,
            "scheduler": its.scheduler,
            "congestion-control": its.congestion_control,
            "no-metrics-save": its.no_metrics_save,
            "maximum-receive-buffer": its.max_buffer_octets,
            "maximum-send-buffer": its.max_buffer_octets,
            "path-manager": "program" if its.connections else None,
        }
        return {name: str(each).lower() for name, each in values.items() if each is not None}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint of the kernel; `managed`: the agent has made it."""

    address: str
    flags: frozenset[str]
    managed: bool


class SubflowReport(NamedTuple):
    """A subflow by a port, and why it is there."""

    is_backup: bool
    reason: str


@dataclass(frozen=True, slots=True)
class PathReport:
    """What a station reports of a port: whether its agent has made it a path, and what that lacks;
    `kernel` are the values of the whole station, as texts of the module. `demoted` is why its agent
    makes it a backup of each connection."""

    managed: bool = False
    lack: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    kernel: Mapping[str, str] = field(default_factory=dict)
    demoted: str | None = None
    subflows: tuple[SubflowReport, ...] = ()
