"""The paths of an end station with multipath TCP (RFC 8684): what is asked, and what is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agent.mechanisms.multipath.connections import ConnectionState, Exclusion, PathUse
from agent.mechanisms.multipath.decisions.policy import Policy

NAME = "multipath"
DEFAULT_SCHEDULER = "default"  # the only one of Linux itself

# The values of settings by their names, in one order.
Values = tuple[tuple[str, str], ...]


class Mode(StrEnum):
    """What the paths of a connection are for; the names are those of `tsn-multipath.yang`."""

    HASSLE_FREE = "hassle-free"
    RELIABILITY = "reliability"
    LOW_LATENCY = "low-latency"
    SINGLE_PATH = "single-path"


@dataclass(frozen=True, slots=True)
class RoutedPath:
    """The addresses of a port as the kernel uses them: what is sent from each leaves by the port,
    and `endpoint_flags` are those of its endpoint; None: it has no endpoint. `lack` is what is not
    so, in words."""

    endpoint_flags: frozenset[str] | None = None
    lack: str = ""


@dataclass(frozen=True, slots=True)
class MultipathConfig:
    """What a port is asked to be; None: no path. `settings` are those of the whole namespace, with
    which all its paths come, and so is `policy`; None: connections are the kernel's own."""

    path: RoutedPath | None = None
    settings: Values = ()
    mode: Mode = Mode.HASSLE_FREE
    policy: Policy | None = None


@dataclass(frozen=True, slots=True)
class EndpointState:
    """An endpoint of the kernel; `is_ours`: the agent has made it."""

    address: str
    id: int
    flags: frozenset[str]
    is_ours: bool


@dataclass(frozen=True, slots=True)
class MultipathState:
    """What a port has: `path` is the agent's, None: the agent has nothing there. `settings` are the
    values of what the agent has set in the namespace, as they are now, and `policy` is what it
    manages connections by."""

    path: RoutedPath | None = None
    settings: Values = ()
    endpoints: tuple[EndpointState, ...] = ()
    policy: Policy | None = None


@dataclass(frozen=True, slots=True)
class NodeState:
    """The network namespace: what it can be set to, what it is set to, and what it has counted.

    Connections, exclusions and the use of paths, by interface, are those of the last look;
    `now_ns` is when the state was read (`Clock.MONOTONIC`).
    """

    schedulers: tuple[str, ...] = (DEFAULT_SCHEDULER,)
    congestion_controls: tuple[str, ...] = ()
    settings: Values = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    connections: tuple[ConnectionState, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    uses: Mapping[str, PathUse] = field(default_factory=dict)
    millicelsius: int | None = None
    now_ns: int = 0
