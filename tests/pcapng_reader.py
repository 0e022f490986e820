"""Reads pcapng files as draft-ietf-opsawg-pcapng has them, to hold the product's own against."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address


@dataclass
class Frame:
    """One enhanced packet block."""

    port: str
    time_ns: int
    octets: bytes
    is_leaving: bool
    comments: list[str]
    length: int  # on the cable, of which `octets` may be the first


@dataclass
class Contents:
    """All that was found in a file."""

    comment: str = ""
    ports: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    frames: list[Frame] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)


def read(octets: bytes) -> Contents:
    """The blocks of a file; every length in it must agree with what is there."""
    found = Contents()
    kinds = []
    for kind, body in _blocks(octets):
        kinds.append(kind)
        if kind == 0x0A0D0D0A:
            magic, major, minor, length = struct.unpack_from("=IHHq", body)
            assert (magic, major, minor, length) == (0x1A2B3C4D, 1, 0, -1)
            found.comment = _options(body[16:])[1][0].decode()
        elif kind == 1:
            options = _options(body[8:])
            assert struct.unpack_from("=HHI", body) == (1, 0, 0)
            assert options[9] == [b"\x09"]
            found.ports.append(options[2][0].decode())
        elif kind == 4:
            found.names |= dict(_names(body))
        elif kind == 5:
            (number,) = struct.unpack_from("=I", body)
            (found.dropped[found.ports[number]],) = struct.unpack("=Q", _options(body[12:])[5][0])
        elif kind == 6:
            found.frames.append(_frame(found, body))
    assert kinds[0] == 0x0A0D0D0A
    return found


def _blocks(octets: bytes) -> Iterator[tuple[int, bytes]]:
    while octets:
        kind, length = struct.unpack_from("=II", octets)
        assert length % 4 == 0
        assert struct.unpack_from("=I", octets, length - 4) == (length,)
        yield kind, octets[8 : length - 4]
        octets = octets[length:]


def _frame(found: Contents, body: bytes) -> Frame:
    number, high, low, captured, length = struct.unpack_from("=IIIII", body)
    assert captured <= length
    options = _options(body[20 + (captured + 3) // 4 * 4 :])
    (flags,) = struct.unpack("=I", options[2][0])
    return Frame(
        port=found.ports[number],
        time_ns=high << 32 | low,
        octets=body[20 : 20 + captured],
        is_leaving=flags & 3 == 2,
        comments=[each.decode() for each in options.get(1, [])],
        length=length,
    )


def _options(octets: bytes) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    while octets:
        code, value, octets = _value(octets)
        if code == 0:
            assert not octets
            return found
        found.setdefault(code, []).append(value)
    return found


def _names(octets: bytes) -> Iterator[tuple[str, str]]:
    while True:
        kind, value, octets = _value(octets)
        if kind == 0:
            return
        length = {1: 4, 2: 16, 3: 6}[kind]
        address, name = value[:length], value[length:]
        assert name.endswith(b"\0")
        text = address.hex(":") if kind == 3 else str(ip_address(address))
        yield text, name[:-1].decode()


def _value(octets: bytes) -> tuple[int, bytes, bytes]:
    kind, length = struct.unpack_from("=HH", octets)
    return kind, octets[4 : 4 + length], octets[4 + (length + 3) // 4 * 4 :]
