"""Streams as filters of a port, and filters as streams. Pure.

A stream's frames are known by the keys of a filter; the numbers that tie it to the Stream identity
table are in the cookie of its first action.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator, Mapping

from agent.kernel.flower_filters import ANY_PROTOCOL, FlowerFilter, Key
from agent.kernel.frame_actions import Continue, PopVlan, PushVlan, SetDestination, SetPriority
from agent.mac_addresses import octets, text
from agent.mechanisms.identification.model import IP_PROTOCOLS, Incoming, Match, Named, Outgoing

IPV4, IPV6, VLAN = 0x0800, 0x86DD, 0x8100
_COOKIE = struct.Struct("!4sIII")
_INCOMING, _OUTGOING, _NAMED = b"sidI", b"sidO", b"sidN"
# Where the filters are that see a frame once it is translated: those for frames as their talkers
# have sent them, such as the priority of their code points, are passed by.
TRANSLATED_CHAIN = 1
_DSCP_MASK = bytes([0xFC])
_PORTS = {
    "tcp": (Key.TCP_SRC, Key.TCP_SRC_MASK, Key.TCP_DST, Key.TCP_DST_MASK),
    "udp": (Key.UDP_SRC, Key.UDP_SRC_MASK, Key.UDP_DST, Key.UDP_DST_MASK),
    "sctp": (Key.SCTP_SRC, Key.SCTP_SRC_MASK, Key.SCTP_DST, Key.SCTP_DST_MASK),
}


def protocol_of(match: Match) -> int:
    """The Ethertype of the filter: the kernel calls it only for frames of that type."""
    if match.ip_destination is None:
        return ANY_PROTOCOL
    return IPV6 if ":" in match.ip_destination else IPV4


def incoming_filter(stream: Incoming, *, in_switch: bool = False) -> FlowerFilter:
    """`in_switch`: for hardware that forwards, where no other filter follows."""
    return FlowerFilter(
        dict(_keys(stream.match)),
        (
            SetDestination(octets(stream.mac)),
            PushVlan(stream.vlan_id, stream.pcp),
            SetPriority(stream.pcp, None if in_switch else TRANSLATED_CHAIN),
        ),
        _COOKIE.pack(_INCOMING, stream.handle, stream.index, stream.active_index),
    )


def outgoing_filter(stream: Outgoing) -> FlowerFilter:
    return FlowerFilter(
        _address_keys(stream),
        (PopVlan(), SetDestination(octets(stream.restored_mac))),
        _COOKIE.pack(_OUTGOING, stream.handle, stream.index, 0),
    )


def named_filter(stream: Named) -> FlowerFilter:
    cookie = _COOKIE.pack(_NAMED, stream.handle, stream.index, stream.is_out_facing)
    return FlowerFilter(_address_keys(stream), (Continue(),), cookie)


def _address_keys(stream: Outgoing | Named) -> dict[Key, bytes]:
    return {
        Key.ETH_DST: octets(stream.mac),
        Key.ETH_DST_MASK: b"\xff" * 6,
        Key.VLAN_ID: struct.pack("=H", stream.vlan_id),
    }


def ingress_stream(found: FlowerFilter, *, in_switch: bool = False) -> Incoming | Named | None:
    """The stream of a filter at the ingress; None where the filter is none of ours."""
    return named_stream(found) or incoming_stream(found, in_switch=in_switch)


def incoming_stream(found: FlowerFilter, *, in_switch: bool = False) -> Incoming | None:
    """The stream of a filter; None where the filter is none of `incoming_filter`."""
    cookie = _numbers(found.cookie)
    match found.actions:
        case (SetDestination(mac), PushVlan(vlan_id, pcp), SetPriority()) if cookie:
            stream = Incoming(*cookie, _match(found.keys), text(mac), vlan_id, pcp)
            return stream if incoming_filter(stream, in_switch=in_switch) == found else None
    return None


def named_stream(found: FlowerFilter) -> Named | None:
    """The stream of a filter; None where the filter is none of `named_filter`."""
    cookie = _numbers(found.cookie)
    if cookie is None or Key.ETH_DST not in found.keys or Key.VLAN_ID not in found.keys:
        return None
    handle, index, is_out_facing = cookie
    stream = Named(handle, index, *_address(found.keys), is_out_facing=bool(is_out_facing))
    return stream if named_filter(stream) == found else None


def outgoing_stream(found: FlowerFilter) -> Outgoing | None:
    """The stream of a filter; None where the filter is none of `outgoing_filter`."""
    cookie = _numbers(found.cookie)
    if cookie is None or Key.ETH_DST not in found.keys or Key.VLAN_ID not in found.keys:
        return None
    match found.actions:
        case (PopVlan(), SetDestination(restored)):
            stream = Outgoing(cookie[0], cookie[1], *_address(found.keys), text(restored))
            return stream if outgoing_filter(stream) == found else None
    return None


def _address(keys: Mapping[Key, bytes]) -> tuple[str, int]:
    (vlan_id,) = struct.unpack("=H", keys[Key.VLAN_ID])
    return text(keys[Key.ETH_DST]), vlan_id


def _numbers(cookie: bytes) -> tuple[int, int, int] | None:
    if len(cookie) != _COOKIE.size:
        return None
    _kind, handle, index, active_index = _COOKIE.unpack(cookie)
    return handle, index, active_index


def _keys(match: Match) -> Iterator[tuple[Key, bytes]]:
    protocol = protocol_of(match)
    if protocol == ANY_PROTOCOL:
        # The filter of an Ethertype does not see frames with a VLAN tag, that of any does.
        yield Key.NUM_OF_VLANS, bytes([0])
    addresses = (
        (match.destination_mac, Key.ETH_DST, Key.ETH_DST_MASK),
        (match.source_mac, Key.ETH_SRC, Key.ETH_SRC_MASK),
    )
    for mac, key, mask in addresses:
        if mac:
            yield from ((key, octets(mac)), (mask, b"\xff" * 6))
    for address, ipv4, ipv6 in (
        (match.ip_source, (Key.IPV4_SRC, Key.IPV4_SRC_MASK), (Key.IPV6_SRC, Key.IPV6_SRC_MASK)),
        (
            match.ip_destination,
            (Key.IPV4_DST, Key.IPV4_DST_MASK),
            (Key.IPV6_DST, Key.IPV6_DST_MASK),
        ),
    ):
        if address:
            packed = ipaddress.ip_address(address).packed
            key, mask = ipv4 if protocol == IPV4 else ipv6
            yield from ((key, packed), (mask, b"\xff" * len(packed)))
    if match.dscp is not None:
        yield from ((Key.IP_TOS, bytes([match.dscp << 2])), (Key.IP_TOS_MASK, _DSCP_MASK))
    if match.protocol:
        yield Key.IP_PROTO, bytes([IP_PROTOCOLS[match.protocol]])
        source, source_mask, destination, destination_mask = _PORTS[match.protocol]
        for port, key, mask in (
            (match.source_port, source, source_mask),
            (match.destination_port, destination, destination_mask),
        ):
            if port:
                yield from ((key, struct.pack("!H", port)), (mask, b"\xff\xff"))


def _match(keys: Mapping[Key, bytes]) -> Match:
    """What a filter looks at, as far as a stream can be known by it."""
    protocols = {bytes([number]): name for name, number in IP_PROTOCOLS.items()}
    protocol = protocols.get(keys.get(Key.IP_PROTO, b""))
    source, _mask, destination, _mask = _PORTS[protocol or "udp"]
    tos = keys.get(Key.IP_TOS)
    return Match(
        destination_mac=_mac(keys.get(Key.ETH_DST)),
        source_mac=_mac(keys.get(Key.ETH_SRC)),
        ip_source=_ip(keys, Key.IPV4_SRC, Key.IPV6_SRC),
        ip_destination=_ip(keys, Key.IPV4_DST, Key.IPV6_DST),
        dscp=None if tos is None else tos[0] >> 2,
        protocol=protocol,
        source_port=_port(keys.get(source)),
        destination_port=_port(keys.get(destination)),
    )


def _mac(value: bytes | None) -> str | None:
    return None if value is None else text(value)


def _ip(keys: Mapping[Key, bytes], *candidates: Key) -> str | None:
    packed = next((keys[each] for each in candidates if each in keys), None)
    return None if packed is None else str(ipaddress.ip_address(packed))


def _port(value: bytes | None) -> int | None:
    return None if value is None else int.from_bytes(value)
