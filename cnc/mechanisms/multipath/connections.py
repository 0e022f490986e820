"""What is asked of single connections of an end station; of what is None it has its own default."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ConnectionMode(StrEnum):
    """What one connection has its paths for."""

    HASSLE_FREE = "hassle-free"
    RELIABILITY = "reliability"
    LOW_LATENCY = "low-latency"
    SINGLE_PATH = "single-path"
    ON_DEMAND = "on-demand"
    DOWNLOAD = "download"


class Source(StrEnum):
    """Who says what an application is for."""

    USER = "user"
    OPERATOR = "operator"


class Reading(StrEnum):
    """Of the algorithm for media, whose text and listing differ."""

    CLAIMED = "claimed"
    PRINTED = "printed"


@dataclass(frozen=True, slots=True)
class Application:
    """Connections that agree with each of users, control groups and ports that is not empty."""

    name: str
    mode: ConnectionMode
    source: Source = Source.OPERATOR
    users: tuple[int, ...] = ()
    control_groups: tuple[str, ...] = ()
    remote_ports: tuple[int, ...] = ()
    media_rate_bps: int | None = None
    media_duration_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Connections:
    """The first of the applications that agrees has a connection, those of the user first."""

    applications: tuple[Application, ...] = ()
    threshold_ns: int | None = None
    removal_threshold_ns: int | None = None
    reading: Reading | None = None
    small_object_octets: int | None = None
    long_running_ns: int | None = None
    heat_zone: str | None = None
    heat_stop_celsius: int | None = None
    heat_restart_celsius: int | None = None
    retry_after_ns: int | None = None
