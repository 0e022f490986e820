"""Why a port cannot translate the frames of streams as it is asked to. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import combinations
from typing import Any

from agent.mac_addresses import is_group, problem_of_destination
from agent.mechanisms.identification.model import (
    TAGGED_VLANS,
    IdentificationConfig,
    IdentificationTable,
    Incoming,
    Match,
    Named,
    Outgoing,
    Stream,
)
from agent.model import PortConfig, PortState

_Fields = tuple[str, ...]


def problems(config: PortConfig, state: PortState) -> Iterator[str]:
    """One line each, without the name of the port."""
    table = config[IdentificationConfig].table
    if not table:
        return
    if state.bridge is None:
        yield (
            "it is no port of a bridge, and streams are identified where a bridge forwards them; "
            "add it to one (ip link set ... master)"
        )
    for stream in sorted(_streams(table), key=lambda each: (each.index, each.handle)):
        yield from _stream_problems(stream)
    yield from _overlaps(table.incoming)
    for alike in (table.outgoing, table.named):
        yield from _repeated(list(alike))


def _streams(table: IdentificationTable) -> Iterable[Stream]:
    return (*table.incoming, *table.outgoing, *table.named)


def _stream_problems(stream: Stream) -> Iterator[str]:
    name = f"stream {stream.handle} (entry {stream.index} of stream-identity)"
    if problem := problem_of_destination(stream.mac):
        yield f"{name}: {problem}"
    if stream.vlan_id not in TAGGED_VLANS:
        yield f"{name}: VLAN {stream.vlan_id} is none that a tag can name; choose one of 1 to 4094"
    if isinstance(stream, Outgoing):
        if problem := problem_of_destination(stream.restored_mac):
            yield f"{name}: {problem}"
    elif (
        isinstance(stream, Incoming)
        and stream.match.source_mac
        and is_group(stream.match.source_mac)
    ):
        yield f"{name}: {stream.match.source_mac} is a group address, which no frame comes from"


def _overlaps(streams: Iterable[Incoming]) -> Iterator[str]:
    """Streams of which one frame could be.

    Streams are grouped by what they are known by: two of one group overlap where they are equal,
    two of different groups where they agree in all that both look at. So each pair of groups is
    looked through once, and not each pair of streams.
    """
    groups: dict[tuple[_Fields, int], list[Incoming]] = {}
    for stream in sorted(streams, key=lambda each: each.index):
        groups.setdefault((_given(stream.match), _version(stream.match)), []).append(stream)
    for (fields, _version_of_group), group in groups.items():
        yield from _agreeing(fields, group, ())
    for ((fields, version), group), ((others, other_version), other) in combinations(
        groups.items(), 2
    ):
        if not (version and other_version and version != other_version):
            yield from _agreeing(tuple(each for each in fields if each in others), group, other)


def _agreeing(
    fields: _Fields, group: Iterable[Incoming], other: Iterable[Incoming]
) -> Iterator[str]:
    """Those of `other` that agree with one of `group` in these fields; without any, of `group`."""
    seen: dict[tuple[Any, ...], Incoming] = {}
    for stream in group:
        key = tuple(getattr(stream.match, each) for each in fields)
        if not other and key in seen:
            yield _overlap(seen[key], stream)
        seen.setdefault(key, stream)
    for stream in other:
        key = tuple(getattr(stream.match, each) for each in fields)
        if key in seen:
            yield _overlap(seen[key], stream)


def _overlap(one: Incoming, other: Incoming) -> str:
    return (
        f"entries {one.index} and {other.index} of stream-identity: a frame could be of stream "
        f"{one.handle} ({one.match}) and of stream {other.handle} ({other.match}); let them differ "
        "in something that both look at"
    )


def _repeated(streams: Collection[Outgoing | Named]) -> Iterator[str]:
    seen: dict[tuple[str, int], Outgoing | Named] = {}
    for stream in sorted(streams, key=lambda each: each.index):
        first = seen.setdefault((stream.mac, stream.vlan_id), stream)
        if first is not stream:
            yield (
                f"entries {first.index} and {stream.index} of stream-identity: frames to "
                f"{stream.mac} in VLAN {stream.vlan_id} cannot be of two streams; remove one"
            )


def _given(match: Match) -> _Fields:
    values = zip(match._fields, match, strict=True)
    return tuple(name for name, value in values if value is not None)


def _version(match: Match) -> int:
    """Of IP; 0 where any frame matches."""
    if match.ip_destination is None:
        return 0
    return 6 if ":" in match.ip_destination else 4
