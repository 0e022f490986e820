"""The packets of a capture: pcap, and pcapng (draft-ietf-opsawg-pcapng), compressed by gzip or not.

Times are whole nanoseconds as far as the file has them, and lengths those on the cable, of which a
file may have the first octets only.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, NoReturn

from cnc.errors import InputError
from cnc.keys.problems import shown
from cnc.model import NS_PER_S

# By the first four octets as they are in the file: byte order, nanoseconds in a unit of time.
_PCAP = {
    b"\xa1\xb2\xc3\xd4": (">", 1_000),
    b"\xd4\xc3\xb2\xa1": ("<", 1_000),
    b"\xa1\xb2\x3c\x4d": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
}
_PCAPNG, _GZIP = b"\x0a\x0d\x0d\x0a", b"\x1f\x8b"
_BYTE_ORDERS = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
_ENDIAN: Mapping[str, Literal["big", "little"]] = {">": "big", "<": "little"}
_SECTION, _INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET = 0x0A0D0D0A, 1, 2, 3, 6
_END_OF_OPTIONS, _COMMENT = 0, 1
_NAME, _RESOLUTION, _OFFSET = 2, 9, 14  # of an interface
_FLAGS = 2  # of a packet
_INBOUND, _OUTBOUND = 1, 2
_POWER_OF_TWO = 0x80
_PCAP_LINK_TYPE = 0xFFFF  # above it, how long the frame check sequence is
_CAPTURED_MAX_OCTETS = 262_144  # pcap/pcap.h: MAXIMUM_SNAPLEN
_BLOCK_MAX_OCTETS = 16 << 20
_BLOCK_LEAST_OCTETS = 12


class Record(NamedTuple):
    """A packet as it was captured; `number` counts from 1, as in Wireshark.

    `length` is that on the cable, `octets` are what the file has of it from `link_type`'s header
    on. A pcapng file may name the interface, and say whether the packet was sent by it: None where
    it does not. `comment` is that of the section.
    """

    number: int
    at_ns: int
    link_type: int
    length: int
    octets: bytes
    interface: str | None = None
    is_sent: bool | None = None
    comment: str | None = None


def refused(
    file: Path, number: int, found: str, expected: str, hint: str | None = None
) -> NoReturn:
    """Raise InputError about a packet of a capture."""
    raise InputError(f"{file}: packet {number}: found {found}, expected {expected}", hint=hint)


def records(file: Path) -> Iterator[Record]:
    """The packets of a file, in its order.

    Raises:
        InputError: it cannot be read, is no capture, ends within a packet, or has one without a
            time; with the number of the packet.
    """
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(file.open("rb"))
            begin = opened.read(len(_GZIP))
            opened.seek(0)
            octets = gzip.GzipFile(fileobj=opened) if begin == _GZIP else opened
            yield from _records(file, _Octets(file, octets))
        except (OSError, EOFError, zlib.error) as error:
            what = getattr(error, "strerror", None) or str(error)
            raise InputError(f"{file}: cannot be read: {what}") from None


@dataclass
class _Octets:
    """A capture from where it was read to; `number` is that of the packet that comes next."""

    file: Path
    opened: BinaryIO | gzip.GzipFile
    number: int = 1

    def take(self, octets: int) -> bytes:
        found = self.opened.read(octets)
        if len(found) < octets:
            lacking = octets - len(found)
            refused(
                self.file,
                self.number,
                "the end of the file within it",
                f"{lacking} octets more",
                "the file was cut off: copy it again, or leave the last packet out "
                f"(`editcap -r {self.file} REPAIRED.pcap 1-{max(1, self.number - 1)}`)",
            )
        return found

    def begin(self, octets: int) -> bytes:
        """As `take`, or nothing at the end of the file."""
        found = self.opened.read(1)
        return found + self.take(octets - 1) if found else b""


def _records(file: Path, octets: _Octets) -> Iterator[Record]:
    magic = octets.opened.read(4)
    if magic in _PCAP:
        return _pcap(octets, *_PCAP[magic])
    if magic == _PCAPNG:
        return _pcapng(octets)
    raise InputError(
        f"{file}: found no capture, its first octets are {shown(magic.hex(' '))}, expected pcap or "
        "pcapng",
        hint="`editcap FILE CAPTURE.pcap` converts other formats",
    )


def _pcap(octets: _Octets, order: str, unit_ns: int) -> Iterator[Record]:
    *_, link_type = struct.unpack(f"{order}HHiIII", octets.take(20))
    header = struct.Struct(f"{order}IIII")
    while found := octets.begin(header.size):
        seconds, parts, captured, length = header.unpack(found)
        _check_length(octets, captured)
        at_ns = seconds * NS_PER_S + parts * unit_ns
        yield Record(
            octets.number, at_ns, link_type & _PCAP_LINK_TYPE, length, octets.take(captured)
        )
        octets.number += 1


def _check_length(octets: _Octets, captured: int) -> None:
    if captured > _CAPTURED_MAX_OCTETS:
        refused(
            octets.file,
            octets.number,
            f"{captured} captured octets",
            f"{_CAPTURED_MAX_OCTETS} or less: the file is damaged",
        )


# --- pcapng -------------------------------------------------------------------------------------


@dataclass
class _Section:
    """The byte order of a section, its comment, and its interfaces."""

    order: str
    comment: str | None
    interfaces: list[_Interface] = field(default_factory=list)


class _Interface(NamedTuple):
    """`units_in_s` units of time are a second, and `add_s` seconds are added to times."""

    link_type: int
    name: str | None
    units_in_s: int
    add_s: int


def _pcapng(octets: _Octets) -> Iterator[Record]:
    # The first block's type has been read.
    section = _begin_section(octets)
    while found := octets.begin(8):
        (kind,) = struct.unpack_from(f"{section.order}I", found)
        if kind == _SECTION:
            section = _begin_section(octets, found[4:])
            continue
        (length,) = struct.unpack_from(f"{section.order}I", found, 4)
        body = _body(octets, length, 8)
        if kind == _INTERFACE:
            section.interfaces.append(_interface(section.order, body))
        elif kind in (_OLD_PACKET, _SIMPLE_PACKET):
            refused(
                octets.file,
                octets.number,
                f"a packet block of type {kind}",
                f"one of type {_PACKET}, which has a time",
                "`editcap FILE CAPTURE.pcap` converts it",
            )
        elif kind == _PACKET:
            yield _packet(octets, section, body)
            octets.number += 1


def _body(octets: _Octets, length: int, begun: int) -> bytes:
    """What a block has behind its first octets; the last four repeat its length."""
    if not _BLOCK_LEAST_OCTETS <= length <= _BLOCK_MAX_OCTETS or length % 4:
        refused(
            octets.file,
            octets.number,
            f"before it a block of {length} octets",
            f"a multiple of 4 from {_BLOCK_LEAST_OCTETS} to {_BLOCK_MAX_OCTETS}: the file is "
            "damaged",
        )
    return octets.take(length - begun)[:-4]


def _begin_section(octets: _Octets, begun: bytes = b"") -> _Section:
    length = begun or octets.take(4)
    magic = octets.take(4)
    if magic not in _BYTE_ORDERS:
        refused(octets.file, octets.number, "before it a section without a byte order", "a section")
    order = _BYTE_ORDERS[magic]
    body = _body(octets, struct.unpack(f"{order}I", length)[0], 12)
    return _Section(order, _text(_options(order, body[12:]).get(_COMMENT)))


def _interface(order: str, body: bytes) -> _Interface:
    (link_type,) = struct.unpack_from(f"{order}H", body)
    options = _options(order, body[8:])
    units_in_s, add_s = 1_000_000, 0
    if len(resolution := options.get(_RESOLUTION, b"")) == 1:
        exponent = resolution[0] & ~_POWER_OF_TWO
        units_in_s = (2 if resolution[0] & _POWER_OF_TWO else 10) ** exponent
    if len(offset := options.get(_OFFSET, b"")) == 8:  # noqa: PLR2004
        (add_s,) = struct.unpack(f"{order}q", offset)
    return _Interface(link_type, _text(options.get(_NAME)), units_in_s, add_s)


def _options(order: str, octets: bytes) -> dict[int, bytes]:
    """The options of a block by their codes; of several with one code the last."""
    found, place = {}, 0
    while place + 4 <= len(octets):
        code, length = struct.unpack_from(f"{order}HH", octets, place)
        if code == _END_OF_OPTIONS:
            break
        found[code] = octets[place + 4 : place + 4 + length]
        place += 4 + (length + 3) // 4 * 4
    return found


def _text(octets: bytes | None) -> str | None:
    return None if octets is None else octets.decode(errors="replace")


def _packet(octets: _Octets, section: _Section, body: bytes) -> Record:
    if len(body) < 20:  # noqa: PLR2004
        refused(octets.file, octets.number, f"a block of {len(body)} octets", "20 or more")
    number, high, low, captured, length = struct.unpack_from(f"{section.order}IIIII", body)
    if number >= len(section.interfaces):
        refused(
            octets.file,
            octets.number,
            f"interface {number}",
            f"one of the {len(section.interfaces)} that the file describes before it",
        )
    if captured > len(body) - 20:
        refused(
            octets.file,
            octets.number,
            f"{captured} captured octets in a block with room for {len(body) - 20}",
            "as many as it holds: the file is damaged",
        )
    link_type, name, units_in_s, add_s = section.interfaces[number]
    at_ns = (high << 32 | low) * NS_PER_S // units_in_s + add_s * NS_PER_S
    options = _options(section.order, body[20 + (captured + 3) // 4 * 4 :])
    direction = int.from_bytes(options.get(_FLAGS, b""), _ENDIAN[section.order]) & 3
    is_sent = {_INBOUND: False, _OUTBOUND: True}.get(direction)
    its = body[20 : 20 + captured]
    return Record(octets.number, at_ns, link_type, length, its, name, is_sent, section.comment)
