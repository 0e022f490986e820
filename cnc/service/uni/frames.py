"""By what the frames of a stream are known: data-frame-specification in keys of the intent.

A bridged network knows frames by destination address and VLAN. A talker whose frames have both
sends them so. One that transforms them itself, as every listener does back, is told what the plan
assigns. For all others the first switch gives frames their address and tag, and the last one takes
these away again (`identification`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from cnc.keys.mac_addresses import reserved_for
from cnc.model import Forwarding, Intent, StreamAddress, TrafficClass
from cnc.service.uni.asked import Asked
from cnc.service.uni.refused import Failure, Refused

MAC, TAG = "ieee802-mac-addresses", "ieee802-vlan-tag"
IP_VERSIONS = {"ipv4-tuple": 4, "ipv6-tuple": 6}
# 802.1CB-2017 table 9-1: active destination MAC and VLAN stream identification, OUI 00-80-C2.
_ACTIVE = 0x0080C203
_VLANS = range(2, 4095)
_NO_VLAN = 0
_ANY_DSCP, _ANY_PROTOCOL = 64, 0xFFFF  # 802.1Q-2022 46.2.3.4.3: values that are ignored
_PROTOCOLS = {6: "tcp", 17: "udp"}

_Classes = tuple[TrafficClass, ...]


@dataclass(frozen=True, slots=True)
class Frames:
    """The keys that say by what frames are known, their IP version, the classes that they may have,
    and whether the network transforms them."""

    keys: Mapping[str, Any]
    ip_version: int | None
    classes: _Classes

    @property
    def untagged(self) -> bool:
        return "identification" in self.keys


def frames_of(asked: Asked, intent: Intent) -> Frames:
    """Raises Refused."""
    ip = next((header for header in IP_VERSIONS if header in asked.fields), None)
    if ip and len(IP_VERSIONS.keys() & asked.fields.keys()) > 1:
        raise _unknown("packets of IPv4 and of IPv6", "write one of the two")
    dscp = _dscp(asked.fields[ip]) if ip else None
    classes = _classes(asked, intent)
    version = IP_VERSIONS[ip] if ip else None
    if intent.network.forwarding is Forwarding.ROUTED:
        return _routed(asked, version, dscp, classes)
    tag = asked.fields.get(TAG)
    pcp = tag.get("priority-code-point") if tag else None
    classes = _with_priority(pcp, classes)
    keys: dict[str, Any] = {}
    _check_source(asked)
    destination = asked.fields.get(MAC, {}).get("destination-mac-address")
    mac = _destination(destination, asked) if destination else None
    vlan = tag.get("vlan-id", _NO_VLAN) if tag else _NO_VLAN
    if vlan != _NO_VLAN and vlan not in _VLANS:
        raise Refused(
            Failure.VLAN,
            f"vlan-id {vlan}: 1 is the VLAN of untagged frames, and 4095 is reserved",
            "write a VLAN from 2 to 4094, or none",
        )
    if not (mac and vlan and pcp is not None) and not _is_told(asked, needs_mac=not mac):
        if tag is not None:
            missing = _missing(mac, vlan, pcp)
            raise Refused(
                Failure.NO_TRANSFORMATION,
                f"frames with a VLAN tag and no {missing}, which the talker and all listeners "
                "would have to take from the plan",
                f"write the {missing} that the frames have; or vlan-tag-capable true at every end "
                f"and, for an address, {_ACTIVE} in its cb-stream-iden-type-list",
            )
        return Frames(_identified(asked, ip, dscp, mac), version, classes)
    if mac:
        keys["destination-mac"] = mac
    if vlan:
        keys["vlan"] = vlan
    if pcp is not None:
        keys["pcp"] = pcp
    return Frames(keys, version, classes)


def _classes(asked: Asked, intent: Intent) -> _Classes:
    """Those for streams whose talkers send as this one does."""
    if asked.is_scheduled:
        return tuple(intent.planned_classes())
    if found := intent.classes_without_instants():
        return tuple(found)
    raise Refused(
        Failure.FEATURE,
        "time-aware is absent: the talker would send at any time, and the classes of this "
        "network open their gates for planned frames only",
        "write traffic-specification/time-aware, and let the talker send at the "
        "time-aware-offset that it gets; or `shaping` of a class in the intent",
    )


def _routed(asked: Asked, version: int | None, dscp: int | None, classes: _Classes) -> Frames:
    if version is None or asked.fields.keys() - IP_VERSIONS.keys():
        raise _unknown(
            "MAC addresses or a VLAN tag, and switches that forward by IP address",
            "write an IP packet alone, or `forwarding: bridged` in the intent",
        )
    if dscp is None:
        return Frames({}, version, classes)
    found = tuple(each for each in classes if dscp in each.dscps)
    if not found:
        raise _no_class(f"dscp {dscp}", "the DSCP", classes)
    return Frames({}, version, found)


def _with_priority(pcp: int | None, classes: _Classes) -> _Classes:
    found = tuple(each for each in classes if pcp is None or each.priority == pcp)
    if not found:
        raise _no_class(f"priority-code-point {pcp}", "the priority", classes)
    return found


def _no_class(found: str, what: str, classes: _Classes) -> Refused:
    theirs = ", ".join(
        f"{each.name} ({each.priority}, DSCP {' '.join(map(str, each.dscps)) or 'none'})"
        for each in classes
    )
    return Refused(
        Failure.PRIORITY,
        f"{found}: no class for such streams has it: with time-aware those with gates for planned "
        "frames, else those with `shaping`",
        f"write {what} of one of these classes, or leave the leaf out: {theirs or 'there is none'}",
    )


def _is_told(asked: Asked, *, needs_mac: bool) -> bool:
    """Whether every end takes from the plan what its frames do not have."""
    return all(
        each.tags and (not needs_mac or _ACTIVE in each.identifications)
        for each in (asked.talker, *asked.listeners)
    )


def _missing(mac: str | None, vlan: int, pcp: int | None) -> str:
    if not mac:
        return "destination-mac-address"
    return "priority-code-point" if vlan and pcp is None else "vlan-id"


def _check_source(asked: Asked) -> None:
    source = asked.fields.get(MAC, {}).get("source-mac-address")
    if source and _mac(source) not in {each.mac for each in asked.talker.interfaces}:
        raise _unknown(
            f"source-mac-address {source}, which no interface of the talker has",
            "write that of the interface it sends by, or leave the leaf out",
        )


def _destination(written: str, asked: Asked) -> str:
    mac = _mac(written)
    if reason := reserved_for(mac):
        raise Refused(
            Failure.OTHER_DESTINATION,
            f"destination-mac-address {written}, {reason}",
            "write another address",
        )
    several = "several listeners" if len(asked.listeners) > 1 else "two trees"
    if (len(asked.listeners) > 1 or asked.trees > 1) and not StreamAddress(mac, 0).is_group:
        raise Refused(
            Failure.OTHER_DESTINATION,
            f"destination-mac-address {written} of one station, and {several}",
            "write an address of a group",
        )
    return mac


def _identified(
    asked: Asked, ip: str | None, dscp: int | None, mac: str | None
) -> Mapping[str, Any]:
    """By what the first switch knows untagged frames."""
    if not asked.is_scheduled:
        raise Refused(
            Failure.NO_TRANSFORMATION,
            "untagged frames without time-aware: no switch tags those that may come at any time",
            "let the talker tag them: write the ieee802-vlan-tag; or vlan-tag-capable true at "
            f"every end and, for an address, {_ACTIVE} in its cb-stream-iden-type-list",
        )
    if len(asked.listeners) > 1 or asked.trees > 1:
        raise Refused(
            Failure.NO_TRANSFORMATION,
            "untagged frames for several listeners or over two trees, which a bridge does not copy",
            "let the talker tag them: write the ieee802-vlan-tag and the address of a group; or "
            "one stream for each listener",
        )
    if ip and mac:
        raise _unknown(
            "untagged IP packets with a destination-mac-address",
            "write the IP packet alone: switches look at one header",
        )
    if ip:
        return {"identification": {"ip": _ip_marks(asked.fields[ip], dscp)}}
    if mac:
        return {"identification": {"destination-mac": mac}}
    source = asked.fields.get(MAC, {}).get("source-mac-address")
    if source is None:
        raise _unknown(
            "untagged frames without an address",
            "write their MAC addresses, or of IP packets the destination-ip-address",
        )
    return {"identification": {"source-mac": _mac(source)}}


def _ip_marks(its: Mapping[str, Any], dscp: int | None) -> dict[str, Any]:
    destination, source = its.get("destination-ip-address"), its.get("source-ip-address")
    if destination is None:
        raise _unknown(
            "untagged IP packets without destination-ip-address", "write it: that of the listener"
        )
    marks: dict[str, Any] = {"destination": _station_ip(destination)}
    if source is not None:
        marks["source"] = _station_ip(source)
    if dscp is not None:
        marks["dscp"] = dscp
    number = its.get("protocol", _ANY_PROTOCOL)
    ports = {
        key: its[leaf]
        for key, leaf in (("source-port", "source-port"), ("destination-port", "destination-port"))
        if leaf in its
    }
    if number in _PROTOCOLS:
        if 0 in ports.values():
            raise _unknown("port 0", "write a port, or leave the leaf out")
        return {**marks, "protocol": _PROTOCOLS[number], **ports}
    if number != _ANY_PROTOCOL:
        raise _unknown(f"protocol {number}", "write 6 (TCP), 17 (UDP) or 65535 (any)")
    if ports and "protocol" not in its:
        raise _unknown("ports without a protocol", "write protocol 6 (TCP) or 17 (UDP)")
    return marks


def _station_ip(written: str) -> str:
    try:
        its = ip_address(written)
    except ValueError:
        raise _unknown(f"{written}, which is no IP address", "write one") from None
    if "%" in written or its.is_multicast or its.is_unspecified or written == "255.255.255.255":
        raise _unknown(
            f"{written} in packets that the talker does not tag",
            "write the address of one station, without a zone",
        )
    return str(its)


def _dscp(its: Mapping[str, Any]) -> int | None:
    dscp: int = its.get("dscp", _ANY_DSCP)
    if dscp > _ANY_DSCP:
        raise _unknown(f"dscp {dscp}", f"write 0 to 63, or {_ANY_DSCP} for any")
    return None if dscp == _ANY_DSCP else dscp


def _unknown(found: str, hint: str) -> Refused:
    return Refused(Failure.IDENTIFICATION, f"data-frame-specification: {found}", hint)


def _mac(written: str) -> str:
    return written.replace("-", ":").lower()
