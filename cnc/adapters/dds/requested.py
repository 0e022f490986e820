"""A talker of a TSN configuration and its listeners, as a CUC asks for a stream.

DDS-TSN 1.0, 7.3.3 has the transformation; its data model is that of 802.1Qcc but for sizes, which
are those of samples.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from cnc.adapters.dds.elements import (
    Element,
    child,
    needed_number,
    number,
    required,
    text_of,
    where,
)
from cnc.errors import InputError

NS_PER_S = 1_000_000_000
_IP = {"ipv4_tuple": ("ipv4-tuple", 20), "ipv6_tuple": ("ipv6-tuple", 40)}
_UDP_OCTETS = 8
# DDSI-RTPS 2.5: header, INFO_DST, INFO_TS, and DATA without in-line QoS, before the sample.
_RTPS_OCTETS = 20 + 16 + 12 + 24
_UINT8, _UINT16, _UINT32 = (1 << 8) - 1, (1 << 16) - 1, (1 << 32) - 1
# 802.1Q-2022 table 8-6, by the names of the enumeration of DDS-XML.
_SELECTIONS = {
    "STRICT_PRIORITY": 0,
    "CREDIT_BASED_SHAPER": 1,
    "ENHANCED_TRANSMISSION_SELECTION": 2,
    "ATS_TRANSMISSION_SELECTION": 3,
}
# An end that writes MAC addresses and tag itself, as the Ethernet PSM of DDS-TSN does, takes both
# from the plan: 802.1CB-2017 table 9-1, active destination MAC and VLAN.
_WRITES_ITS_FRAMES = {"vlan-tag-capable": True, "cb-stream-iden-type-list": [0x0080C203]}


def stream_id(mac: str, stream_name: str) -> str:
    """The talker's address and 16 bits of the stream's name, which no other stream changes."""
    unique = zlib.crc32(stream_name.encode()) & _UINT16
    return f"{_written(mac)}:{unique >> 8:02X}-{unique & 0xFF:02X}"


def body(
    talker: Element, mac: str, listeners: Sequence[tuple[Element, str]], name: str
) -> dict[str, Any]:
    """The stream by RFC 7951, of a `tsn_talker` on the node with the address `mac` and its
    `tsn_listener`s on theirs. Raises InputError."""
    frames = [*_frames(talker)]
    if not frames:
        raise InputError(
            f"{where(talker)}: no data_frame_specification: switches would not know its frames",
            hint="write ipv4_tuple or ipv6_tuple of RTPS over UDP, vlan_tag of RTPS over Ethernet",
        )
    ethernet = {key for each in frames for key in each if key.startswith("ieee802")}
    capable = {"interface-capabilities": _WRITES_ITS_FRAMES} if ethernet else {}
    ends = [_end(node, its) for its, node in listeners]
    return {
        "stream-id": stream_id(mac, name),
        "talker": {
            **_end(mac, talker),
            **capable,
            "data-frame-specification": [{"index": n, **its} for n, its in enumerate(frames)],
            "traffic-specification": _traffic(talker),
        },
        "listener": [{"index": n, **its, **capable} for n, its in enumerate(ends)],
    }


def _end(mac: str, its: Element) -> dict[str, Any]:
    found: dict[str, Any] = {
        "end-station-interfaces": [{"mac-address": _written(mac), "interface-name": ""}]
    }
    if (wanted := child(its, "network_requirements")) is not None:
        leaves = {
            "num-seamless-trees": number(wanted, "num_seamless_trees", _UINT8),
            "max-latency": number(wanted, "max_latency", _UINT32),
        }
        found["user-to-network-requirements"] = _without_none(leaves)
    return found


def _frames(talker: Element) -> Iterator[dict[str, Any]]:
    """What is known of the frames, an entry for each header."""
    its = child(talker, "data_frame_specification")
    if its is None:
        return
    if (macs := child(its, "mac_addresses")) is not None:
        names = ("destination_mac_address", "source_mac_address")
        found = {n.replace("_", "-"): text_of(macs, n) for n in names}
        yield {"ieee802-mac-addresses": {k: _written(v) for k, v in found.items() if v is not None}}
    if (tag := child(its, "vlan_tag")) is not None:
        known = {
            "priority-code-point": number(tag, "priority_code_point", _UINT8),
            "vlan-id": number(tag, "vlan_id", _UINT16),
        }
        yield {"ieee802-vlan-tag": _without_none(known)}
    for name, (header, _) in _IP.items():
        if (ip := child(its, name)) is not None:
            leaves = {
                "source-ip-address": text_of(ip, "source_ip_address"),
                "destination-ip-address": text_of(ip, "destination_ip_address"),
                "dscp": number(ip, "dscp", _UINT8),
                "protocol": number(ip, "protocol", _UINT16),
                "source-port": number(ip, "source_port", _UINT16),
                "destination-port": number(ip, "destination_port", _UINT16),
            }
            yield {header: _without_none(leaves)}


def _traffic(talker: Element) -> dict[str, Any]:
    its = required(talker, "traffic_specification")
    period = required(its, "periodicity")
    seconds, rest_ns = number(period, "sec", _UINT32), number(period, "nanosec", _UINT32)
    interval = Fraction((seconds or 0) * NS_PER_S + (rest_ns or 0), NS_PER_S)
    selection = text_of(its, "transmission_selection") or "STRICT_PRIORITY"
    if selection not in _SELECTIONS:
        raise InputError(
            f"{where(its)}: transmission_selection {selection[:64]!r}: found none of "
            f"{', '.join(_SELECTIONS)}"
        )
    traffic: dict[str, Any] = {
        "interval": {"numerator": interval.numerator, "denominator": interval.denominator},
        "max-frames-per-interval": needed_number(its, "samples_per_period", _UINT16),
        "max-frame-size": needed_number(its, "max_bytes_per_sample", _UINT16)
        + _RTPS_OCTETS
        + _packet_octets(talker),
        "transmission-selection": _SELECTIONS[selection],
    }
    if (aware := child(its, "time_aware")) is not None:
        names = ("earliest_transmit_offset", "latest_transmit_offset", "jitter")
        leaves = {n.replace("_", "-"): number(aware, n, _UINT32) for n in names}
        traffic["time-aware"] = _without_none(leaves)
    return traffic


def _packet_octets(talker: Element) -> int:
    """The headers between Ethernet and RTPS."""
    its = child(talker, "data_frame_specification")
    for name, (_, octets) in _IP.items():
        if its is not None and child(its, name) is not None:
            return octets + _UDP_OCTETS
    return 0


def _without_none(leaves: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in leaves.items() if value is not None}


def _written(mac: str) -> str:
    """A MAC address as 802.1Q writes it."""
    return mac.replace(":", "-").upper()
