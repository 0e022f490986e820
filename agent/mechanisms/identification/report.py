"""The streams of the ports in the tree of ieee802-dot1cb-stream-identification. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from agent.mechanism import STREAM_IDENTITY, Node, ReportContext
from agent.mechanisms.identification.model import (
    IdentificationState,
    Incoming,
    Match,
    Named,
    Outgoing,
    Stream,
)
from agent.mechanisms.identification.tree import IP, SOURCE_MAC
from agent.model import PortState
from agent.stream_identities import ACTIVE, NULL

# How the standard numbers these kinds of identification (IEEE Std 802.1CB-2017, table 9-1).
_TYPES = {NULL: "null-stream", SOURCE_MAC: "smac-vlan", ACTIVE: "dmac-vlan", IP: "ip"}
_ORGANIZATION = "00-80-C2"  # IEEE 802.1
_COUNTERS = "ieee802-dot1cb-stream-identification:stream-id"


def stream_identities(states: Iterable[PortState]) -> Node:
    """The entries that are in force, with the ports where they are; nothing without any.

    What an entry is known by is taken from the first of its ports, should they differ.
    """
    entries: dict[int, Node] = {}
    for state in sorted(states, key=lambda each: each.name):
        for handle, index, facing, side, parameters in _parts(state[IdentificationState]):
            entry = entries.setdefault(index, {"index": index, "handle": handle, **parameters})
            if entry["handle"] == handle and entry.keys() >= parameters.keys():
                _complete(entry, parameters)
                ports = entry.setdefault(facing, {}).setdefault(side, [])
                if state.name not in ports:
                    ports.append(state.name)
    for entry in entries.values():
        for kind in entry.keys() & _TYPES.keys():
            numbers = {"type-number": _TYPES[kind], "oui-cid": _ORGANIZATION}
            entry[kind]["identification-type"] = numbers
    return {STREAM_IDENTITY: [entries[index] for index in sorted(entries)]} if entries else {}


def _complete(entry: Node, parameters: Node) -> None:
    """Add what an entry does not have yet: where frames are identified, `down` has no priority."""
    for name, value in parameters.items():
        if isinstance(value, dict):
            _complete(entry.setdefault(name, {}), value)
        else:
            entry.setdefault(name, value)


def counters(state: PortState, _context: ReportContext) -> Node:
    """What the filters of the port have met (IEEE Std 802.1CB-2017, 9.2 and 9.3).

    A frame of the talker is identified by the function that faces the port, and passed on by the
    one that faces the relay, which is where a frame to the listener is identified. One that is only
    named is identified where its entry says.
    """
    frames = state[IdentificationState].frames
    if not frames:
        return {}
    by_stream: dict[tuple[bool, int], dict[str, int]] = {}
    for stream, count in frames.items():
        for is_out_facing, name in _counted_at(stream):
            row = by_stream.setdefault(
                (is_out_facing, stream.handle), {"input-pkts": 0, "output-pkts": 0}
            )
            row[name] += count
    rows = [
        {
            "direction-out-facing": is_out_facing,
            "handle": handle,
            **{name: str(count) for name, count in counted.items()},
        }
        for (is_out_facing, handle), counted in sorted(by_stream.items())
    ]
    totals = {
        name: str(sum(counted[name] for counted in by_stream.values()))
        for name in ("input-pkts", "output-pkts")
    }
    node = {"per-port-counters": totals, "per-port-per-stream-counters": rows}
    return {"statistics": {_COUNTERS: node}}


def _counted_at(stream: Stream) -> Sequence[tuple[bool, str]]:
    """On which side, out-facing or not, and in which counter a frame of the stream is counted."""
    if isinstance(stream, Incoming):
        return (True, "input-pkts"), (False, "output-pkts")
    return ((isinstance(stream, Named) and stream.is_out_facing, "input-pkts"),)


def _parts(state: IdentificationState) -> Iterator[tuple[int, int, str, str, Node]]:
    """Handle and index of each entry, which list of it names the port, and its parameters."""
    for each in sorted(state.table.incoming, key=lambda each: each.index):
        down = {
            "destination-mac": each.mac,
            "tagged": "tagged",
            "vlan": each.vlan_id,
            "priority": each.pcp,
        }
        yield each.handle, each.index, "out-facing", "input-port", _identifying(each.match)
        yield each.handle, each.active_index, "in-facing", "output-port", {ACTIVE: {"down": down}}
    for stream in sorted(state.table.outgoing, key=lambda each: each.index):
        yield stream.handle, stream.index, "in-facing", "input-port", _restoring(stream)
    for named in sorted(state.table.named, key=lambda each: each.index):
        facing = "out-facing" if named.is_out_facing else "in-facing"
        known_by = {"destination-mac": named.mac, "tagged": "tagged", "vlan": named.vlan_id}
        yield named.handle, named.index, facing, "input-port", {NULL: known_by}


def _restoring(stream: Outgoing) -> Node:
    return {
        ACTIVE: {
            "down": {"destination-mac": stream.mac, "tagged": "tagged", "vlan": stream.vlan_id},
            "up": {"destination-mac": stream.restored_mac, "tagged": "priority"},
        }
    }


def _identifying(match: Match) -> Node:
    if match.source_mac:
        return {SOURCE_MAC: {"source-mac": match.source_mac, "tagged": "priority"}}
    if match.ip_destination is None:
        return {NULL: {"destination-mac": match.destination_mac, "tagged": "priority"}}
    leaves = {
        "destination-mac": match.destination_mac,
        "ip-source": match.ip_source,
        "ip-destination": match.ip_destination,
        "dscp": match.dscp,
        "next-protocol": match.protocol,
        "source-port": match.source_port,
        "destination-port": match.destination_port,
    }
    given = {name: value for name, value in leaves.items() if value is not None}
    return {IP: {"tagged": "priority", **given}}
