"""What a document says of streams whose talkers send plain untagged frames."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from cnc.keys.keys import Keys, Level
from cnc.keys.mac_addresses import check_extent, reserved_for
from cnc.keys.problems import KeyPath, Problems
from cnc.mechanisms.identification.keys import Ip, StreamKeys
from cnc.model import (
    EndStation,
    Forwarding,
    Identification,
    Intent,
    IpIdentification,
    NextProtocol,
    NullIdentification,
    SourceMacIdentification,
    Stream,
    StreamAddress,
    mac_number,
)
from cnc.support.format import counted

if TYPE_CHECKING:
    from cnc.keys import shape

_BROADCAST_IPV4 = "255.255.255.255"


def _of_stream(stream: Stream, its: shape.Stream, _document: shape.Document) -> Stream:
    known_by = _identification(its[StreamKeys])
    return replace(stream, identification=known_by) if known_by else stream


def _identification(its: StreamKeys) -> Identification | None:
    """By what the first switch knows the frames of a stream; None where its talker tags them, or
    where it is not stated as `_check` wants it."""
    stated = its.identification
    if stated is None:
        return None
    if stated.ip is not None:
        return _ip(stated.ip)
    if stated.source_mac is not None:
        return SourceMacIdentification(stated.source_mac)
    return NullIdentification(stated.destination_mac) if stated.destination_mac else None


def _written(stream: Stream, _document: Mapping[str, Any]) -> Mapping[str, Any]:
    known_by = stream.identification
    if known_by is None:
        return {}
    stated = {
        key.replace("_", "-"): str(its) if isinstance(its, NextProtocol) else its
        for key, its in asdict(known_by).items()
        if its is not None
    }
    is_ip = isinstance(known_by, IpIdentification)
    return {"identification": {"ip": stated} if is_ip else stated}


def _ip(its: Ip) -> IpIdentification:
    return IpIdentification(
        destination=its.destination,
        source=its.source,
        protocol=its.protocol,
        source_port=its.source_port,
        destination_port=its.destination_port,
        dscp=its.dscp,
    )


def _check(document: shape.Document, intent: Intent, problems: Problems) -> None:
    """Add to `problems` what is wrong with untagged streams and with whom they are for."""
    _check_station_macs(intent, problems)
    if intent.network.forwarding is Forwarding.ROUTED:
        problems.refuse_routed(
            (("streams", name, "identification"), "an identification")
            for name, its in document.streams.items()
            if its[StreamKeys].identification is not None
        )
        return
    _check_range(intent, problems)
    by_talker: dict[str, list[Stream]] = defaultdict(list)
    for name, stream in intent.streams.items():
        stated = document.streams[name][StreamKeys].identification
        if stated is None:
            continue
        kinds = [
            key
            for key, value in (
                ("ip", stated.ip),
                ("source-mac", stated.source_mac),
                ("destination-mac", stated.destination_mac),
            )
            if value is not None
        ]
        path = ("streams", name, "identification")
        if len(kinds) != 1:
            found = " and ".join(kinds) or "none of ip, source-mac and destination-mac"
            problems.add(path, found, "one of ip, source-mac and destination-mac")
            continue
        _check_ends(intent, stream, problems)
        _check_marks(stream, problems)
        by_talker[stream.talker].append(stream)
    for streams in by_talker.values():
        _check_told_apart(streams, problems)


def _check_station_macs(intent: Intent, problems: Problems) -> None:
    owners: dict[str, str] = {}
    for name, station in intent.network.end_stations.items():
        if station.mac is None:
            continue
        path = ("end-stations", name, "mac")
        if reason := _no_station(station.mac):
            problems.add(path, f"{station.mac}, {reason}", "the address of its port")
        elif (owner := owners.setdefault(station.mac, name)) != name:
            problems.add(path, f"{station.mac}, which {owner} has", "the address of its port")


def _no_station(mac: str) -> str | None:
    """Why no station has an address; None if one may."""
    if StreamAddress(mac, 0).is_group:
        return "an address of a group"
    return reserved_for(mac)


def _check_ends(intent: Intent, stream: Stream, problems: Problems) -> None:
    """One listener, whose address is known, on one path."""
    path = ("streams", stream.name, "identification")
    why = "a Linux bridge sends an IP packet by several ports only if it has an IP group"
    if len(stream.listeners) > 1:
        found = f"an identification, and {counted(len(stream.listeners), 'listener')}"
        problems.add(path, found, f"one listener: {why}; or a talker that tags its frames")
        return
    if stream.paths > 1:
        found = f"an identification, and {counted(stream.paths, 'path')}"
        problems.add(path, found, f"one path: {why}; or a talker that tags its frames")
    mac = stream.destination_mac
    if mac is not None and StreamAddress(mac, 0).is_group:
        problems.add(
            ("streams", stream.name, "destination-mac"),
            f"{mac}, a group address, for a stream with an identification",
            "an address of one station, or none: the plan assigns one",
        )
    listener = intent.network.end_stations.get(stream.listeners[0])
    if isinstance(listener, EndStation) and listener.mac is None:
        problems.add(
            path,
            f"an identification, and listener {listener.name} without mac",
            f"end-stations.{listener.name}.mac, the address that the last switch gives its frames",
        )


def _check_marks(stream: Stream, problems: Problems) -> None:
    """What frames are known by is something that frames to one station have."""
    path = ("streams", stream.name, "identification")
    match stream.identification:
        case IpIdentification() as ip:
            _check_ip(stream, ip, (*path, "ip"), problems)
        case SourceMacIdentification(mac):
            if reason := _no_station(mac):
                expected = "the address of the talker's port"
                problems.add((*path, "source-mac"), f"{mac}, {reason}", expected)
        case NullIdentification(mac):
            if reason := reserved_for(mac):
                expected = "the address that the talker sends to"
                problems.add((*path, "destination-mac"), f"{mac}, {reason}", expected)


def _check_ip(stream: Stream, ip: IpIdentification, path: KeyPath, problems: Problems) -> None:
    for key, text in (("source", ip.source), ("destination", ip.destination)):
        if text is None:
            continue
        address = ip_address(text)
        if address.version != stream.ip_version:
            found = f"{text}, of IP version {address.version}"
            problems.add((*path, key), found, f"an address of version {stream.ip_version}, its ip")
        elif address.is_multicast or address.is_unspecified or text == _BROADCAST_IPV4:
            problems.add((*path, key), text, "the address of one station")
    if ip.protocol is not NextProtocol.NONE:
        return
    for key, port in (("source-port", ip.source_port), ("destination-port", ip.destination_port)):
        if port is not None:
            found = f"{port}, and the protocol {ip.protocol}"
            problems.add((*path, key), found, "protocol: udp or tcp, or no port")


def _check_told_apart(streams: list[Stream], problems: Problems) -> None:
    """The first switch must know of each frame of a talker which stream it belongs to."""
    for stream, other in _alike(streams):
        problems.add(
            ("streams", stream.name, "identification"),
            f"{stream.identification}, which the first switch cannot tell from stream "
            f"{other.name} of {stream.talker} ({other.identification})",
            "a mark that both state, and state differently",
        )


def _alike(streams: list[Stream]) -> Iterator[tuple[Stream, Stream]]:
    """The streams of which a frame may be one of an earlier stream, and the first such one.

    A frame may be of both if they are known by the same in all that both state. So streams are
    looked up by what they state, among those that state the same kinds of marks: the effort grows
    with their number, and not with that of their pairs.
    """
    marked = [(stream, _marks(stream)) for stream in streams]
    kinds = dict.fromkeys(frozenset(marks) for _, marks in marked)
    # Earlier streams by the kinds they state, and by their values of some of these.
    earlier: dict[tuple[_Kinds, frozenset[tuple[str, object]]], tuple[int, Stream]] = {}
    for number, (stream, marks) in enumerate(marked):
        mine = frozenset(marks)
        shared = [(its, frozenset((kind, marks[kind]) for kind in mine & its)) for its in kinds]
        found = [earlier[key] for key in shared if key in earlier]
        if found:
            yield stream, min(found, key=lambda each: each[0])[1]
        for _, values in shared:
            earlier.setdefault((mine, values), (number, stream))


_Kinds = frozenset[str]


def _marks(stream: Stream) -> dict[str, object]:
    """What frames of a stream are known by, of each kind that is stated."""
    match stream.identification:
        case IpIdentification() as ip:
            marks: dict[str, object] = {
                "version": stream.ip_version,
                "source": ip.source,
                "destination": ip.destination,
                "protocol": None if ip.protocol is NextProtocol.NONE else ip.protocol,
                "source port": ip.source_port,
                "destination port": ip.destination_port,
                "DSCP": ip.dscp,
            }
            return {kind: value for kind, value in marks.items() if value is not None}
        case SourceMacIdentification(mac):
            return {"source MAC": mac}
        case NullIdentification(mac):
            return {"destination MAC": mac}
    return {}


def _check_range(intent: Intent, problems: Problems) -> None:
    """The range of addresses for one station each."""
    its, key = intent.individual, "individual-macs"
    for mac in (its.first_mac, its.last_mac):
        if StreamAddress(mac, 0).is_group:
            written = f"{its.first_mac} - {its.last_mac}"
            expected = f"addresses of one station each, which {mac} is not"
            problems.add(("addresses", key), written, expected)
            return
    check_extent(its, key, "none is for groups", problems)
    for name, station in intent.network.end_stations.items():
        if station.mac is not None and mac_number(station.mac) in its.macs:
            problems.add(
                ("end-stations", name, "mac"),
                f"{station.mac}, which addresses.individual-macs may assign to a stream",
                "an address outside that range",
            )


KEYS = Keys({Level.STREAM: StreamKeys}, of_stream=_of_stream, written=_written, check=_check)
