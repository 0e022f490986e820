"""What all documents share: how they are built and dumped, gates, errors and options."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, create_model
from pydantic_core import to_jsonable_python

from cnc.mechanisms.registry import MECHANISMS
from cnc.model import BridgeForwarding, GateEntry, PortRef

_Document = TypeVar("_Document", bound="Document")


class Document(BaseModel):
    """A JSON object. `model_validate` builds it from any object that has its fields."""

    # Only scripts/json-schemas reads the attributes' docstrings: to find their source `inspect`
    # asks every module for its file, which imports the lazy ones.
    model_config = ConfigDict(from_attributes=True)


def with_keys(keys: Mapping[str, tuple[Any, Any]]) -> Callable[[type[_Document]], type[_Document]]:
    """A document with more keys behind its own: by name their types and defaults, as
    `pydantic.create_model` takes them."""

    def extended(its: type[_Document]) -> type[_Document]:
        fields: dict[str, Any] = {**keys}
        return create_model(
            its.__name__, __base__=its, __module__=its.__module__, __doc__=its.__doc__, **fields
        )

    return extended


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
        **{
            each.shown.key: [*each.shown.rows(forwarding[each.part], forwarding.names)] or None
            for each in MECHANISMS
        },
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


@with_keys(
    {
        its.key: (
            list[its.row] | None,  # type: ignore[name-defined]
            Field(None, exclude_if=is_none, description=its.key_text),
        )
        for its in (each.shown for each in MECHANISMS)
    }
)
class Forwarding(Document):
    """How a bridge forwards the frames of streams."""

    entries: list[FilteringEntry]
    """Static filtering entries."""
    vlans: dict[int, list[str]]
    """The VLANs of streams, each with the ports that are members."""
    trusting: list[str]
    """The ports that take the priority of a tagged frame from its PCP."""


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
