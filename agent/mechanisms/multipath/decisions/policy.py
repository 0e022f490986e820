"""What is configured for single connections; the defaults are those of `tsn-multipath.yang`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

S = 1_000_000_000


class ConnectionMode(StrEnum):
    """What a connection has its paths for: the modes of the station, and two that depend on what
    the connection does."""

    HASSLE_FREE = "hassle-free"
    RELIABILITY = "reliability"
    LOW_LATENCY = "low-latency"
    SINGLE_PATH = "single-path"
    ON_DEMAND = "on-demand"
    DOWNLOAD = "download"


class Source(StrEnum):
    """Who has said what an application is for: what its user says holds before the operator."""

    USER = "user"
    OPERATOR = "operator"


class Reading(StrEnum):
    """Of Algorithm 1: see `on_demand`."""

    CLAIMED = "claimed"
    PRINTED = "printed"


@dataclass(frozen=True, slots=True)
class Application:
    """Connections that agree with each of `uids`, `cgroups` and `remote_ports` that is not empty.

    `cgroups` are paths below the root of control groups. A medium that plays at `media_rate_bps`
    and lasts `media_duration_ns` is what mode on-demand is for; None: unknown.
    """

    name: str
    mode: ConnectionMode
    source: Source = Source.OPERATOR
    uids: frozenset[int] = frozenset()
    cgroups: frozenset[str] = frozenset()
    remote_ports: frozenset[int] = frozenset()
    media_rate_bps: int | None = None
    media_duration_ns: int | None = None


@dataclass(frozen=True, slots=True)
class OnDemand:
    """Thresholds of the medium that is loaded ahead: a further path below the first, one less from
    the second on (reading `claimed`; `printed` has one, which doubles)."""

    threshold_ns: int = 10 * S
    removal_threshold_ns: int = 20 * S
    reading: Reading = Reading.CLAIMED


@dataclass(frozen=True, slots=True)
class Download:
    """A connection that carries more, or data for longer, is a download."""

    small_object_octets: int = 20_000_000
    long_running_ns: int = 30 * S


@dataclass(frozen=True, slots=True)
class Heat:
    """Of the thermal zone of this type: from which temperature on connections have one path, and
    below which they may have more again."""

    zone: str
    stop_millicelsius: int
    restart_millicelsius: int


@dataclass(frozen=True, slots=True)
class PathPolicy:
    """Of a path. `radio_technologies` and `minimum_signal_dbm` are what its radio link needs, to be
    more than a backup; `limit_octets` is how much it may carry until it is a backup, and `warn`
    after which part of it, in percent, that is announced. None and empty: no condition."""

    interface: str
    is_backup: bool = False
    is_announced: bool = False
    radio_technologies: frozenset[str] = frozenset()
    minimum_signal_dbm: int | None = None
    limit_octets: int | None = None
    warn_percent: int = 80


@dataclass(frozen=True, slots=True)
class Policy:
    """Of all connections. `otherwise` is the mode of those that no application has."""

    otherwise: ConnectionMode
    paths: tuple[PathPolicy, ...]
    applications: tuple[Application, ...] = ()
    subflows: int = 8
    on_demand: OnDemand = OnDemand()
    download: Download = Download()
    heat: Heat | None = None
    retry_after_ns: int = 60 * S
