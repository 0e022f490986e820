"""The change of a switch, and the plan, as octets and back.

    {"format": "cnc-change/1", "management": {"address": ..., "port": ..., "user": ...},
     "before": {port: Stored or null, ...},
     "after": {port: PortConfiguration, Talkers or null, ...},
     "bridges": {bridge: {"before": Forwarding or null, "after": Forwarding}, ...},
     "parts": {port: {"before": Parts, "after": Parts}, ...}}

The keys are the names of the fields; a new one needs a default, or a new format. JSON has no
objects as keys: of a bridge `entries`, `names` and the part of each mechanism are lists.

What mechanisms that this format had not at first ask for makes it "cnc-change/2": a Forwarding then
has `parts` as well, {key: {"version": its own, "rows": [...]}, ...}; those of ports make it
"cnc-change/3". Of a switch with a device profile it is "cnc-change/4", and has "profile": Profile.
A program that does not know one of them refuses the change by name: it could not put it back.
Both are deflated: gate control lists are repetitive. What is longer than `TEXT_MAX_OCTETS` is
neither written nor read: a damaged file may hold little that inflates to more than the memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from pydantic import Field, create_model

from cnc.errors import CncError
from cnc.mechanism import AtPlace, Kept
from cnc.mechanisms.composition import at_places, each_part
from cnc.mechanisms.kept import Versioned, read, refuse_unknown, rows_of, written
from cnc.mechanisms.registry import MECHANISMS
from cnc.model import (
    BridgeForwarding,
    Management,
    PlaceParts,
    Plan,
    PortConfiguration,
    PortGates,
    PortSettings,
    Profile,
    StoredBridge,
    StoredGates,
    StoredPort,
    StreamAddress,
    TalkerStream,
    TalkerStreams,
    TalkerTable,
)
from cnc.plans import file as planfile
from cnc.rollout.history.record import Outcome, SwitchChange

_FORMAT = "cnc-change/1"
_FORMAT_WITH_PARTS = "cnc-change/2"
_FORMAT_WITH_PARTS_OF_PORTS = "cnc-change/3"
_FORMAT_WITH_PROFILE = "cnc-change/4"
# The kinds of parts that the first format had, under their own keys, each in its version 1.
_FIRST = {"translations", "sequencing", "filters"}
# Of a plan or a change, three times the plan of 10,000 streams that pass ten ports each.
TEXT_MAX_OCTETS = 64 * 1024 * 1024


def change_to_octets(change: SwitchChange) -> bytes:
    """The change without its outcome, which is not known yet. Raises CncError if it is too long."""
    bridges = {
        name: {"before": _before(change.before[name]), "after": _encoded(after)}
        for name, settings in change.after.items()
        if (after := settings.get(BridgeForwarding)) is not None
    }
    parts = {
        name: _AtPlace(_parts_at(change.before[name]), asked, _is_alone(settings))
        for name, settings in change.after.items()
        if (asked := _parts_at(settings))
    }
    has_parts = any(its and its.parts for each in bridges.values() for its in each.values())
    of_bridges = _FORMAT_WITH_PARTS if has_parts else _FORMAT
    of_parts = _FORMAT_WITH_PARTS_OF_PORTS if parts else of_bridges
    its = change.management
    document = _document()(
        format=_FORMAT_WITH_PROFILE if its.profile else of_parts,
        management=_Where(its.address, its.port, its.user),
        profile=its.profile,
        before={name: stored and _stored(stored) for name, stored in change.before.items()},
        after={name: _of_port(its) for name, its in change.after.items()},
        bridges=bridges,
        parts=parts,
    )
    return _deflated(document.model_dump_json())


def _before(stored: StoredPort | None) -> Any:
    forwarding = stored[StoredBridge].forwarding if stored else None
    return _encoded(forwarding) if forwarding else None


def _parts_at(place: PlaceParts | None) -> dict[str, Versioned]:
    """What mechanisms that the first format had not have at a place, by their keys."""
    return {
        kept.key: written(kept, part)
        for each, kept in _kept_at_places()
        if place and (part := place.get(each.part)) is not None
    }


def _is_alone(settings: PortSettings) -> bool:
    return not any(map(settings.get, (PortGates, TalkerStreams, BridgeForwarding)))


def _kept_at_places() -> Iterator[tuple[AtPlace[Any], Kept[Any]]]:
    return ((each, each.kept) for each in at_places() if each.kept)


@dataclass(frozen=True, slots=True)
class _Where:
    """A NETCONF server."""

    address: str
    port: int = 830
    user: str | None = None


@dataclass(frozen=True, slots=True)
class _Talkers:
    """What the talkers of a port are told; `gates` are those of the port where a rollout owns
    them."""

    streams: tuple[TalkerStream, ...]
    gates: PortConfiguration | None = None
    owns_gates: bool = False


@dataclass(frozen=True, slots=True)
class _Table:
    base_time_ns: int
    configuration: _Talkers


@dataclass(frozen=True, slots=True)
class _Stored:
    """The gates and the talkers of a stored port; a bridge has its `forwarding` elsewhere. An edit
    reads the tables anew."""

    configuration: PortConfiguration | None
    base_time_ns: int
    dscps: frozenset[int]
    extras: tuple[str, ...] = ()
    talker: _Table | None = None
    forwarding: None = None
    is_draft: bool = False
    has_interface_gates: bool = False


def _stored(its: StoredPort) -> _Stored:
    gates, told = its[StoredGates], its.get(TalkerTable)
    return _Stored(
        gates.configuration,
        gates.base_time_ns,
        gates.dscps,
        gates.extras,
        _Table(told.base_time_ns, _Talkers(told.configuration.streams)) if told else None,
        is_draft=gates.is_draft,
        has_interface_gates=gates.has_interface_gates,
    )


def _stored_parts(its: _Stored, *, is_bridge: bool) -> Iterator[object]:
    gates = StoredGates(
        its.configuration,
        its.base_time_ns,
        its.dscps,
        its.extras,
        is_draft=its.is_draft,
        has_interface_gates=its.has_interface_gates,
    )
    # Of a bridge, and of a port with talkers alone, there are none.
    if gates != StoredGates() or not (is_bridge or its.talker):
        yield gates
    if told := its.talker:
        yield TalkerTable(told.base_time_ns, TalkerStreams(told.configuration.streams))


def _of_port(settings: PortSettings) -> PortConfiguration | _Talkers | None:
    """What is asked of a port; None of a port without gates, and of a bridge."""
    gates, talkers = settings.get(PortGates), settings.get(TalkerStreams)
    configuration = gates.configuration if gates else None
    if talkers is None:
        return configuration
    return _Talkers(talkers.streams, configuration, owns_gates=gates is not None)


def _settings(of_port: PortConfiguration | _Talkers | None) -> list[object]:
    if isinstance(of_port, _Talkers):
        gates = [PortGates(of_port.gates)] if of_port.owns_gates else []
        return [TalkerStreams(of_port.streams), *gates]
    return [PortGates(of_port)]


def change_from_octets(octets: bytes, outcome: Outcome, detail: str) -> SwitchChange:
    """The change with its outcome. Raises UnknownPartError if it has what this program does not
    know, another ValueError if `octets` hold no change."""
    document = _document().model_validate_json(_inflated(octets), strict=True)
    before = {
        name: its and [*_stored_parts(its, is_bridge=name in document.bridges)]
        for name, its in document.before.items()
    }
    after = {name: _settings(its) for name, its in document.after.items()}
    for name, bridge in document.bridges.items():
        if bridge.before and (stored := before[name]) is not None:
            stored.append(StoredBridge(_decoded(bridge.before)))
        after[name] = [_decoded(bridge.after)]
    for name, at in document.parts.items():
        if (stored := before[name]) is not None:
            stored += _decoded_at(at.before)
        after[name] = [*([] if at.is_alone else after[name]), *_decoded_at(at.after)]
    where = document.management
    return SwitchChange(
        Management(where.address, where.port, where.user, document.profile),
        {n: None if parts is None else StoredPort.of(*parts) for n, parts in before.items()},
        {name: PortSettings.of(*parts) for name, parts in after.items()},
        outcome,
        detail,
    )


def plan_to_octets(plan: Plan) -> bytes:
    """Raises CncError if the plan is too long."""
    return _deflated(planfile.dump(plan))


def plan_from_octets(octets: bytes, source: str) -> Plan:
    """The plan; `source` names it in an `InputError`. Raises ValueError for octets without text."""
    return planfile.parse(_inflated(octets).decode(), source)


def _deflated(text: str) -> bytes:
    octets = text.encode()
    if len(octets) > TEXT_MAX_OCTETS:
        raise CncError(
            f"the rollout cannot be recorded: {len(octets)} octets, expected at most "
            f"{TEXT_MAX_OCTETS}",
            hint="divide the network into several intents",
        )
    return zlib.compress(octets)


def _inflated(octets: bytes) -> bytes:
    inflating = zlib.decompressobj()
    try:
        text = inflating.decompress(octets, TEXT_MAX_OCTETS + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(text) > TEXT_MAX_OCTETS:
        raise ValueError(f"it inflates to more than {TEXT_MAX_OCTETS} octets")
    if not inflating.eof:
        raise ValueError("it is cut short")
    return text


@dataclass(frozen=True, slots=True)
class _Entry:
    """A filtering entry."""

    address: StreamAddress
    ports: tuple[str, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class _AtPlace:
    """What mechanisms that the first format had not have at a port, by their keys; `is_alone`:
    nothing else is asked there."""

    before: dict[str, Versioned]
    after: dict[str, Versioned]
    is_alone: bool = False


@cache
def _forwarding() -> Any:
    """`BridgeForwarding` without objects as keys: the parts of mechanisms are lists of rows."""
    parts: dict[str, Any] = {
        each.kept.key: (rows_of(each.kept), ()) if _is_first(each.kept) else _raised()
        for each in MECHANISMS
        if each.kept.key in _FIRST
    }
    return create_model(
        "Forwarding",
        entries=tuple[_Entry, ...],
        vlans=Mapping[int, tuple[str, ...]],
        trusting=tuple[str, ...],
        parts=(dict[str, Versioned], Field({}, exclude_if=lambda its: not its)),
        **parts,
    )


def _raised() -> Any:
    """Rows that the first format has of a kind whose version was raised since: they are read, and
    no longer written."""
    return tuple[Any, ...], Field((), exclude_if=lambda its: not its)


def _is_first(kept: Kept[Any]) -> bool:
    return kept.key in _FIRST and kept.version == 1


def _encoded(forwarding: BridgeForwarding) -> Any:
    return _forwarding()(
        entries=tuple(
            _Entry(address, ports, forwarding.names.get(address))
            for address, ports in forwarding.entries.items()
        ),
        vlans=forwarding.vlans,
        trusting=forwarding.trusting,
        parts={
            each.kept.key: written(each.kept, forwarding[each.part])
            for each in MECHANISMS
            if not _is_first(each.kept) and forwarding[each.part] != each.part()
        },
        **{
            each.kept.key: tuple(each.kept.rows(forwarding[each.part]))
            for each in MECHANISMS
            if _is_first(each.kept)
        },
    )


def _decoded(stored: Any) -> BridgeForwarding:
    _refuse_unknown(stored)
    return BridgeForwarding(
        entries={each.address: each.ports for each in stored.entries},
        vlans=stored.vlans,
        trusting=stored.trusting,
        names={each.address: each.name for each in stored.entries if each.name is not None},
        parts=each_part(lambda each: _part(each.kept, stored)),
    )


def _part(kept: Kept[Any], stored: Any) -> Any:
    found = stored.parts.get(kept.key)
    if found is None:
        rows = getattr(stored, kept.key) if kept.key in _FIRST else ()
        return kept.part(rows) if _is_first(kept) or not rows else kept.former[1]([*rows])
    return read(kept, found)


def _decoded_at(parts: Mapping[str, Versioned]) -> list[object]:
    """What mechanisms that the first format had not have at a place."""
    known = {kept.key: kept for _, kept in _kept_at_places()}
    refuse_unknown({key: its.version for key, its in parts.items()}, known)
    return [read(known[key], its) for key, its in parts.items()]


def _refuse_unknown(stored: Any) -> None:
    known = {each.kept.key: each.kept for each in MECHANISMS}
    versions = {key: 1 for key in _FIRST if getattr(stored, key)}
    versions |= {key: its.version for key, its in stored.parts.items()}
    refuse_unknown(versions, known)


@cache
def _document() -> Any:
    bridge: Any = create_model("Bridge", before=_forwarding() | None, after=_forwarding())
    return create_model(
        "Document",
        format=Literal["cnc-change/1", "cnc-change/2", "cnc-change/3", "cnc-change/4"],
        management=_Where,
        profile=(Profile | None, Field(None, exclude_if=lambda its: its is None)),
        before=dict[str, _Stored | None],
        after=dict[str, PortConfiguration | _Talkers | None],
        bridges=(dict[str, bridge], {}),
        parts=(dict[str, _AtPlace], Field({}, exclude_if=lambda its: not its)),
    )
