"""The file in which programs of an end station find when to send.

    {"format": "tsn-offsets/1", "clock": "CLOCK_TAI",
     "interfaces": {"eth0": {"running": TABLE or null, "pending": TABLE or null}}}

A TABLE has "base-time-ns" and "stream", a list with the leaves of `tsn-end-station`; all integers
are numbers. It applies to the periods that begin at its base time or later, so a reader needs to
look at the file only when it has changed, and may do so any time before the base time of what is
new. A file, and not a socket: a talker that starts, or outlives the agent, reads it all the same.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent import whole_file
from agent.composition import Contribution, KernelObject
from agent.mechanism import KernelAdapter, Node
from agent.mechanisms.talker_offsets.lateness import LatenessFiles
from agent.mechanisms.talker_offsets.model import OffsetState, OffsetTable, StatedLateness
from agent.mechanisms.talker_offsets.tables import (
    PublishedTables,
    in_order,
    stream_node,
    transmission,
)
from agent.model import PortState

LOG = logging.getLogger(__name__)

FORMAT = "tsn-offsets/1"
LATENESS = "lateness"  # the directory beside it, in which talkers say how late they are
MAX_FILE_OCTETS = 16 * 2**20  # tens of thousands of streams
READABLE_FOR_ALL = 0o644


def _tai_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_TAI)


class OffsetFile(KernelAdapter):
    """The tables of all ports in one file, which is there whole or not at all."""

    def __init__(self, path: Path, now_tai_ns: Callable[[], int] = _tai_ns) -> None:
        self._path = path
        self._lateness = LatenessFiles(path.parent / LATENESS)
        self._now_tai_ns = now_tai_ns
        self._ignored = ""
        self.objects = {PublishedTables: self._replace}

    def read(self, states: Mapping[str, PortState]) -> dict[str, PortState]:
        """A file that cannot be read counts as none, so that the next change replaces it."""
        tables, now_tai_ns = self._tables(), self._now_tai_ns()
        return {
            name: self._with(state, tables[name].at(now_tai_ns)) if name in tables else state
            for name, state in states.items()
        }

    def _with(self, state: PortState, tables: OffsetState) -> PortState:
        stated = self._lateness.stated(tables.running.transmissions if tables.running else ())
        return state.with_part(tables).with_part(StatedLateness(stated))

    def _tables(self) -> dict[str, OffsetState]:
        try:
            with self._path.open("rb") as file:
                return decode(file.read(MAX_FILE_OCTETS))
        except FileNotFoundError:
            return {}
        # RecursionError: brackets nested a thousand deep.
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if self._ignored != repr(error):
                LOG.warning("%s is ignored and will be replaced: %r", self._path, error)
            self._ignored = repr(error)
            return {}

    def _replace(
        self, _target: KernelObject, _before: Sequence[Contribution], after: Sequence[Contribution]
    ) -> None:
        """No table at all: no file, as on a switch."""
        if not after:
            self._path.unlink(missing_ok=True)
            self._lateness.forget()
            return
        content = encode({each.port: each.content for each in after})
        self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._lateness.make()
        # After a power cut the agent writes it again, from the startup configuration.
        whole_file.replace(self._path, content, durable=False, mode=READABLE_FOR_ALL)


def encode(tables: Mapping[str, OffsetState]) -> bytes:
    """The content of the file, the same for the same tables."""
    return json.dumps(
        {
            "format": FORMAT,
            "clock": "CLOCK_TAI",
            "interfaces": {
                port: {"running": _table_node(of.running), "pending": _table_node(of.pending)}
                for port, of in sorted(tables.items())
            },
        },
        indent=1,
    ).encode()


def decode(content: bytes) -> dict[str, OffsetState]:
    """The tables by port. Raises one of several errors if `content` is not what `encode` writes."""
    document = json.loads(content)
    if document["format"] != FORMAT:
        raise ValueError(f"its format is {document['format']!r}, expected {FORMAT!r}")
    return {
        port: OffsetState(_table(of["running"]), _table(of["pending"]))
        for port, of in document["interfaces"].items()
    }


def _table_node(table: OffsetTable | None) -> Node | None:
    if table is None:
        return None
    return {
        "base-time-ns": table.base_time_ns,
        "stream": [stream_node(each, int) for each in table.transmissions],
    }


def _table(node: Any) -> OffsetTable | None:
    if node is None:
        return None
    return OffsetTable(
        int(node["base-time-ns"]), in_order([transmission(each) for each in node["stream"]])
    )
