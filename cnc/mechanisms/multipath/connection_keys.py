"""The key `connections` of multipath TCP at an end station."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cnc.keys.mapping import Shape
from cnc.keys.units import DURATION, RATE, SIZE, Quantity
from cnc.keys.values import Leaf, Name, choice, integer, quantity, text
from cnc.mechanisms.multipath.connections import ConnectionMode, Reading, Source
from cnc.model import NS_PER_S

_NS_PER_MS, _MAX = 1_000_000, 2**32 - 1
DATA = Quantity(
    "an amount of data",
    "20MB, 5GB",
    {"GB": 10**9, "MB": 10**6, "kB": 1000, "B": 1},
    elsewhere=SIZE.elsewhere,
)


def _whole(unit_ns: int, unit: str) -> Leaf:
    """A duration as the YANG leaf has it."""

    def parse(value: object) -> int:
        duration_ns = DURATION.parse(value)
        if duration_ns % unit_ns or not 0 < duration_ns // unit_ns <= _MAX:
            raise ValueError(f"a duration of whole {unit}, such as 10s")
        return duration_ns

    return Leaf(parse, {"type": "string", "pattern": DURATION.pattern})


_Milliseconds = Annotated[int, _whole(_NS_PER_MS, "milliseconds")]
_User = Annotated[int, integer(0, _MAX)]
_Port = Annotated[int, integer(1, 65_535)]
_ControlGroup = Annotated[
    str, text(r"/[!-~]{1,254}", "a control group such as /system.slice/video.service")
]
_Celsius = Annotated[int, integer(-40, 200, "whole degrees Celsius from -40 to 200")]


class ApplicationKeys(Shape):
    """Connections that agree with each of users, control-groups and remote-ports that is stated."""

    mode: Annotated[ConnectionMode, choice(ConnectionMode)] = Field(
        description="what they have their paths for: as the mode of the station; on-demand: "
        "backups carry data while what is loaded of a medium is about to run out; download: one "
        "path, and all of them once it is a download"
    )
    source: Annotated[Source, choice(Source)] = Field(
        "operator",
        validate_default=True,
        description="who says so: applications of the user come before those of the operator",
    )
    users: list[_User] = Field([], description="numbers of users; default: all")
    control_groups: list[_ControlGroup] = Field(
        [], description="paths below the root of control groups; default: all"
    )
    remote_ports: list[_Port] = Field([], description="ports of peers; default: all")
    media_rate_bps: Annotated[int, quantity(RATE, 1)] | None = Field(
        None, description="what the medium needs to be played, in mode on-demand"
    )
    media_duration_ns: Annotated[int, _whole(NS_PER_S, "seconds")] | None = Field(
        None, description="how long the medium is, for the reading printed"
    )


class OnDemand(Shape):
    """How far ahead of what is played a medium is loaded."""

    threshold_ns: _Milliseconds | None = Field(
        None, description="with less, one path more; default: 10s"
    )
    removal_threshold_ns: _Milliseconds | None = Field(
        None, description="with so much, one path less; default: twice the threshold"
    )
    reading: Annotated[Reading, choice(Reading)] | None = Field(
        None,
        description="of an algorithm whose text and listing differ; default: claimed, which "
        "uses a further path only on demand",
    )


class Download(Shape):
    """What a download is."""

    small_object_octets: Annotated[int, quantity(DATA)] | None = Field(
        None, description="more data than that; default: 20MB"
    )
    long_running_ns: _Milliseconds | None = Field(
        None, description="or data for longer; default: 30s"
    )


class Heat(Shape):
    """When connections have one path because the machine is hot."""

    zone: Annotated[str, text("[!-~]{1,64}", "the type of a thermal zone, such as cpu")] = Field(
        description="the type of the thermal zone"
    )
    stop: _Celsius = Field(description="from this temperature on, in degrees Celsius")
    restart: _Celsius = Field(description="until it is below this one")


class ConnectionsKeys(Shape):
    """The agent manages the subflows of each connection, instead of the kernel."""

    applications: dict[Name, ApplicationKeys] = Field(
        {}, description="by name; the first that agrees has a connection, else the mode"
    )
    on_demand: OnDemand = Field({}, validate_default=True, description="of mode on-demand")
    download: Download = Field({}, validate_default=True, description="of mode download")
    heat: Heat | None = Field(None, description="when one path has to do; default: never")
    retry_after_ns: _Milliseconds | None = Field(
        None,
        description="where a subflow has failed, how long no other one is tried between the same "
        "addresses; default: 60s",
    )
