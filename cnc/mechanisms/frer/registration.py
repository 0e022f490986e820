"""Frame replication and elimination, as the controller asks for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from cnc.mechanism import Changed, Kept, Mechanism, Needs, Planned, Switch, streams_in_words
from cnc.mechanisms.frer.compare import differences
from cnc.mechanisms.frer.derive import ADMISSION, derive, exposed
from cnc.mechanisms.frer.model import (
    Generation,
    Recovery,
    SequenceFunction,
    SequenceFunctions,
    ports_of,
)
from cnc.mechanisms.frer.preflight import preflight
from cnc.mechanisms.frer.shown import SHOWN
from cnc.mechanisms.frer.watched import WATCHED
from cnc.model import StreamAddress
from cnc.support.lazy import lazy_import

_JUDGE = lazy_import("cnc.mechanisms.frer.judge")
_SEMANTICS = lazy_import("cnc.mechanisms.frer.semantics")
_TREE = lazy_import("cnc.mechanisms.frer.tree")
MODULE = "ieee802-dot1cb-frer"


@dataclass(frozen=True, slots=True)
class _Row:
    """What a switch does with the copies of the frames of a stream."""

    address: StreamAddress
    function: SequenceFunction


def _within(its: SequenceFunctions, vlan_ids: Collection[int]) -> SequenceFunctions:
    return SequenceFunctions(
        {a: each for a, each in its.by_stream.items() if a.vlan_id in vlan_ids}
    )


def _on_ports(its: SequenceFunctions, ports: frozenset[str]) -> SequenceFunctions:
    found: dict[StreamAddress, SequenceFunction] = {}
    for address, function in its.by_stream.items():
        there = tuple(port for port in ports_of(function) if port in ports)
        if isinstance(function, Recovery) and there:
            # Where a port is gone its copies are known to be missing.
            watched = function.latent_errors if there == function.ports else None
            found[address] = replace(function, ports=there, latent_errors=watched)
        elif there:
            found[address] = function
    return SequenceFunctions(found)


def _of_streams(its: SequenceFunctions, addresses: Collection[StreamAddress]) -> SequenceFunctions:
    return SequenceFunctions({a: each for a, each in its.by_stream.items() if a in addresses})


def _rows(its: SequenceFunctions) -> Iterator[_Row]:
    return (_Row(address, function) for address, function in its.by_stream.items())


def _summary(its: SequenceFunctions) -> Iterator[tuple[int, str]]:
    kinds = Counter(type(each) for each in its.by_stream.values())
    yield kinds[Generation], "sequence generation"
    yield kinds[Recovery], "sequence recovery"


MECHANISM = Mechanism(
    name="frer",
    part=SequenceFunctions,
    planned=Planned(derive, exposed=exposed),
    changed=Changed(
        within=_within,
        differences=differences,
        joined=lambda own, former: SequenceFunctions({**former.by_stream, **own.by_stream}),
        on_ports=_on_ports,
        of_streams=_of_streams,
    ),
    switch=Switch(
        modules=("ieee802-dot1cb-stream-identification", MODULE),
        kernel=Needs("eliminate duplicate frames", "state `elimination: listener`"),
        yang=Needs("eliminate duplicates of", "state `elimination: listener`"),
        concerned=lambda its, names: streams_in_words(its.by_stream, names),
        program="an XDP program",
        refers_to=lambda its, _identified: {
            a: (frozenset(ports_of(each)),) for a, each in its.by_stream.items()
        },
        preflight=preflight,
    ),
    tree=lambda: _TREE.TREE,
    kept=Kept(
        key="sequencing",
        row=_Row,
        rows=_rows,
        part=lambda rows: SequenceFunctions({each.address: each.function for each in rows}),
    ),
    shown=SHOWN,
    admission=ADMISSION,
    keys=lambda: _SEMANTICS.KEYS,
    summary=_summary,
    watched=WATCHED,
    judge=lambda: _JUDGE.JUDGE,
)
