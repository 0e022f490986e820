"""The offsets of an end station's talkers: from a plan to its configuration, and read back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.reply import Element
from cnc.data_tree.tree import END_STATION, NETCONF, TalkerReport
from cnc.data_tree.wake_ups import wake_ups
from cnc.model import (
    Plan,
    StreamAddress,
    TalkerConfiguration,
    TalkerStream,
    TalkerTable,
    WakeUps,
)
from cnc.model.transmissions import Transmission, transmissions

_ES = ElementMaker(namespace=END_STATION, nsmap={None: END_STATION})
_NAMESPACES = {"e": END_STATION}
_LEAVES = reply.Leaves(END_STATION)
_REPLACE = {f"{{{NETCONF}}}operation": "replace"}


def talker_ports(plan: Plan, station: str) -> dict[str, TalkerConfiguration]:
    """What each cabled port of an end station is told; no stream where none leaves by it."""
    own = [each for each in transmissions(plan) if each.talker == station]
    return {
        port.port: _of_streams(_stream(each) for each in own if each.interface == port.port)
        for port in plan.intent.network.links
        if port.node == station
    }


def _of_streams(streams: Iterable[TalkerStream]) -> TalkerConfiguration:
    """In one order: that of the list in a datastore has no meaning."""
    return TalkerConfiguration(tuple(sorted(streams, key=lambda each: (each.name, each.path))))


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


def talker_element(desired: TalkerConfiguration, base_time_ns: int) -> Element:
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


def published_filter() -> Element:
    """What is published to the talkers of a port."""
    return _ES("talker", _ES("published"))


def stored_talker(interface: Element) -> TalkerTable | None:
    """The talker's configuration of an interface; None where there is none."""
    talker = interface.find("e:talker", _NAMESPACES)
    return None if talker is None else _table(talker)


def talker_report(interface: Element) -> TalkerReport:
    """What the interface's station publishes to its talkers, and what these say of themselves."""
    published = {
        reply.text(each, "e:state", _NAMESPACES): each
        for each in reply.entries(interface, "e:talker/e:published", _NAMESPACES)
    }
    tables = {state: _table(each) for state, each in published.items()}
    running = published.get("running")
    lateness = {} if running is None else dict(_lateness(running))
    return TalkerReport(tables.get("running"), tables.get("pending"), lateness)


def _lateness(table: Element) -> Iterator[tuple[tuple[str, int], WakeUps]]:
    for stream in reply.entries(table, "e:stream", _NAMESPACES):
        if said := wake_ups(stream, "lateness", END_STATION):
            yield (_LEAVES.required(stream, "name"), _LEAVES.number(stream, "path")), said


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
