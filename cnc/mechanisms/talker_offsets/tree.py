"""The offsets of an end station's talkers: from a plan to its configuration, and read back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.reply import Element, Reply
from cnc.data_tree.tree import END_STATION, INTERFACES, NETCONF, Launches, TalkerReport
from cnc.data_tree.wake_ups import wake_ups
from cnc.mechanism import PlaceEdit
from cnc.model import (
    Plan,
    PortRef,
    StreamAddress,
    TalkerStream,
    TalkerStreams,
    TalkerTable,
)
from cnc.model.transmissions import Transmission, transmissions

_ES = ElementMaker(namespace=END_STATION, nsmap={None: END_STATION})
_NAMESPACES = {"e": END_STATION, "if": INTERFACES}
_LEAVES = reply.Leaves(END_STATION)
_INTERFACES = reply.Leaves(INTERFACES)
_REPLACE = {f"{{{NETCONF}}}operation": "replace"}


def derive(plan: Plan, nodes: Collection[str]) -> dict[PortRef, TalkerStreams]:
    """What each cabled port of an end station is told; no stream where none leaves by it."""
    network = plan.intent.network
    told: dict[PortRef, list[TalkerStream]] = {
        port: []
        for port in network.links
        if port.node in nodes and port.node in network.end_stations
    }
    for sent in transmissions(plan):
        if (streams := told.get(PortRef(sent.talker, sent.interface))) is not None:
            streams.append(_stream(sent))
    return {port: _of_streams(streams) for port, streams in told.items()}


def _of_streams(streams: Iterable[TalkerStream]) -> TalkerStreams:
    """In one order: that of the list in a datastore has no meaning."""
    return TalkerStreams(tuple(sorted(streams, key=lambda each: (each.name, each.path))))


def _stream(sent: Transmission) -> TalkerStream:
    return TalkerStream(
        name=sent.stream,
        path=sent.path,
        period_ns=sent.period_ns,
        offset_ns=sent.offset_ns,
        payload_octets=sent.payload_octets,
        priority=sent.priority,
        dscp=min(sent.dscps, default=None),
        listeners=sent.listeners,
        address=sent.address,
        frames=sent.frames,
    )


def edit(parts: Mapping[str, TalkerStreams], its: PlaceEdit) -> list[Element]:
    """Tells the talkers of ports, in their interfaces; there is nothing beside."""
    for name, desired in parts.items():
        its.interfaces.of(name).append(talker_element(desired, its.base_time_ns))
    return []


def talker_element(desired: TalkerStreams, base_time_ns: int) -> Element:
    """The `<talker>` of a port, which replaces the one that is there."""
    return _ES(
        "talker",
        _REPLACE,
        _ES("base-time-ns", str(base_time_ns)),
        *map(_stream_element, desired.streams),
    )


def _stream_element(stream: TalkerStream) -> Element:
    return _ES(
        "stream",
        _ES("name", stream.name),
        _ES("path", str(stream.path)),
        _ES("period-ns", str(stream.period_ns)),
        _ES("offset-ns", str(stream.offset_ns)),
        _ES("payload-octets", str(stream.payload_octets)),
        _ES("priority", str(stream.priority)),
        *([] if stream.dscp is None else [_ES("dscp", str(stream.dscp))]),
        *_address_elements(stream.address),
        *(_ES("listener", listener) for listener in stream.listeners),
        *([] if stream.frames == 1 else [_ES("frames-per-period", str(stream.frames))]),
    )


def _address_elements(address: StreamAddress | None) -> list[Element]:
    if address is None:
        return []
    return [
        _ES("destination-mac", address.destination_mac),
        _ES("vlan-id", str(address.vlan_id)),
    ]


def told() -> list[Element]:
    """A filter of what is published to the talkers of a port."""
    return [_ES("talker", _ES("published"))]


def stored_tables(whole: Reply, _bridges: Collection[str] = ()) -> dict[str, TalkerTable]:
    """What ports have configured for talkers, by name."""
    return {
        _INTERFACES.required(interface, "name"): _table(talker)
        for interface, talker in _talkers(whole)
    }


def talker_reports(whole: Reply, _bridges: Collection[str] = ()) -> dict[str, TalkerReport]:
    """What ports publish to their talkers, and what these say, by name."""
    return {
        _INTERFACES.required(interface, "name"): talker_report(interface)
        for interface, _ in _talkers(whole)
    }


def _talkers(whole: Reply) -> Iterator[tuple[Element, Element]]:
    """The interfaces with a `<talker>`, and that."""
    for interface in reply.entries(whole.data, "if:interfaces/if:interface", _NAMESPACES):
        talker = interface.find("e:talker", _NAMESPACES)
        if talker is not None:
            yield interface, talker


def talker_report(interface: Element) -> TalkerReport:
    """What the interface's station publishes to its talkers, and what these say of themselves."""
    published = {
        reply.text(each, "e:state", _NAMESPACES): each
        for each in reply.entries(interface, "e:talker/e:published", _NAMESPACES)
    }
    tables = {state: _table(each) for state, each in published.items()}
    running = published.get("running")
    lateness, launches = {}, {}
    for stream in () if running is None else reply.entries(running, "e:stream", _NAMESPACES):
        key = _LEAVES.required(stream, "name"), _LEAVES.number(stream, "path")
        if late := wake_ups(stream, "lateness", END_STATION):
            lateness[key] = late
        if stream.find("e:launches", _NAMESPACES) is not None:
            launches[key] = Launches(
                _LEAVES.number(stream, "launches/missed-frames"),
                _LEAVES.number(stream, "launches/refused-frames"),
            )
    return TalkerReport(tables.get("running"), tables.get("pending"), lateness, launches)


def _table(parent: Element) -> TalkerTable:
    base_time_ns = reply.text(parent, "e:base-time-ns", _NAMESPACES) or "0"
    streams = (_stored_stream(each) for each in reply.entries(parent, "e:stream", _NAMESPACES))
    return TalkerTable(reply.number(base_time_ns, "base-time-ns"), _of_streams(streams))


def _stored_stream(stream: Element) -> TalkerStream:
    frames = _LEAVES.optional_number(stream, "frames-per-period")
    return TalkerStream(
        name=_LEAVES.required(stream, "name"),
        path=_LEAVES.number(stream, "path"),
        period_ns=_LEAVES.number(stream, "period-ns"),
        offset_ns=_LEAVES.number(stream, "offset-ns"),
        payload_octets=_LEAVES.number(stream, "payload-octets"),
        priority=_LEAVES.number(stream, "priority"),
        dscp=_LEAVES.optional_number(stream, "dscp"),
        listeners=tuple(
            reply.short(each.text or "", "listener")
            for each in reply.entries(stream, "e:listener", _NAMESPACES)
        ),
        address=_stored_address(stream),
        frames=1 if frames is None else frames,
    )


def _stored_address(stream: Element) -> StreamAddress | None:
    """The address of a stream; None in a routed network, where it has none."""
    mac = reply.text(stream, "e:destination-mac", _NAMESPACES)
    return None if mac is None else StreamAddress(mac.lower(), _LEAVES.number(stream, "vlan-id"))
