"""What `cnc diff` prints: how two plans differ."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from cnc.json_output.document import Document, Lists, PortName
from cnc.json_output.planning import LoopDelay
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


class BoundChange(Document):
    """By listener what the jitter of a stream was and is bounded by; null: not bounded."""

    before: dict[str, int] | None
    after: dict[str, int] | None


class LoopChange(Document):
    """The parts of a loop's delay as they were and are; null: no such loop, or not closed."""

    before: LoopDelay | None
    after: LoopDelay | None


class MacChange(Document):
    """The address that an end station had and has; null: none that is stated."""

    before: str | None
    after: str | None


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
    jitter_ns: dict[str, BoundChange] = Field(default_factory=dict)
    """By stream the bounds of its jitter. It is there if one differs."""
    loops: dict[str, LoopChange] = Field(default_factory=dict)
    """How long control loops take. It is there if that differs."""
    macs: dict[str, MacChange] = Field(default_factory=dict)
    """The addresses of end stations. It is there if one differs."""
