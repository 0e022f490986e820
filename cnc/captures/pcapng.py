"""Captures as pcapng files, with time stamps in nanoseconds and the names of nodes.

Format: draft-ietf-opsawg-pcapng, by the section numbers of its version 04.
"""

from __future__ import annotations

import enum
import struct
import time
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import BinaryIO

from cnc.model import NS_PER_S

LINKTYPE_ETHERNET = 1
_SECTION_HEADER, _INTERFACE = 0x0A0D0D0A, 1  # 4.1, 4.2
_NAME_RESOLUTION, _STATISTICS, _ENHANCED_PACKET = 4, 5, 6  # 4.5, 4.6, 4.3
_BYTE_ORDER_MAGIC, _VERSION = 0x1A2B3C4D, (1, 0)
_LENGTH_UNKNOWN = -1
_END, _COMMENT = 0, 1  # of options (3.5)
_SYSTEM, _APPLICATION = 3, 4
_IF_NAME, _IF_DESCRIPTION, _IF_MAC, _IF_TIME_RESOLUTION = 2, 3, 6, 9
_NANOSECONDS = 9  # as an exponent of ten
_EPB_FLAGS = 2
_ISB_RECEIVED, _ISB_DROPPED = 4, 5
_RECORD_END, _RECORD_IPV4, _RECORD_IPV6, _RECORD_EUI48 = 0, 1, 2, 3

Address = IPv4Address | IPv6Address | str


class Direction(enum.IntEnum):
    """Bits 0 and 1 of a packet's flags (section 4.3.1)."""

    UNKNOWN = 0
    INBOUND = 1
    OUTBOUND = 2


class CaptureFile:
    """A section of a pcapng file, written block by block; each block is whole once it is written.

    `file` is written to, and not closed. Every method raises what its `write` does.
    """

    def __init__(self, file: BinaryIO, *, application: str, system: str, comment: str) -> None:
        self._file = file
        self._interfaces = 0
        body = struct.pack("=IHHq", _BYTE_ORDER_MAGIC, *_VERSION, _LENGTH_UNKNOWN)
        options = {
            _COMMENT: comment.encode(),
            _SYSTEM: system.encode(),
            _APPLICATION: application.encode(),
        }
        self._write(_SECTION_HEADER, body + _options(options.items()))

    def add_interface(self, name: str, description: str, *, mac: str | None = None) -> int:
        """Describe an Ethernet port; returns the number by which frames name it."""
        options = [
            (_IF_NAME, name.encode()),
            (_IF_DESCRIPTION, description.encode()),
            *([(_IF_MAC, _mac(mac))] if mac else []),
            (_IF_TIME_RESOLUTION, bytes([_NANOSECONDS])),
        ]
        self._write(_INTERFACE, struct.pack("=HHI", LINKTYPE_ETHERNET, 0, 0) + _options(options))
        self._interfaces += 1
        return self._interfaces - 1

    def add_names(self, names: Mapping[Address, str]) -> None:
        """Name addresses: IPv4, IPv6, or a MAC address as text."""
        records = b""
        for address, name in names.items():
            kind, packed = _record(address)
            records += _padded(kind, packed + name.encode() + b"\0")
        self._write(_NAME_RESOLUTION, records + struct.pack("=HH", _RECORD_END, 0))

    def add_frame(
        self,
        interface: int,
        time_ns: int,
        octets: bytes,
        direction: Direction,
        comments: Iterable[str] = (),
        *,
        length_octets: int | None = None,
    ) -> None:
        """An Ethernet frame without FCS; the time is in ns since 1970 (UTC). Without a length
        `octets` are all of it."""
        high, low = divmod(time_ns, 1 << 32)
        whole_octets = len(octets) if length_octets is None else length_octets
        head = struct.pack("=IIIII", interface, high, low, len(octets), whole_octets)
        options = [(_COMMENT, comment.encode()) for comment in comments]
        options.append((_EPB_FLAGS, struct.pack("=I", direction)))
        self._write(_ENHANCED_PACKET, head + _aligned(octets) + _options(options))

    def add_statistics(self, interface: int, *, received: int, dropped: int) -> None:
        """How many frames a port had, and how many of them are missing here."""
        high, low = divmod(time.time_ns(), 1 << 32)
        head = struct.pack("=III", interface, high, low)
        counts = {
            _ISB_RECEIVED: struct.pack("=Q", received),
            _ISB_DROPPED: struct.pack("=Q", dropped),
        }
        self._write(_STATISTICS, head + _options(counts.items()))

    def _write(self, kind: int, body: bytes) -> None:
        length = struct.pack("=I", len(body) + 12)
        self._file.write(struct.pack("=I", kind) + length + body + length)


def tai_comment() -> str:
    """What a section says of its clock: time stamps are UTC, schedules TAI."""
    offset_s = round((time.clock_gettime_ns(time.CLOCK_TAI) - time.time_ns()) / NS_PER_S)
    return f"time stamps: CLOCK_REALTIME; CLOCK_TAI, the clock of gates, is {offset_s} s ahead"


def _options(options: Iterable[tuple[int, bytes]]) -> bytes:
    """With the end of the options (section 3.5)."""
    return b"".join(_padded(code, value) for code, value in options) + struct.pack("=HH", _END, 0)


def _padded(code: int, value: bytes) -> bytes:
    return struct.pack("=HH", code, len(value)) + _aligned(value)


def _aligned(octets: bytes) -> bytes:
    return octets + bytes(-len(octets) % 4)


def _record(address: Address) -> tuple[int, bytes]:
    if isinstance(address, str):
        return _RECORD_EUI48, _mac(address)
    kind = _RECORD_IPV4 if isinstance(address, IPv4Address) else _RECORD_IPV6
    return kind, address.packed


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))
