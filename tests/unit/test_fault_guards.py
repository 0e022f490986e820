"""How the fault matrix tells whose stream filters and sequence functions bridges have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.mechanisms.frer import model as frer
from agent.mechanisms.frer.model import Address, FrerState, Generated, Recovered
from agent.mechanisms.stream_filters import model as stream_filters
from agent.mechanisms.stream_filters.model import (
    FilterTable,
    Frames,
    Gate,
    GateList,
    RunningGate,
    Setting,
    StreamFilter,
    StreamFilterState,
)
from agent.model import PortState
from cnc.check.transition import judge_transition
from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.frer.model import Generation, SequenceFunction, SequenceFunctions, ports_of
from cnc.mechanisms.stream_filters.model import (
    FilteredStream,
    FixedGate,
    Policing,
    StreamFilters,
    StreamGate,
    WindowGate,
)
from cnc.model import BridgeForwarding, Plan
from cnc.plans.transition import transition
from tests.fault import guards, ways
from tests.fault.copies import kept
from tests.fault.kernels import Side
from tests.fault.network import STRUCK, Subject, two_plans


@pytest.fixture(scope="module")
def guarded() -> tuple[Plan, Plan]:
    return two_plans(Subject.GUARDED)


def test_filters_and_functions_come_change_and_go_at_the_switch_that_is_struck(
    guarded: tuple[Plan, Plan],
):
    old, new = (guards.planned(plan) for plan in guarded)
    for kind in (guards.Filtered, guards.Sequenced):
        at_struck = {
            frozenset(each.address for each in side if isinstance(each, kind))
            for side in (
                {each for each in side if each.switch == STRUCK}
                for side in (old - new, new - old, old & new)
            )
        }
        assert len(at_struck) == 3
        assert all(at_struck)
    there, back = guarded, guarded[::-1]
    for before, after in (there, back):
        assert judge_transition(after, before, transition(before, after)) == []


def test_two_streams_have_the_same_frames_and_functions_in_both_schedules(
    guarded: tuple[Plan, Plan],
):
    assert kept(*guarded) == ("there", "back")


def test_streams_whose_listener_gets_both_copies_are_not_sent(guarded: tuple[Plan, Plan]):
    old, _ = guarded
    assert kept(old, old) == ("there", "back", "longer", "plain")


def in_memory(plan: Plan, base_time_ns: int = 0) -> ways.States:
    """The ports of all bridges as agents set them that are told what a plan has."""
    return {switch: _ports(its, base_time_ns) for switch, its in bridge_forwardings(plan).items()}


def test_bridges_are_on_the_side_whose_guards_they_all_have(guarded: tuple[Plan, Plan]):
    for plan, side in zip(guarded, (Side.OLD, Side.NEW), strict=True):
        assert guards.side(in_memory(plan), *guarded) is side
    first, second = (in_memory(plan) for plan in guarded)
    assert guards.side({**first, STRUCK: second[STRUCK]}, *guarded) is Side.NEITHER
    assert guards.side({**first, STRUCK: {}}, *guarded) is Side.NEITHER


def test_what_both_schedules_guard_alike_tells_no_side(guarded: tuple[Plan, Plan]):
    old, new = guarded
    assert guards.side(in_memory(old), old, old) is None
    assert guards.side(in_memory(new), old, old) is Side.NEITHER


def test_a_gate_that_waits_for_its_list_is_on_no_side(guarded: tuple[Plan, Plan]):
    old, _ = guarded
    assert guards.side(in_memory(old, base_time_ns=2**62), *guarded) is Side.NEITHER


def _ports(forwarding: BridgeForwarding, base_time_ns: int) -> dict[str, PortState]:
    numbered = dict(enumerate(forwarding[StreamFilters].filters, 1))
    tables: dict[str, dict[Frames, StreamFilter]] = {}
    running = {}
    for number, its in numbered.items():
        gate = Gate(number, *_rule(its.gate, base_time_ns))
        address = its.of if isinstance(its.of, FilteredStream) else None
        frames = (
            Frames(address.destination_mac, address.vlan_id, its.priority)
            if address
            else Frames(None, 0, its.priority)
        )
        only_counts = its.policing is not Policing.DROP
        octets = its.max_sdu_octets
        table = tables.setdefault(its.of.port, {})
        table[frames] = StreamFilter(number, 1, 6, octets, gate, None, only_counts)
        running[number] = RunningGate(Setting(), base_time_ns)
    filters = StreamFilterState(FilterTable(tables), running)
    ports = {"br0": _port("br0", 1).with_part(filters)}
    for at, (address, its) in enumerate(forwarding[SequenceFunctions].by_stream.items(), 2):
        named = Address(address.destination_mac.upper().replace(":", "-"), address.vlan_id)
        for port in ports_of(its):
            before = ports.get(port, _port(port, at))
            ports[port] = before.with_part(_with_function(before[FrerState], named, its))
    return ports


def _port(name: str, index: int) -> PortState:
    return PortState(name, index, tx_queues=1, link_speed_bps=None, root_qdisc="noqueue")


def _rule(gate: StreamGate, base_time_ns: int) -> tuple[Setting | None, GateList | None]:
    if not isinstance(gate, WindowGate):
        return (None if gate is FixedGate.OPEN else Setting(is_open=False)), None
    entries = (
        stream_filters.GateEntry(Setting(), gate.open_ns, gate.octets_max),
        stream_filters.GateEntry(Setting(is_open=False), gate.period_ns - gate.open_ns),
    )
    start_ns = base_time_ns // gate.period_ns * gate.period_ns + gate.start_ns
    return Setting(), GateList(start_ns, gate.period_ns, entries)


def _with_function(state: FrerState, address: Address, its: SequenceFunction) -> FrerState:
    if isinstance(its, Generation):
        return replace(state, generated=state.generated | {Generated(1, address, 1)})
    recovery = frer.Recovery(1, "vector", its.history_length, its.reset_timeout_ms)
    return replace(state, recovered=state.recovered | {Recovered(1, address, recovery)})
