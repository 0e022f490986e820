"""What of a captured frame is sent again: how long its packet was, its DSCP and its addresses."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple

from cnc.captures.capture_file import Record, records, refused
from cnc.captures.header import IPV4, IPV6, dscp_of

Address = IPv4Address | IPv6Address

# https://www.tcpdump.org/linktypes.html: octets before the packet, and where the EtherType is in
# them; None: an IP packet follows in any case.
_ETHERNET = 1
_LINK_TYPES: dict[int, tuple[int, int | None]] = {
    0: (4, None),  # BSD loopback
    _ETHERNET: (14, 12),
    12: (0, None),  # raw IP, as BSDs number it
    101: (0, None),  # raw IP
    108: (4, None),  # OpenBSD loopback
    113: (16, 14),  # Linux, all interfaces
    228: (0, None),  # IPv4
    229: (0, None),  # IPv6
    276: (20, 0),  # Linux, all interfaces, version 2
}
_VLAN_ETHERTYPES, _TAG_OCTETS = {0x8100, 0x88A8, 0x9100}, 4
_HEADER_OCTETS = {IPV4: 20, IPV6: 40}
_ETHERTYPE_OF = {4: IPV4, 6: IPV6}  # by version


class Packet(NamedTuple):
    """An IP packet that was captured, or what another frame had behind its header: then it has no
    addresses. `octets` is its length."""

    number: int
    at_ns: int
    octets: int
    dscp: int
    source: Address | None
    destination: Address | None


def packets(file: Path) -> Iterator[Packet]:
    """The packets of a capture, in the order of time.

    Raises:
        InputError: it cannot be read, one of its packets was captured before the one ahead of it,
            of a kind of link that is not known, or without its header; with the packet's number.
    """
    before_ns: int | None = None
    for record in records(file):
        if before_ns is not None and record.at_ns < before_ns:
            refused(
                file,
                record.number,
                f"{before_ns - record.at_ns} ns less than of the packet before it",
                "packets in the order of time",
                "`reordercap FILE SORTED.pcapng` sorts them",
            )
        before_ns = record.at_ns
        yield _packet(file, record)


def _packet(file: Path, record: Record) -> Packet:
    if record.link_type not in _LINK_TYPES:
        refused(
            file,
            record.number,
            f"link type {record.link_type}",
            "Ethernet (1), raw IP (101), Linux cooked (113, 276) or loopback (0, 108)",
            "capture at an interface with Ethernet frames or IP packets",
        )
    begin, place = _LINK_TYPES[record.link_type]
    octets = record.octets
    ethertype = _ethertype_at(octets, place)
    if record.link_type == _ETHERNET:
        while ethertype in _VLAN_ETHERTYPES:
            begin += _TAG_OCTETS
            ethertype = _ethertype_at(octets, begin - 2)
    elif ethertype is None and octets[begin:]:
        ethertype = _ETHERTYPE_OF.get(octets[begin] >> 4)
    if ethertype is None or len(octets) < begin + _HEADER_OCTETS.get(ethertype, 0):
        refused(
            file,
            record.number,
            f"{len(octets)} octets, less than its headers",
            "a capture with whole headers",
            "capture at least 64 octets of each packet (`tcpdump -s 64`)",
        )
    behind = max(record.length - begin, 0)
    packet = octets[begin:]
    dscp = dscp_of(ethertype, packet) or 0
    if ethertype == IPV4:
        (total,) = struct.unpack_from("!H", packet, 2)
        # Nothing stands there of what the sender's card cuts into packets.
        source, destination = ip_address(packet[12:16]), ip_address(packet[16:20])
        return Packet(record.number, record.at_ns, total or behind, dscp, source, destination)
    if ethertype == IPV6:
        (payload,) = struct.unpack_from("!H", packet, 4)
        source, destination = ip_address(packet[8:24]), ip_address(packet[24:40])
        total = payload + _HEADER_OCTETS[IPV6] if payload else behind
        return Packet(record.number, record.at_ns, total, dscp, source, destination)
    return Packet(record.number, record.at_ns, behind, dscp, None, None)


def _ethertype_at(octets: bytes, place: int | None) -> int | None:
    if place is None or len(octets) < place + 2:
        return None
    found: int = struct.unpack_from("!H", octets, place)[0]
    return found
