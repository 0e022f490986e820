"""Per-stream filtering and policing, as the controller asks for it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from cnc.mechanism import Changed, Mechanism, Needs, Planned, Switch
from cnc.mechanisms.stream_filters.admission import ADMISSION
from cnc.mechanisms.stream_filters.compare import differences, without_lists
from cnc.mechanisms.stream_filters.derive import beside, derive, exposed, joined
from cnc.mechanisms.stream_filters.kept import KEPT
from cnc.mechanisms.stream_filters.model import (
    CyclicGate,
    FilteredStream,
    Strangers,
    StreamFilters,
    WindowGate,
)
from cnc.mechanisms.stream_filters.preflight import preflight, since
from cnc.mechanisms.stream_filters.shown import SHOWN
from cnc.mechanisms.stream_filters.watched import WATCHED
from cnc.model import StreamAddress
from cnc.support.lazy import lazy_import

_JUDGE = lazy_import("cnc.mechanisms.stream_filters.judge")
_SEMANTICS = lazy_import("cnc.mechanisms.stream_filters.semantics")
_TREE = lazy_import("cnc.mechanisms.stream_filters.tree")
MODULE = "ieee802-dot1q-psfp-bridge"


def _within(its: StreamFilters, vlan_ids: Collection[int]) -> StreamFilters:
    """All filters of strangers are a rollout's: they look at frames of all VLANs."""
    return StreamFilters(
        tuple(
            each
            for each in its.filters
            if isinstance(each.of, Strangers) or each.of.vlan_id in vlan_ids
        )
    )


def _of_streams(its: StreamFilters, addresses: Collection[StreamAddress]) -> StreamFilters:
    return StreamFilters(
        tuple(
            each
            for each in its.filters
            if isinstance(each.of, FilteredStream) and each.of.address in addresses
        )
    )


def _on_ports(its: StreamFilters, ports: frozenset[str]) -> StreamFilters:
    return StreamFilters(tuple(each for each in its.filters if each.of.port in ports))


def _refers_to(
    its: StreamFilters, identified: Collection[StreamAddress]
) -> dict[StreamAddress, set[frozenset[str]]]:
    """A handle for each port: a filter takes the frames that come in by one of them."""
    found: dict[StreamAddress, set[frozenset[str]]] = {}
    for each in its.filters:
        if isinstance(each.of, FilteredStream):
            address = each.of.address
            if address not in identified:
                found.setdefault(address, set()).add(frozenset({each.of.port}))
    return found


def _cycles_ns(its: StreamFilters) -> Iterator[int]:
    for each in its.filters:
        if isinstance(each.gate, WindowGate):
            yield each.gate.period_ns
        elif isinstance(each.gate, CyclicGate):
            yield 2 * each.gate.interval_ns


MECHANISM = Mechanism(
    name="stream_filters",
    part=StreamFilters,
    planned=Planned(derive, beside=beside, exposed=exposed, cycles_ns=_cycles_ns),
    changed=Changed(
        within=_within,
        differences=differences,
        joined=joined,
        on_ports=_on_ports,
        of_streams=_of_streams,
        while_clock_settles=without_lists,
    ),
    switch=Switch(
        modules=(MODULE,),
        kernel=Needs(
            "police what end stations send, or tell intervals apart",
            "state `policing: off` and no `shaping: cqf`",
        ),
        yang=Needs("police what", "state `policing: off`"),
        concerned=lambda its, _names: "end stations send" if its.filters else "",
        program="a BPF program",
        refers_to=_refers_to,
        since=since,
        preflight=preflight,
    ),
    tree=lambda: _TREE.TREE,
    kept=KEPT,
    shown=SHOWN,
    admission=ADMISSION,
    keys=lambda: _SEMANTICS.KEYS,
    summary=lambda its: iter([(len(its.filters), "stream filter")]),
    watched=WATCHED,
    judge=lambda: _JUDGE.JUDGE,
)
