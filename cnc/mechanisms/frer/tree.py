"""Copies of frames that a switch numbers, and of which it takes second ones out: to the YANG tree,
and read back.

`/frer` of IEEE 802.1CB's module refers to streams by the handles of `/stream-identity`
(`cnc.mechanisms.handles`). `sequence-generation` gives the frames of a stream their
numbers, in the direction into the relay, and `sequence-recovery` drops second copies as they come
from the wire; `sequence-identification` says at which ports numbers are written and read as R-TAG.
Of each table one entry is one stream's, but of the last, which has one for each port and direction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import count

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.counters import RECOVERY_COUNTERS, PortCounters
from cnc.data_tree.reply import Element, Reply
from cnc.data_tree.tree import FRER, INTERFACES, NETCONF, TSN_LINUX, BridgeReport
from cnc.mechanism import Edit, Stored, Tree
from cnc.mechanisms.composition import known_streams
from cnc.mechanisms.frer.model import (
    FoundErrors,
    Generation,
    LatentErrorDetection,
    LatentErrors,
    Recovery,
    SequenceFunction,
    SequenceFunctions,
    StoredSequencing,
    ports_of,
)
from cnc.model import StreamAddress

_FRER = ElementMaker(namespace=FRER, nsmap={None: FRER})
_NAMESPACES = {"f": FRER, "if": INTERFACES}
_LEAVES = reply.Leaves(FRER)
_LINUX = reply.Leaves(TSN_LINUX)
_OPERATION = f"{{{NETCONF}}}operation"
_REPLACE = {_OPERATION: "replace"}
_REMOVE = {_OPERATION: "remove"}
_GENERATION = "sequence-generation"
_RECOVERY = "sequence-recovery"
_IDENTIFICATION = "sequence-identification"
_DETECTION = "latent-error-detection"
_COUNTERS = {
    name: "rx-resets" if name == "resets" else f"rx-{name}-pkts" for name in RECOVERY_COUNTERS
}


# --- to the tree ---------------------------------------------------------------------------------


def _edit(parts: Collection[SequenceFunctions], edit: Edit) -> list[Element]:
    """The `<frer>` that sets the sequence functions of a switch's bridges; none where there is
    nothing to set and nothing to remove. What others have stored of other streams stays."""
    handles, obsolete = edit.handles
    stored = edit.tables[StoredSequencing]
    functions = {
        handles[a, ports_of(its)[0]]: its for each in parts for a, its in each.by_stream.items()
    }
    ours = {*handles.values(), *obsolete}
    elements = [
        *_entries(_GENERATION, Generation, functions, ours, stored.generations),
        *_entries(_RECOVERY, Recovery, functions, ours, stored.recoveries),
        *_identifications(functions, ours, stored),
    ]
    return [_FRER("frer", *elements)] if elements else []


def _entries(
    table: str,
    kind: type[SequenceFunction],
    functions: Mapping[int, SequenceFunction],
    ours: set[int],
    stored: Mapping[int, tuple[int, ...]],
) -> Iterator[Element]:
    """The entries of a table: those that are there keep their index."""
    indexes = {its[0]: index for index, its in stored.items() if len(its) == 1 and its[0] in ours}
    wanted = {handle for handle, its in functions.items() if isinstance(its, kind)}
    kept = {indexes[handle] for handle in wanted & indexes.keys()}
    for index, its in sorted(stored.items()):
        if ours.issuperset(its) and index not in kept:
            yield _FRER(table, _REMOVE, _FRER("index", str(index)))
    free = (number for number in count(1) if number not in stored)
    for handle in sorted(wanted):
        index = indexes[handle] if handle in indexes else next(free)
        yield _FRER(
            table,
            _REPLACE,
            _FRER("index", str(index)),
            _FRER("stream", str(handle)),
            *_parameters(functions[handle]),
        )


def _parameters(function: SequenceFunction) -> Iterator[Element]:
    if isinstance(function, Generation):
        yield _FRER("direction-out-facing", "false")
        return
    yield from (_FRER("port", port) for port in function.ports)
    yield _FRER("direction-out-facing", "true")
    yield _FRER("algorithm", _FRER("vector"))
    yield _FRER("history-length", str(function.history_length))
    yield _FRER("reset-timeout", str(function.reset_timeout_ms))
    # Where a first switch fails to number frames, two copies are better than none.
    yield _FRER("take-no-sequence", "true")
    if watched := function.latent_errors:
        yield _FRER(_DETECTION, "true")
        yield _FRER(
            f"{_DETECTION}-parameters",
            _FRER("difference", str(watched.difference)),
            _FRER("period", str(watched.period_ms)),
            _FRER("paths", str(watched.paths)),
            _FRER("reset-period", str(watched.reset_period_ms)),
        )


def _identifications(
    functions: Mapping[int, SequenceFunction], ours: set[int], stored: StoredSequencing
) -> Iterator[Element]:
    wanted: defaultdict[tuple[str, bool], set[int]] = defaultdict(set)
    for handle, function in functions.items():
        for port in ports_of(function):
            wanted[port, isinstance(function, Recovery)].add(handle)
    for place, handles in stored.identifications.items():
        if place in wanted or not ours.isdisjoint(handles):
            wanted[place] |= {*handles} - ours
    for (port, is_out_facing), its in sorted(wanted.items()):
        key = _FRER("port", port), _FRER("direction-out-facing", str(is_out_facing).lower())
        if its:
            yield _FRER(
                _IDENTIFICATION,
                _REPLACE,
                *key,
                *(_FRER("stream", str(handle)) for handle in sorted(its)),
                _FRER("active", "true"),
                _FRER("encapsulation", _FRER("r-tag")),
            )
        else:
            yield _FRER(_IDENTIFICATION, _REMOVE, *key)


# --- from the tree -------------------------------------------------------------------------------


def _tables_filter() -> list[Element]:
    """All tables of a switch, or the counters of an interface."""
    return [_FRER("frer")]


def _stored(whole: Reply) -> StoredSequencing:
    """Which entries the tables of a switch have, and of which streams."""
    data = whole.data
    return StoredSequencing(
        {_LEAVES.number(entry, "index"): _streams(entry) for entry in _table(data, _GENERATION)},
        {_LEAVES.number(entry, "index"): _streams(entry) for entry in _table(data, _RECOVERY)},
        {
            (_LEAVES.required(entry, "port"), _is_out_facing(entry)): _streams(entry)
            for entry in _table(data, _IDENTIFICATION)
        },
    )


def _functions(whole: Reply) -> dict[StreamAddress, SequenceFunction]:
    """What a switch does with the copies of streams, by address.

    A function of which something is missing, or is otherwise than any rollout sets it, is left out.
    """
    data, known = whole.data, known_streams(whole)
    written: defaultdict[int, set[str]] = defaultdict(set)
    read: defaultdict[int, set[str]] = defaultdict(set)
    for entry in _table(data, _IDENTIFICATION):
        if _LEAVES.text(entry, "active") == "true" and _has(entry, "encapsulation/f:r-tag"):
            places = read if _is_out_facing(entry) else written
            for handle in _streams(entry):
                places[handle].add(_LEAVES.required(entry, "port"))
    by_handle: dict[int, SequenceFunction] = {}
    for entry in _table(data, _GENERATION):
        for handle in _streams(entry):
            if not _is_out_facing(entry) and len(written[handle]) == 1:
                (port,) = written[handle]
                by_handle[handle] = Generation(port)
    for entry in _table(data, _RECOVERY):
        if function := _recovery(entry):
            ports = {*function.ports}
            by_handle |= {its: function for its in _streams(entry) if ports <= read[its]}
    return {
        known[handle].address: function
        for handle, function in by_handle.items()
        if handle in known and {*ports_of(function)} <= {*known[handle].ports}
    }


def _recovery(entry: Element) -> Recovery | None:
    """The function of an entry; None where it is otherwise than any rollout sets it."""
    ports = {
        reply.short(each.text or "", "port") for each in reply.entries(entry, "f:port", _NAMESPACES)
    }
    history, reset_timeout = (
        _LEAVES.text(entry, "history-length"),
        _LEAVES.text(entry, "reset-timeout"),
    )
    is_ours = (
        _is_out_facing(entry)
        and _has(entry, "algorithm/f:vector")
        and _LEAVES.text(entry, "take-no-sequence") == "true"
        and _LEAVES.text(entry, "individual-recovery") != "true"
    )
    if not is_ours or history is None or reset_timeout is None:
        return None
    return Recovery(
        tuple(sorted(ports)),
        reply.number(history, "history-length"),
        reply.number(reset_timeout, "reset-timeout"),
        _detection(entry),
    )


def _detection(entry: Element) -> LatentErrorDetection | None:
    """How the function is watched; None where it is not, or otherwise than any rollout sets it."""
    parameters = entry.find(f"f:{_DETECTION}-parameters", _NAMESPACES)
    if _LEAVES.text(entry, _DETECTION) != "true" or parameters is None:
        return None
    leaves = ("difference", "paths", "period", "reset-period")
    stated = [_LEAVES.optional_number(parameters, leaf) for leaf in leaves]
    known = [value for value in stated if value is not None]
    return LatentErrorDetection(*known) if known == stated else None


def _latent_errors(whole: Reply) -> dict[StreamAddress, LatentErrors]:
    """What a switch has found where it is watched that copies come by all ways, by address."""
    known = known_streams(whole)
    found: dict[StreamAddress, LatentErrors] = {}
    for entry in _table(whole.data, _RECOVERY):
        state = entry.find("t:latent-errors", {"t": TSN_LINUX})
        if state is None:
            continue
        its = LatentErrors(
            _LINUX.text(state, "detected") == "true",
            _LINUX.optional_number(state, "difference") or 0,
            _LINUX.optional_number(state, "errors") or 0,
        )
        found |= {known[handle].address: its for handle in _streams(entry) if handle in known}
    return found


def _reported(report: BridgeReport, whole: Reply, _component: Element) -> BridgeReport:
    part = SequenceFunctions(whole.once(_functions))
    return replace(
        report,
        forwarding=report.forwarding.having(part),
        counts=report.counts.having(FoundErrors(whole.once(_latent_errors))),
    )


def _counted(counters: PortCounters, whole: Reply, interface: Element) -> PortCounters:
    """The counters of copies that come in from the wire, by the address of their stream."""
    path = "if:statistics/f:frer/f:per-port-per-stream-counters"
    found: dict[StreamAddress, Mapping[str, int]] = {}
    for row in reply.rows(interface, path, _NAMESPACES):
        if row.leaves.get("direction-out-facing") == "true":
            counts = {
                name: row.number(leaf) for name, leaf in _COUNTERS.items() if leaf in row.leaves
            }
            if known := known_streams(whole).get(row.number("handle")):
                found[known.address] = counts
    return replace(counters, recovery=found)


def _table(data: Element, table: str) -> Iterator[Element]:
    return reply.entries(data, f"f:frer/f:{table}", _NAMESPACES)


def _streams(entry: Element) -> tuple[int, ...]:
    found = reply.entries(entry, "f:stream", _NAMESPACES)
    return tuple(reply.number(each.text or "", "stream") for each in found)


def _is_out_facing(entry: Element) -> bool:
    return _LEAVES.text(entry, "direction-out-facing") == "true"


def _has(entry: Element, path: str) -> bool:
    return entry.find(f"f:{path}", _NAMESPACES) is not None


TREE: Tree[SequenceFunctions] = Tree(
    filters=_tables_filter,
    port_statistics=_tables_filter,
    stored=lambda whole, _component: Stored(
        SequenceFunctions(whole.once(_functions)), whole.once(_stored)
    ),
    reported=_reported,
    counted=_counted,
    edit=_edit,
)
