"""Which frames bridges take in, number, and pass on once: of which schedule is that?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from agent.kernel import clock
from agent.mechanisms.frer.model import FrerState
from agent.mechanisms.stream_filters.model import Gate, GateList, StreamFilterState
from agent.model import Clock, PortState
from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.frer.model import Generation, SequenceFunctions, ports_of
from cnc.mechanisms.stream_filters.model import (
    FilteredStream,
    FixedGate,
    Policing,
    StreamFilters,
    StreamGate,
    WindowGate,
)
from cnc.model import BridgeForwarding, Plan, StreamAddress
from tests.fault.kernels import Side


class Window(NamedTuple):
    """When a gate is open: the instant of TAI modulo the period, in ns; and for how many octets."""

    period_ns: int
    start_ns: int
    open_ns: int
    octets_max: int | None


class Filtered(NamedTuple):
    """What is done with frames of this priority that come in by a port; without an address with
    those of no stream. `window` is a `Window`, or whether the gate is always open."""

    switch: str
    port: str
    address: StreamAddress | None
    priority: int | None
    sdu_octets_max: int
    only_counts: bool
    window: Window | bool


class Sequenced(NamedTuple):
    """What is done with the copies of a stream that come in by a port; a function without history
    gives numbers."""

    switch: str
    port: str
    address: StreamAddress
    history_length: int | None = None
    reset_timeout_ms: int | None = None


Guard = Filtered | Sequenced


def planned(plan: Plan) -> set[Guard]:
    """The filters of a plan, and what it does with copies."""
    return {
        guard
        for switch, its in bridge_forwardings(plan).items()
        for guard in (*_planned_filters(switch, its), *_planned_functions(switch, its))
    }


def side(switches: Mapping[str, Mapping[str, PortState]], old: Plan, new: Plan) -> Side | None:
    """Whose guards all bridges have, by the state of the ports of each; None where both plans have
    these. A gate that waits for its list is on no side."""
    present = set[Guard]()
    for switch, ports in switches.items():
        for name, state in ports.items():
            filters = state[StreamFilterState]
            now_ns = clock.now_ns(Clock.TAI)
            if any(each.is_pending(now_ns) for each in filters.running.values()):
                return Side.NEITHER
            present.update(_filters(switch, filters), _functions(switch, name, state[FrerState]))
    sides = [its for its, plan in ((Side.OLD, old), (Side.NEW, new)) if present == planned(plan)]
    if not sides:
        return Side.NEITHER
    return sides[0] if len(sides) == 1 else None


def _planned_filters(switch: str, forwarding: BridgeForwarding) -> Iterator[Filtered]:
    for its in forwarding[StreamFilters].filters:
        yield Filtered(
            switch,
            its.of.port,
            its.of.address if isinstance(its.of, FilteredStream) else None,
            its.priority,
            its.max_sdu_octets,
            its.policing is not Policing.DROP,
            _planned_window(its.gate),
        )


def _planned_window(gate: StreamGate) -> Window | bool:
    if not isinstance(gate, WindowGate):
        return gate is FixedGate.OPEN
    start_ns = gate.start_ns % gate.period_ns
    return Window(gate.period_ns, start_ns, gate.open_ns, gate.octets_max)


def _planned_functions(switch: str, forwarding: BridgeForwarding) -> Iterator[Sequenced]:
    for address, its in forwarding[SequenceFunctions].by_stream.items():
        numbers = isinstance(its, Generation)
        facts = () if numbers else (its.history_length, its.reset_timeout_ms)
        for port in ports_of(its):
            yield Sequenced(switch, port, address, *facts)


def _filters(switch: str, state: StreamFilterState) -> Iterator[Filtered]:
    for port, table in state.table.ports.items():
        for frames, its in table.items():
            yield Filtered(
                switch,
                port,
                None if frames.mac is None else _address(frames.mac, frames.vlan_id),
                frames.priority,
                its.max_sdu_octets,
                its.only_counts,
                _window(its.gate),
            )


def _window(gate: Gate) -> Window | bool:
    rule = gate.rule
    if not isinstance(rule, GateList):
        return rule.is_open
    (first, *rest) = rule.entries
    if any(each.setting.is_open for each in rest) or not first.setting.is_open:
        return False
    start_ns = rule.base_ns % rule.cycle_ns
    return Window(rule.cycle_ns, start_ns, first.interval_ns, first.octets_max)


def _functions(switch: str, port: str, state: FrerState) -> Iterator[Sequenced]:
    for numbered in state.generated:
        yield Sequenced(switch, port, _address(*numbered.address))
    for recovered in state.recovered:
        for its in recovered.functions:
            address = _address(*recovered.address)
            yield Sequenced(switch, port, address, its.history_length, its.reset_timeout_ms)


def _address(mac: str, vlan_id: int) -> StreamAddress:
    return StreamAddress(mac.replace("-", ":").lower(), vlan_id)
