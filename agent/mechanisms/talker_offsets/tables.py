"""The offset tables of a port: read from the configuration, compared, and reported. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from agent.composition import Change, KernelObject, SoleContent, Stage
from agent.mechanism import Contributions, Node, ReportContext, Tree
from agent.mechanisms.talker_offsets.model import (
    OffsetConfig,
    OffsetState,
    OffsetTable,
    Stated,
    StatedLateness,
    Transmission,
)
from agent.model import Clock, PortConfig, PortState

NAME = "talker-offsets"
TALKER = "tsn-end-station:talker"


@dataclass(frozen=True, slots=True)
class PublishedTables(KernelObject):
    """The tables of all ports: one file, replaced as a whole. Contents are `OffsetState`.

    It is not the kernel's, but it changes with what is: after the gates of the station's own ports.
    """

    removed_in: ClassVar[Stage] = Stage.PUBLISH
    set_in: ClassVar[Stage] = Stage.PUBLISH


TABLES = PublishedTables()


def configured(interface: Tree, _state: PortState | None) -> OffsetConfig:
    talker = interface.get(TALKER, {})
    if not talker:
        return OffsetConfig()
    streams = tuple(transmission(stream) for stream in talker.get("stream", ()))
    return OffsetConfig(OffsetTable(int(talker.get("base-time-ns", 0)), in_order(streams)))


def in_order(transmissions: Sequence[Transmission]) -> tuple[Transmission, ...]:
    """By name, then path: the order of a list in a datastore has no meaning."""
    return tuple(sorted(transmissions, key=lambda each: (each.name, each.path)))


def transmission(stream: Mapping[str, Any]) -> Transmission:
    """An entry in RFC 7951 encoding, whose 64-bit integers are strings, or with plain integers.

    Raises KeyError, TypeError or ValueError where it is none.
    """
    return Transmission(
        name=stream["name"],
        path=int(stream["path"]),
        period_ns=int(stream["period-ns"]),
        offset_ns=int(stream["offset-ns"]),
        payload_octets=int(stream["payload-octets"]),
        priority=int(stream["priority"]),
        dscp=int(stream["dscp"]) if "dscp" in stream else None,
        listeners=tuple(stream.get("listener", ())),
        destination_mac=stream["destination-mac"].lower() if "destination-mac" in stream else None,
        vlan_id=int(stream["vlan-id"]) if "vlan-id" in stream else None,
        frames=int(stream.get("frames-per-period", 1)),
    )


def stream_node(sent: Transmission, encode: Callable[[int], int | str]) -> Node:
    """The entry of a transmission; `encode` writes its 64-bit integers."""
    node: Node = {
        "name": sent.name,
        "path": sent.path,
        "period-ns": encode(sent.period_ns),
        "offset-ns": encode(sent.offset_ns),
        "payload-octets": sent.payload_octets,
        "priority": sent.priority,
    }
    if sent.dscp is not None:
        node["dscp"] = sent.dscp
    if sent.destination_mac is not None and sent.vlan_id is not None:
        node["destination-mac"] = sent.destination_mac
        node["vlan-id"] = sent.vlan_id
    if sent.listeners:
        node["listener"] = list(sent.listeners)
    if sent.frames > 1:
        node["frames-per-period"] = sent.frames
    return node


def as_is(state: PortState) -> OffsetConfig:
    return OffsetConfig(state[OffsetState].newest)


def contributions(state: PortState) -> Contributions:
    tables = state[OffsetState]
    return _sole_content(state).contributions(tables if tables.newest else None)


def diff(config: PortConfig, state: PortState) -> Iterator[Change]:
    before, table = state[OffsetState], config[OffsetConfig].table
    if before.newest == table:
        return
    after = before.followed_by(table)
    yield _sole_content(state).change(
        before if before.newest else None,
        after if table else None,
        description=f"talker offsets: {_words(table)}",
        difference=f"talker offsets are {_words(before.newest)}, configured are {_words(table)}",
    )


def problems(_config: PortConfig, _state: PortState) -> Iterator[str]:
    """Every table can be published; what is no table is refused by the YANG module."""
    yield from ()


def operational(state: PortState, _context: ReportContext) -> Node:
    tables = state[OffsetState]
    lateness = state[StatedLateness].by_stream
    published = [
        {
            "state": name,
            "base-time-ns": str(table.base_time_ns),
            "stream": [
                stream_node(each, str)
                | _said_node(lateness.get((each.name, each.path)) if name == "running" else None)
                for each in table.transmissions
            ],
        }
        for name, table in (("running", tables.running), ("pending", tables.pending))
        if table
    ]
    return {TALKER: {"published": published}} if published else {}


def _said_node(said: Stated | None) -> Node:
    if said is None:
        return {}
    node: Node = {}
    if its := said.lateness:
        node["lateness"] = {"count": str(its.count), "maximum-ns": str(its.maximum_ns)}
        if its.quantile_ns is not None:
            node["lateness"]["quantile-ns"] = str(its.quantile_ns)
    if launches := said.launches:
        node["launches"] = {
            "missed-frames": str(launches.missed),
            "refused-frames": str(launches.refused),
        }
    return node


def applied(
    state: PortState, contents: Sequence[OffsetState], now_ns: Callable[[Clock], int]
) -> PortState:
    """The port in memory with these tables."""
    return state.with_part(contents[0].at(now_ns(Clock.TAI)) if contents else OffsetState())


def at(state: PortState, now_ns: Callable[[Clock], int]) -> PortState:
    """The port in memory as time has passed."""
    return state.with_part(state[OffsetState].at(now_ns(Clock.TAI)))


def _sole_content(state: PortState) -> SoleContent:
    return SoleContent(NAME, state.name, TABLES)


def _words(table: OffsetTable | None) -> str:
    if table is None:
        return "none"
    offsets = ", ".join(
        f"{each.name} at {each.offset_ns} of {each.period_ns} ns"
        + (f", {each.frames} frames" if each.frames > 1 else "")
        for each in table.transmissions
    )
    return f"{offsets or 'no stream'} from {table.base_time_ns} ns on"
