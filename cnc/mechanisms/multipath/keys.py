"""The key `multipath` of an end station."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cnc.keys.mapping import After, Shape
from cnc.keys.units import SIZE
from cnc.keys.values import Boolean, PortName, choice, integer, quantity, text
from cnc.mechanisms.multipath.connection_keys import DATA, ConnectionsKeys
from cnc.mechanisms.multipath.model import LIMIT_MAX, Mode, RadioTechnology

_BUFFER_MIN_OCTETS, _BUFFER_MAX_OCTETS = 4096, 2**31 - 1
_Limit = Annotated[int, integer(0, LIMIT_MAX)]
_KernelName = Annotated[
    str, text(r"[A-Za-z0-9_-]{1,15}", "a name that the kernel has, such as bbr")
]


class PathKeys(Shape):
    """A port that carries subflows. It needs an IP address, and routes of its own."""

    backup: Boolean = Field(
        False,
        description="it carries data only while no other path does, in mode reliability, and none "
        "in mode single-path",
    )
    announce: Boolean = Field(
        False,
        description="the station announces its addresses to peers, as a server does, instead of "
        "opening subflows from them",
    )
    radio_technologies: list[Annotated[RadioTechnology, choice(RadioTechnology)]] = Field(
        [],
        description="with another one, as the Wi-Fi driver says, the path is a backup; needs "
        "connections",
    )
    minimum_signal: Annotated[int, integer(-128, 0)] | None = Field(
        None,
        description="with a weaker signal, in dBm, the path is a backup; needs connections",
    )
    data_limit_octets: Annotated[int, quantity(DATA, 1)] | None = Field(
        None,
        description="what it may carry, such as 5GB, until it is a backup; needs connections",
    )
    data_warning: Annotated[int, integer(1, 100)] | None = Field(
        None, description="of the data limit, in percent, for a notification; default: 80"
    )


class Multipath(Shape):
    """Connections of multipath TCP, at an end station with several ports: of programs that ask for
    it, with peers that have it."""

    paths: dict[PortName, PathKeys] = Field(
        min_length=1, description="the ports that carry them, each with what it is for"
    )
    mode: Annotated[Mode, choice(Mode)] = Field(
        "hassle-free",
        validate_default=True,
        description="hassle-free: all paths carry data; reliability: those that are a backup only "
        "while no other does; low-latency: with a scheduler that sends on several paths at a "
        "time, which few kernels have; single-path: a connection has one subflow",
    )
    enabled: Boolean = Field(
        True, description="whether the kernel lets programs have multipath TCP at all"
    )
    subflows: _Limit = Field(
        LIMIT_MAX, description="of a connection, beside the first, in other modes than single-path"
    )
    add_addr_accepted: _Limit = Field(
        LIMIT_MAX, description="addresses that a peer announces and that subflows are opened to"
    )
    scheduler: _KernelName | None = Field(
        None, description="which packet goes by which path; default: the station's own"
    )
    congestion_control: _KernelName | None = Field(
        None, description="of all TCP of the station; default: its own"
    )
    no_metrics_save: Boolean | None = Field(
        None,
        description="new connections begin without what earlier ones learned; default: the "
        "station's own",
    )
    max_buffer_octets: (
        Annotated[int, quantity(SIZE, _BUFFER_MIN_OCTETS, _BUFFER_MAX_OCTETS)] | None
    ) = Field(
        None,
        description="what a socket of the station buffers at most, such as 12000000B; "
        "default: the station's own",
    )
    connections: ConnectionsKeys | None = Field(
        None,
        description="the agent manages each connection by itself; default: the kernel does, all "
        "alike",
    )


class StationKeys(Shape):
    """Of an end station."""

    multipath: Annotated[Multipath | None, After("gates")] = Field(
        None,
        description="several of its ports carry the connections of its programs (multipath TCP); "
        "needs management",
    )
