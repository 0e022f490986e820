"""The values of an intent document: how each kind is read, with its units and range.

What `parse` of a leaf raises holds what was expected; the schema of each is for editors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any

from pydantic_core import CoreSchema, core_schema

from cnc.keys.units import DURATION, RATE, SIZE, Quantity
from cnc.model import GateMode, InHardware, PortRef

CYCLE_MAX_NS = 2**31 - 1  # taprio's limit, and the widest cycle its intervals can add up to
# Jumbo frames, which no standard has: what nearly all Ethernet ports can be set to.
PAYLOAD_MAX_OCTETS = 9000
_FRAME_MIN_OCTETS, _FRAME_MAX_OCTETS = 64, 9216  # IEEE 802.3: minimum frame
# In a period of a stream. As many as a queue of a Linux port holds (txqueuelen), where they wait
# for each other when they come by a faster link. 802.1Qcc has 16 bits for it.
FRAMES_MAX = 1000
BURST_MAX_FRAMES = 10_000
MIN_SHARE_MAX_PPB = 990_000_000  # of 10^9: the rest is for scheduled frames and guard bands
RESERVE_MAX_PPB = 900_000_000  # of 10^9: the rest is for gate margins and guard bands
SHARE_MAX_PPB = 990_000_000  # of 10^9: the rest is for best effort
_DSCP_MAX = 63
_TOS_MAX = 255
_DSCP_NAMES = {46: "EF"} | {8 * number: f"CS{number}" for number in range(8)}


@dataclass(frozen=True, slots=True, eq=False)  # pydantic hashes annotations
class Leaf:
    """Reads one value with `parse`, whose `ValueError` holds what was expected."""

    parse: Callable[[object], object]
    schema: Mapping[str, Any]

    def __get_pydantic_core_schema__(self, _source: object, _handler: object) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.parse)

    def __get_pydantic_json_schema__(self, _core: object, _handler: object) -> dict[str, Any]:
        return dict(self.schema)


def quantity(kind: Quantity, minimum: int = 0, maximum: int | None = None) -> Leaf:
    """A value with a unit, read to whole base units."""

    def parse(value: object) -> int:
        number = kind.parse(value)
        if number < minimum or (maximum is not None and number > maximum):
            top = "up" if maximum is None else f"to {kind.format(maximum)}"
            raise ValueError(f"{kind.noun} from {kind.format(minimum)} {top}")
        return number

    return Leaf(parse, {"type": "string", "pattern": kind.pattern})


def integer(minimum: int, maximum: int, expected: str | None = None) -> Leaf:
    """A whole number without a unit."""

    def parse(value: object) -> int:
        if type(value) is int and minimum <= value <= maximum:
            return value
        raise ValueError(expected or f"a whole number from {minimum} to {maximum}")

    return Leaf(parse, {"type": "integer", "minimum": minimum, "maximum": maximum})


def decimal(minimum: int, maximum: int, *, above: bool = False) -> Leaf:
    """A number without a unit, exactly as it is written; with `above`, greater than `minimum`."""

    def parse(value: object) -> Decimal:
        if type(value) in (int, float):
            number = Decimal(repr(value))
            if minimum <= number <= maximum and not (above and number == minimum):
                return number
        low = f"above {minimum} and up" if above else f"from {minimum}"
        raise ValueError(f"a number {low} to {maximum}, such as 2 or 0.25")

    least = "exclusiveMinimum" if above else "minimum"
    return Leaf(parse, {"type": "number", least: minimum, "maximum": maximum})


def text(pattern: str, expected: str, slips: Mapping[str, str] = MappingProxyType({})) -> Leaf:
    """Text that the whole of `pattern` matches. `slips` are patterns of what is often written
    instead, each with what to do."""

    def parse(value: object) -> str:
        if isinstance(value, str) and re.fullmatch(pattern, value):
            return value
        hints = (hint for slip, hint in slips.items() if re.fullmatch(slip, str(value)))
        raise ValueError("; ".join((expected, *hints)))

    return Leaf(parse, {"type": "string", "pattern": f"^({pattern})$"})


def choice(kind: type[StrEnum]) -> Leaf:
    """One of the values of `kind`."""

    values = [member.value for member in kind]

    def parse(value: object) -> StrEnum:
        if isinstance(value, str) and value in values:
            return kind(value)
        raise ValueError(f"one of {', '.join(values)}")

    return Leaf(parse, {"enum": values})


def _dscp(value: object) -> int:
    if type(value) is int and 0 <= value <= _DSCP_MAX:
        return value
    expected = f"a DSCP from 0 to {_DSCP_MAX}"
    if type(value) is int and _DSCP_MAX < value <= _TOS_MAX:
        code_point = value >> 2
        name = _DSCP_NAMES.get(code_point)
        expected += f"; 0x{value:02x} is a TOS byte; its DSCP is {code_point}"
        expected += f" ({name})" if name else ""
    raise ValueError(expected)


_NAME = r"[A-Za-z][A-Za-z0-9_-]{0,62}"
# What the kernel accepts as an interface name, without what a shell or a path would trip over.
_PORT = r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,14}"
_MAC = "([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}"
# What is written for a host beside what is one.
HOST_SLIPS = {
    ".*%.*": "an address with a zone is known to one machine alone: state another address",
    r"\[.*\](:[0-9]+)?": "without brackets; a port is stated as "
    "`management: {address: ..., port: ...}`",
}
_MAC_RANGE = f"{_MAC} - {_MAC}"
HOST = r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}|[0-9A-Fa-f:.]{2,45}"


def _ip_version(value: object) -> int:
    if type(value) is int and value in (4, 6):
        return value
    raise ValueError("4 or 6")


def _ethertype(value: object) -> int:
    if type(value) is not int or value not in _ETHERTYPES:
        raise ValueError("an EtherType from 0x600 to 0xffff, such as 0x22f0")
    return value


def _words_or_duration(*words: str) -> dict[str, Any]:
    """The schema of a duration, or of one of some words."""
    return {"type": "string", "anyOf": [{"enum": [*words]}, {"pattern": DURATION.pattern}]}


RECOVERY_DEFAULT = "100us"
_NO_RECOVERY, _REQUIRED = "none", "required"


def recovery_mapping(value: object) -> dict[Any, object] | None:
    """The mapping that a bare value of `recovery` stands for, or None for the word none;
    `ValueError` says what was expected."""
    if isinstance(value, dict):
        return value
    if value == _NO_RECOVERY:
        return None
    if value == _REQUIRED:
        return {"required": True}
    try:
        DURATION.parse(value)
    except ValueError as error:
        raise ValueError(f"{error}, {_NO_RECOVERY}, {_REQUIRED} or a mapping") from None
    return {"disturbance": value}


RecoveryWord = Annotated[str, Leaf(recovery_mapping, _words_or_duration(_NO_RECOVERY, _REQUIRED))]


def clock_error(value: object) -> int | None:
    """A duration in nanoseconds, or None for the word measured; `ValueError` says so."""
    if value == _MEASURED:
        return None
    try:
        return DURATION.parse(value)
    except ValueError as error:
        raise ValueError(f"{error}, or {_MEASURED}") from None


_MEASURED = "measured"
CLOCK_ERROR_SCHEMA = _words_or_duration(_MEASURED)


def _mac(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(_MAC, value):
        return value.lower()
    written = str(value).replace("-", ":")
    hint = f"; with colons, {written.lower()}" if re.fullmatch(_MAC, written) else ""
    raise ValueError(f"a MAC address such as 91:e0:f0:00:fe:01{hint}")


def _mac_range(value: object) -> tuple[str, str]:
    if isinstance(value, str) and re.fullmatch(_MAC_RANGE, value):
        first, last = value.lower().split(" - ")
        if first <= last:
            return first, last
    raise ValueError(
        "a first MAC address and one that is not before it, such as "
        "03:54:53:4e:00:00 - 03:54:53:4e:00:ff"
    )


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("true or false")


def _end(value: object) -> PortRef:
    if isinstance(value, str) and re.fullmatch(f"({_NAME})/({_PORT})", value):
        return PortRef(*value.split("/"))
    raise ValueError("a port written node/port, such as s1/eth0")


def _window_start(value: object) -> int | str:
    """A duration in nanoseconds, or a name; `ValueError` says what was expected."""
    if isinstance(value, str) and re.fullmatch(_NAME, value):
        return value
    try:
        return DURATION.parse(value)
    except ValueError as error:
        raise ValueError(f"{error}, or the name of a class") from None


WindowStart = Annotated[
    int | str,
    Leaf(
        _window_start,
        {"type": "string", "anyOf": [{"pattern": DURATION.pattern}, {"pattern": f"^{_NAME}$"}]},
    ),
]
Duration = Annotated[int, quantity(DURATION)]
Rate = Annotated[int, quantity(RATE, minimum=1)]
Name = Annotated[
    str,
    text(
        _NAME,
        "a name: a letter, then up to 62 letters, digits, '-' or '_'",
        {r".+\..+": "a name with dots is that of a host, which is its `management`"},
    ),
]
PortName = Annotated[
    str,
    text(
        _PORT,
        "an interface name: up to 15 letters, digits, '_', '.', '+' or '-'",
        {".+@.+": "what `ip link` prints from the @ on is no part of the name"},
    ),
]
UserName = Annotated[str, text(r"[a-z_][a-z0-9_-]{0,31}", "a user name such as tsn")]
TcpPort = Annotated[int, integer(1, 65535, "a TCP port from 1 to 65535")]
FrameSize = Annotated[int, quantity(SIZE, _FRAME_MIN_OCTETS, _FRAME_MAX_OCTETS)]
OverheadSize = Annotated[int, quantity(SIZE, 0, _FRAME_MAX_OCTETS)]
Dscp = Annotated[int, Leaf(_dscp, {"type": "integer", "minimum": 0, "maximum": _DSCP_MAX})]
End = Annotated[PortRef, Leaf(_end, {"type": "string", "pattern": f"^{_NAME}/{_PORT}$"})]
Gates = Annotated[GateMode, choice(GateMode)]
FiltersInHardware = Annotated[InHardware, choice(InHardware)]
_ETHERTYPES = range(0x600, 0x10000)  # IEEE 802.3-2022 3.2.6: less is the length of a frame
EtherType = Annotated[
    int, Leaf(_ethertype, {"type": "integer", "minimum": min(_ETHERTYPES), "maximum": 0xFFFF})
]
IpVersion = Annotated[int, Leaf(_ip_version, {"enum": [4, 6]})]
Mac = Annotated[str, Leaf(_mac, {"type": "string", "pattern": f"^{_MAC}$"})]
MacRange = Annotated[
    tuple[str, str], Leaf(_mac_range, {"type": "string", "pattern": f"^{_MAC_RANGE}$"})
]
# 0 is the tag without a VLAN, 4095 reserved (802.1Q Table 9-2); 1 is what bridges put all frames
# in that have no tag.
VlanId = Annotated[
    int,
    integer(
        2,
        4094,
        "a VLAN id from 2 to 4094: 0 stands for no VLAN, 1 is the VLAN of untagged frames and 4095 "
        "is reserved",
    ),
]
Boolean = Annotated[bool, Leaf(_boolean, {"type": "boolean"})]
