"""Captures as tests write them: pcap and pcapng, with whatever lengths and times they ask for."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from ipaddress import ip_address

NS_PER_S = 1_000_000_000
ETHERNET, RAW_IP = 1, 101


def ip_packet(
    octets: int = 100, source: str = "10.1.0.1", destination: str = "10.2.0.1", dscp: int = 0
) -> bytes:
    """The header of a packet of so many octets."""
    ends = ip_address(source).packed, ip_address(destination).packed
    if len(ends[0]) == 4:
        return struct.pack("!BBHHHBBH4s4s", 0x45, dscp << 2, octets, 0, 0, 64, 17, 0, *ends)
    return struct.pack("!IHBB16s16s", 6 << 28 | dscp << 22, octets - 40, 17, 64, *ends)


def ethernet(packet: bytes, ethertype: int = 0x0800, tags: Sequence[int] = ()) -> bytes:
    tagged = b"".join(struct.pack("!HH", each, 7) for each in tags)
    return bytes(12) + tagged + struct.pack("!H", ethertype) + packet


def pcap(
    *packets: tuple[int, bytes],
    link_type: int = RAW_IP,
    order: str = "<",
    magic: int = 0xA1B23C4D,
    length: int | None = None,
) -> bytes:
    """A file with packets at instants in ns; `length`: that of each on the cable."""
    octets = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, link_type)
    for at_ns, packet in packets:
        seconds, rest_ns = divmod(at_ns, NS_PER_S)
        rest = rest_ns if magic == 0xA1B23C4D else rest_ns // 1000
        its = len(packet) if length is None else length
        octets += struct.pack(f"{order}IIII", seconds, rest, len(packet), its) + packet
    return octets


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    length = len(body) + 12
    return struct.pack(f"{order}II", kind, length) + body + struct.pack(f"{order}I", length)


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(
    link_type: int = RAW_IP, resolution: int = 9, add_s: int = 0, order: str = "<"
) -> bytes:
    options = struct.pack(f"{order}HHB3x", 9, 1, resolution)
    options += struct.pack(f"{order}HHq", 14, 8, add_s)
    return block(1, struct.pack(f"{order}HHI", link_type, 0, 0) + options, order)


def enhanced(units: int, packet: bytes, number: int = 0, order: str = "<") -> bytes:
    its = number, units >> 32, units & 0xFFFFFFFF, len(packet), len(packet)
    return block(6, struct.pack(f"{order}IIIII", *its) + packet, order)
