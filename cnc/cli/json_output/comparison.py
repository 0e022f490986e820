"""What `cnc diff` prints: how two plans differ."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from cnc.cli.json_output.document import Document, Lists, PortName
from cnc.model import PortRef


def _with_port_names(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: str(value) if isinstance(value, PortRef) else value for name, value in fields}


def _as_fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass, and of those in it."""
    return dataclasses.asdict(value, dict_factory=_with_port_names)


_Fields = Annotated[dict[str, Any], BeforeValidator(_as_fields)]


class Change(Document):
    """What something was and is, with the fields of the planner's own data; null: not there."""

    before: _Fields | None
    after: _Fields | None


class Difference(Document):
    """`cnc diff`. What is the same is not in it."""

    same: bool
    added: list[str]
    """Streams that get a place."""
    removed: list[str]
    """Streams that lose theirs."""
    refused: list[str]
    """Streams that are new and get none."""
    wanted: dict[str, Change]
    """What streams ask for."""
    placed: dict[str, Change]
    """Where streams lie: paths, offsets, classes, bounds."""
    foundations: dict[str, Change]
    """Classes, switches, links, and the figures of the network."""
    gates: dict[PortName, Lists]
    """By NODE/PORT."""
    addresses: dict[str, Change] = Field(default_factory=dict)
    """What the frames of streams are sent to. It is there if an address differs, which only streams
    of bridged networks have."""
