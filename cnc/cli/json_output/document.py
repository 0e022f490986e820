"""What all documents share: how they are built and dumped, gates, errors and options."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import to_jsonable_python

from cnc.mechanisms.frer.model import Generation, Recovery, SequenceFunctions
from cnc.mechanisms.identification.model import Inward, Outward, Translations
from cnc.mechanisms.stream_filters.model import (
    FilteredStream,
    FixedGate,
    Policing,
    StreamFilter,
    StreamFilters,
    WindowGate,
)
from cnc.model import BridgeForwarding, GateEntry, PortRef, StreamAddress


class Document(BaseModel):
    """A JSON object. `model_validate` builds it from any object that has its fields."""

    # Only scripts/json-schemas reads the attributes' docstrings: to find their source `inspect`
    # asks every module for its file, which imports the lazy ones.
    model_config = ConfigDict(from_attributes=True)


def dump_json(document: object, *, indent: int | None = 2) -> str:
    """JSON text, in ASCII, of a document, a result that is printed as it is, or lists of them.

    Keys are in the order of the fields. `indent`: None for one line.
    """
    # pydantic's own text has other characters than ASCII in it, which not every terminal shows.
    return json.dumps(to_jsonable_python(document), indent=indent)


def _mask_and_length(entry: GateEntry) -> tuple[str, int]:
    return f"{entry.gate_states:#04x}", entry.interval_ns


PortName = Annotated[str, BeforeValidator(PortRef.__str__)]
"""`NODE/PORT`, of a PortRef."""
Instant = Annotated[str, BeforeValidator(datetime.isoformat)]
"""ISO 8601 with an offset from UTC, of an aware datetime."""
GateEntries = list[Annotated[tuple[str, int], BeforeValidator(_mask_and_length)]]


class Gates(Document):
    """A gate control list."""

    cycle_ns: int
    """How long the list lasts; it starts at a multiple of it on TAI."""
    entries: GateEntries
    """Which gates are open, as a mask (0x81: of traffic classes 7 and 0), and for how many ns."""


class RunningGates(Document):
    """A gate control list in a kernel."""

    base_time_ns: int
    """TAI, in nanoseconds since 1970."""
    cycle_ns: int = Field(validation_alias=AliasPath("gates", "cycle_ns"))
    """How long the list lasts; it starts at a multiple of it on TAI."""
    entries: GateEntries = Field(validation_alias=AliasPath("gates", "entries"))
    """Which gates are open, as a mask (0x81: of traffic classes 7 and 0), and for how many ns."""


def _stream_entries(forwarding: BridgeForwarding | object) -> object:
    if not isinstance(forwarding, BridgeForwarding):
        return forwarding
    translations = forwarding[Translations].by_stream
    functions = forwarding[SequenceFunctions].by_stream
    return {
        "entries": [
            {
                "stream": forwarding.names.get(address),
                "destination_mac": address.destination_mac,
                "vlan_id": address.vlan_id,
                "ports": list(ports),
            }
            for address, ports in sorted(forwarding.entries.items(), key=str)
        ],
        "vlans": {vlan_id: list(ports) for vlan_id, ports in sorted(forwarding.vlans.items())},
        "trusting": list(forwarding.trusting),
        "translations": [
            {
                "stream": forwarding.names.get(address),
                "destination_mac": address.destination_mac,
                "vlan_id": address.vlan_id,
                "inward": translation.inward,
                "outward": translation.outward,
            }
            for address, translation in sorted(translations.items(), key=str)
        ]
        or None,
        "sequencing": [
            {
                "stream": forwarding.names.get(address),
                "destination_mac": address.destination_mac,
                "vlan_id": address.vlan_id,
                "generation": function if isinstance(function, Generation) else None,
                "recovery": function if isinstance(function, Recovery) else None,
            }
            for address, function in sorted(functions.items(), key=str)
        ]
        or None,
        "filters": [
            {
                "stream": forwarding.names.get(StreamAddress.of(its.of)),
                "destination_mac": its.of.destination_mac,
                "vlan_id": its.of.vlan_id,
                **_of_any(its),
            }
            if isinstance(its.of, FilteredStream)
            else {"stream": None, "destination_mac": None, "vlan_id": None, **_of_any(its)}
            for its in forwarding[StreamFilters].filters
        ]
        or None,
    }


def _of_any(its: StreamFilter) -> dict[str, object]:
    return {
        "port": its.of.port,
        "priority": its.priority,
        "max_sdu_octets": its.max_sdu_octets,
        "gate": its.gate if isinstance(its.gate, FixedGate) else None,
        "window": its.gate if isinstance(its.gate, WindowGate) else None,
        "policing": its.policing,
    }


class FilteringEntry(Document):
    """The ports by which a bridge forwards the frames of a stream."""

    stream: str | None
    """null: not known, as of an entry that is in no plan."""
    destination_mac: str
    vlan_id: int
    ports: list[str]


def is_empty(value: list[object]) -> bool:
    """Whether a list is left out, as most documents have nothing in it."""
    return not value


def is_none(value: object) -> bool:
    """Whether a key is left out: of documents about networks that route."""
    return value is None


class Translation(Document):
    """What a switch does with the frames of a stream whose talker sends them untagged."""

    stream: str | None
    """null: not known, as of one that is in no plan."""
    destination_mac: str
    vlan_id: int
    inward: Inward | None
    """At the first switch: by what it knows them at a port, and the PCP that they get with their
    address."""
    outward: Outward | None
    """At the last switch: the port where they lose address and tag, and the address that they get
    instead."""


class Sequencing(Document):
    """What a switch does with the copies of the frames of a stream."""

    stream: str | None
    """null: not known, as of one that is in no plan."""
    destination_mac: str
    vlan_id: int
    generation: Generation | None
    """At the first switch: the port where it numbers them."""
    recovery: Recovery | None
    """At a last switch: the ports from which it passes the first copy of each; how many numbers it
    remembers, and the pause in ms after which it takes any number. `latent_errors` is how it
    watches that copies come by all ways (IEEE 802.1CB 7.4.4); null: it does not."""


class Window(Document):
    """When a stream gate is open, once in each period."""

    period_ns: int
    start_ns: int
    """After the beginning of the period, before it if negative."""
    open_ns: int
    octets_max: int
    """The most that passes in that time."""


class FilterOfStream(Document):
    """What a switch does with frames that it receives from an end station."""

    stream: str | None
    """null: not known, or it is about frames of no stream."""
    destination_mac: str | None
    """null, as `vlan_id`: it is about frames of no stream."""
    vlan_id: int | None
    port: str
    """Where they come in."""
    priority: int
    max_sdu_octets: int
    """The longest that passes, without MAC addresses, VLAN tag and EtherType; 0: any."""
    gate: FixedGate | None
    """Of a gate that never changes; null: it has a window."""
    window: Window | None
    policing: Policing
    """What becomes of frames that do not pass."""


class Forwarding(Document):
    """How a bridge forwards the frames of streams."""

    entries: list[FilteringEntry]
    """Static filtering entries."""
    vlans: dict[int, list[str]]
    """The VLANs of streams, each with the ports that are members."""
    trusting: list[str]
    """The ports that take the priority of a tagged frame from its PCP."""
    translations: list[Translation] | None = Field(None, exclude_if=is_none)
    """Left out where no frames are translated."""
    sequencing: list[Sequencing] | None = Field(None, exclude_if=is_none)
    """Left out where no frames are numbered or recovered."""
    filters: list[FilterOfStream] | None = Field(None, exclude_if=is_none)
    """Left out where nothing is policed."""


BridgeTables = Annotated[Forwarding, BeforeValidator(_stream_entries)]


class ForwardingChange(Document):
    """How a bridge forwarded the frames of streams, and was to."""

    before: BridgeTables
    after: BridgeTables


class Lists(Document):
    """What a port had and was to have; null: no gates."""

    before: Gates | None
    after: Gates | None


class Option(Document):
    """An option that is set, or that many commands share."""

    name: str
    """As in a file: `plan.algorithm`; without a table: for every command."""
    value: str
    origin: str | None
    """FILE:LINE or the environment variable; null: it is the default."""


class Config(Document):
    """`cnc config`."""

    files: list[str]
    """Those that were read; the later wins."""
    options: list[Option]


class Error(Document):
    """What a command that ends with an error prints instead, on the error stream."""

    error: str
    """What happened and where; lines are parted by \\n."""
    hint: str | None
    """What to do next."""
    exit_code: int
    """1 refused or failed, 2 bad input, 130 interrupted."""
