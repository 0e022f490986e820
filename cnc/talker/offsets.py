"""The offsets that the agent of an end station publishes: which frame leaves when."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEFAULT_PATH = Path("/run/tsn-agent/offsets.json")
FORMAT = "tsn-offsets/1"


class OffsetsError(Exception):
    """The offsets cannot be read; the message names the file, the reason and what to do."""


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """One stream: `frames` of at most `payload_octets` (the IP packet) in each period, sent one
    directly after the other.

    Periods begin at multiples of `period_ns` on TAI, counted from 1970. In a bridged network its
    frames go to `destination_mac`, six pairs of hexadecimal digits with colons, in a tag with
    `vlan_id` and `priority` as the PCP; both are None in a routed one.
    """

    period_ns: int
    offset_ns: int
    payload_octets: int
    priority: int
    dscp: int | None
    destination_mac: str | None = None
    vlan_id: int | None = None
    frames: int = 1

    def departure_from(self, earliest_ns: int) -> Departure:
        """The frames of the first period that begins at this instant (TAI) or later."""
        begin_ns = -(-earliest_ns // self.period_ns) * self.period_ns
        return Departure(begin_ns, begin_ns + self.offset_ns, self)


@dataclass(frozen=True, slots=True)
class Departure:
    """When the frames of a period are to leave, the first of them, and when the period begins
    (TAI)."""

    period_begin_ns: int
    instant_ns: int
    stream: StreamOffset


@dataclass(frozen=True, slots=True)
class Table:
    """What is sent in the periods that begin at `base_time_ns` or later, by stream and path."""

    base_time_ns: int
    streams: Mapping[tuple[str, int], StreamOffset]


@dataclass(frozen=True, slots=True)
class InterfaceOffsets:
    """The tables of one interface; `pending` replaces `running` from its base time on.

    A reader may find a `pending` table whose base time has passed.
    """

    running: Table | None
    pending: Table | None

    def departure(self, stream: str, path: int, earliest_ns: int) -> Departure | None:
        """See `Offsets.departure`."""
        running = _departure(self.running, stream, path, earliest_ns)
        if self.pending is None:
            return running
        if running and running.period_begin_ns < self.pending.base_time_ns:
            return running
        return _departure(self.pending, stream, path, earliest_ns)


def _departure(table: Table | None, stream: str, path: int, earliest_ns: int) -> Departure | None:
    if table is None or (stream, path) not in table.streams:
        return None
    return table.streams[stream, path].departure_from(max(earliest_ns, table.base_time_ns))


@dataclass(frozen=True, slots=True)
class Offsets:
    """What a station publishes, by interface."""

    interfaces: Mapping[str, InterfaceOffsets]

    def departure(self, stream: str, earliest_ns: int, path: int = 1) -> Departure | None:
        """The frame of the first period that begins at `earliest_ns` (TAI) or later.

        None: no such frame is planned. Who asks each time for what follows the begin of the period
        before gets every period once, also where a push moves the stream.
        """
        found = [
            departure
            for each in self.interfaces.values()
            if (departure := each.departure(stream, path, earliest_ns))
        ]
        return min(found, key=lambda departure: departure.period_begin_ns, default=None)

    def sender(self, stream: str, path: int = 1) -> tuple[str, StreamOffset] | None:
        """The interface by which a stream leaves, and what is newest of it; None: it does not."""
        for name, its in self.interfaces.items():
            for table in (its.pending, its.running):
                if table and (stream, path) in table.streams:
                    return name, table.streams[stream, path]
        return None


class OffsetFile:
    """The file of the agent, read again when it has changed. Not to be used by two threads."""

    def __init__(self, path: Path = DEFAULT_PATH) -> None:
        self.path = path
        self._version: tuple[int, int] | None = None
        self._offsets = Offsets({})

    def offsets(self) -> Offsets:
        """What is published now; nothing where there is no file. Raises OffsetsError."""
        try:
            found = self.path.stat()
            # The agent never writes into a file, it replaces it.
            version = found.st_ino, found.st_mtime_ns
            if version != self._version:
                self._offsets = parse(self.path.read_bytes())
                self._version = version
        except FileNotFoundError:
            self._version, self._offsets = None, Offsets({})
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise OffsetsError(
                f"{self.path} cannot be read: {error!r}; it is written by tsn-agent, whose journal "
                "says what is wrong"
            ) from error
        return self._offsets


def parse(content: bytes) -> Offsets:
    """The offsets in a file. Raises one of several errors if they are none."""
    document = json.loads(content)
    if document["format"] != FORMAT:
        raise ValueError(f"its format is {document['format']!r}, expected {FORMAT!r}")
    return Offsets(
        {
            name: InterfaceOffsets(_table(tables["running"]), _table(tables["pending"]))
            for name, tables in document["interfaces"].items()
        }
    )


def _table(node: Any) -> Table | None:
    if node is None:
        return None
    streams = {(each["name"], each["path"]): _stream(each) for each in node["stream"]}
    return Table(int(node["base-time-ns"]), streams)


def _stream(node: Mapping[str, Any]) -> StreamOffset:
    if node["period-ns"] <= 0:
        raise ValueError(f"the period of {node['name']} is {node['period-ns']} ns")
    return StreamOffset(
        period_ns=int(node["period-ns"]),
        offset_ns=int(node["offset-ns"]),
        payload_octets=int(node["payload-octets"]),
        priority=int(node["priority"]),
        dscp=node.get("dscp"),
        destination_mac=node.get("destination-mac"),
        vlan_id=node.get("vlan-id"),
        frames=int(node.get("frames-per-period", 1)),
    )
