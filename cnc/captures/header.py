"""What a captured frame says of itself: address, tag and DSCP."""

from __future__ import annotations

from typing import NamedTuple

_MAC_OCTETS = 6
_TAG_OCTETS = 4
_VLAN_ETHERTYPE, IPV4, IPV6 = 0x8100, 0x0800, 0x86DD
_UNTAGGED_OCTETS = 14


class Header(NamedTuple):
    """`vlan_id` and `pcp` are None without a tag, `dscp` without an IP packet."""

    destination_mac: str
    vlan_id: int | None
    pcp: int | None
    dscp: int | None


def header_of(octets: bytes) -> Header | None:
    """The header of an Ethernet frame, of its first octets; None: they are too few for one."""
    if len(octets) < _UNTAGGED_OCTETS:
        return None
    mac = octets[:_MAC_OCTETS].hex(":")
    place = 2 * _MAC_OCTETS
    vlan_id = pcp = None
    if _number(octets, place) == _VLAN_ETHERTYPE:
        tag = _number(octets, place + 2)
        vlan_id, pcp = tag & 0xFFF, tag >> 13
        place += _TAG_OCTETS
    return Header(mac, vlan_id, pcp, dscp_of(_number(octets, place), octets[place + 2 :]))


def dscp_of(ethertype: int, packet: bytes) -> int | None:
    """The DSCP of an IPv4 or IPv6 packet (RFC 2474), of its first octets; None: it is neither, or
    they are too few."""
    if len(packet) > 1:
        if ethertype == IPV4:
            return packet[1] >> 2
        if ethertype == IPV6:
            return _number(packet, 0) >> 6 & 0x3F
    return None


def _number(octets: bytes, place: int) -> int:
    return int.from_bytes(octets[place : place + 2], "big")
