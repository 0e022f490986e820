"""Gates of a talker keep its own best effort back while its streams are due."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from cnc import intent as intents
from cnc.check import judge
from cnc.errors import InputError, Unschedulable
from cnc.model import (
    GateControlList,
    GateEntry,
    GateLimits,
    GateMode,
    Intent,
    Plan,
    PortRef,
    TalkerInterference,
)
from cnc.planner import Live, plan
from tests.simulator.adversary import Chance
from tests.simulator.outcome import is_kept, missed, starved
from tests.simulator.ports import LateFrame
from tests.unit.planner_networks import (
    BEST_EFFORT,
    CYCLIC,
    LINE,
    MS,
    intent,
    network,
    stream,
)

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
BEST_EFFORT_NS = (BEST_EFFORT.max_frame_octets + 20) * 8 + 2
CONTROL_NS = (128 + 20) * 8
FRAME_NS = (100 + 22 + 20) * 8
BEST_EFFORT_BIT, CYCLIC_BIT = 1 << BEST_EFFORT.number, 1 << CYCLIC.number
PORT = PortRef("t", "s1")
MANAGED = {"management": "10.99.0.11", "gates": "software"}


def gated(wanted: Intent, *talkers: str, mode: GateMode = GateMode.SOFTWARE) -> Intent:
    stations = {
        name: replace(its, gate_mode=mode, interference=TalkerInterference.NONE)
        if name in talkers
        else its
        for name, its in wanted.network.end_stations.items()
    }
    return replace(wanted, network=replace(wanted.network, end_stations=stations))


def three(**changes: Any) -> Intent:
    return gated(
        intent(LINE, *(stream(name, "t", "l", **changes) for name in ("a", "b", "c"))), "t"
    )


@pytest.fixture
def planned() -> Plan:
    return plan(three())


@pytest.fixture
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(LINE3.read_text())
    loaded["end-stations"] = {name: {} for name in ("t1", "t2", "l1", "l2")}
    return loaded


def refusal(document: dict[str, Any]) -> str:
    with pytest.raises(InputError) as refused:
        intents.from_document(document, "changed")
    return str(refused.value)


def open_ns(gates: GateControlList, mask: int, start_ns: int, end_ns: int) -> int:
    """For how long a gate of `mask` is open from one time to another."""
    edges = [0, *accumulate(entry.interval_ns for entry in gates.entries)]
    return sum(
        max(0, min(end + turn, end_ns) - max(begin + turn, start_ns))
        for turn in (-gates.cycle_ns, 0, gates.cycle_ns)
        for entry, (begin, end) in zip(gates.entries, pairwise(edges), strict=True)
        if entry.gate_states & mask
    )


# --- the intent ----------------------------------------------------------------------------------


def test_a_station_with_gates_has_their_mode_and_keeps_its_best_effort_back(
    document: dict[str, Any],
) -> None:
    document["end-stations"]["t1"] = {**MANAGED, "gates": "full-offload"}
    del document["defaults"]["talker-interference"]
    stations = intents.from_document(document, "changed").network.end_stations
    assert stations["t1"].gate_mode is GateMode.FULL_OFFLOAD
    assert stations["t1"].interference is TalkerInterference.NONE
    assert stations["t2"].gate_mode is None
    assert stations["t2"].interference is TalkerInterference.ONE_FRAME


def test_gates_of_a_station_that_no_push_reaches_are_refused(document: dict[str, Any]) -> None:
    document["end-stations"]["t1"] = {"gates": "software"}
    assert refusal(document).startswith(
        "changed: end-stations.t1.gates: found software without management, expected management as "
        "well, the address at which a push brings the list, or no gates"
    )


def test_best_effort_that_interferes_in_spite_of_gates_is_refused(document: dict[str, Any]) -> None:
    document["end-stations"]["t1"] = {**MANAGED, "talker-interference": "one-frame"}
    assert refusal(document).startswith(
        "changed: end-stations.t1.talker-interference: found one-frame beside gates, expected no "
        "such key: gates keep the station's best effort back"
    )


def test_best_effort_that_would_go_before_a_late_frame_is_refused(document: dict[str, Any]) -> None:
    document["end-stations"]["t1"] = MANAGED
    document["classes"]["bulk"] = {"traffic-class": 7, "priority": 3, "role": "best-effort"}
    document["classes"]["control"]["traffic-class"] = 5
    assert refusal(document).startswith(
        "changed: end-stations.t1.gates: found software and best effort of a higher class, bulk "
        "(7), than scheduled class cyclic (6), expected scheduled classes above best effort, so "
        "that a late frame goes first"
    )


@pytest.mark.parametrize("value", ["yes", True, "hardware"])
def test_another_word_for_gates_is_refused(document: dict[str, Any], value: object) -> None:
    document["end-stations"]["t1"] = {**MANAGED, "gates": value}
    assert "end-stations.t1.gates: found" in refusal(document)
    assert "expected one of software, txtime-assist, full-offload" in refusal(document)


def test_software_gates_of_a_station_need_a_margin_as_those_of_switches_do(
    document: dict[str, Any],
) -> None:
    del document["defaults"]["gate-margin"]
    document["defaults"]["gates"] = "full-offload"
    assert intents.from_document(document, "changed").network.gate_margin_ns == 0
    document["end-stations"]["t1"] = MANAGED
    assert intents.from_document(document, "changed").network.gate_margin_ns == MS


# --- the list ------------------------------------------------------------------------------------


def test_best_effort_is_shut_out_around_each_frame_and_nothing_else_is(planned: Plan) -> None:
    gates = planned.gates[PORT]
    assert {entry.gate_states & CYCLIC_BIT for entry in gates.entries} == {CYCLIC_BIT}
    for its in planned.streams.values():
        (start,) = its.talker_offsets_ns
        end = start + CONTROL_NS + FRAME_NS
        assert open_ns(gates, BEST_EFFORT_BIT, start - BEST_EFFORT_NS, end) == 0
    assert open_ns(gates, BEST_EFFORT_BIT, 0, gates.cycle_ns) > gates.cycle_ns // 2
    assert judge(planned) == []


def test_the_bound_is_that_of_a_talker_without_best_effort(planned: Plan) -> None:
    alone = plan(intent(LINE, *(stream(name, "t", "l") for name in ("a", "b", "c"))))
    assert planned.streams == alone.streams


def test_only_stations_with_gates_have_a_list(planned: Plan) -> None:
    both = intent(network("t-s1", "u-s1", "s1-l"), stream("a", "t", "l"), stream("b", "u", "l"))
    assert PortRef("u", "s1") not in plan(gated(both, "t")).gates
    assert PortRef("u", "s1") in plan(gated(both, "t", "u")).gates
    assert PortRef("l", "s2") not in planned.gates


def test_a_talker_with_two_links_has_a_list_for_each_that_its_streams_leave_by() -> None:
    ring = network("t-s1", "t-s2", "s1-s3", "s2-s3", "s3-l", "s2-m")
    two = plan(gated(intent(ring, stream("a", "t", "l", paths=2)), "t"))
    assert {port for port in two.gates if port.node == "t"} == {
        PortRef("t", "s1"),
        PortRef("t", "s2"),
    }
    assert judge(two) == []
    one = plan(gated(intent(ring, stream("a", "t", "m")), "t"))
    assert {port for port in one.gates if port.node == "t"} == {PortRef("t", "s2")}
    assert judge(one) == []


def test_best_effort_without_any_turn_is_refused_with_the_reason() -> None:
    wanted = three(period_ns=40_000, payload_octets=1_000)
    with pytest.raises(Unschedulable) as refused:
        plan(wanted)
    assert "best effort would starve" in refused.value.reasons[f"port {PORT}"]


def test_a_port_that_holds_few_entries_keeps_best_effort_back_for_longer(planned: Plan) -> None:
    apart = intent(LINE, *(stream(f"f{i}", "t", "l", earliest_ns=i * 100_000) for i in range(8)))
    least = plan(gated(apart, "t"))
    limited = gated(apart.within({PORT: GateLimits(entries_max=5)}), "t")
    short = plan(limited)
    assert len(least.gates[PORT].entries) > 5 >= len(short.gates[PORT].entries)
    assert short.streams == least.streams
    assert judge(short) == []


def test_entries_are_as_long_as_the_port_takes_and_change_at_its_ticks() -> None:
    limits = GateLimits(interval_max_ns=50_000, tick_ns=80)
    wanted = intent(LINE, *(stream(name, "t", "l") for name in ("a", "b"))).within({PORT: limits})
    found = plan(gated(wanted, "t"))
    assert judge(found) == []
    intervals = [entry.interval_ns for entry in found.gates[PORT].entries]
    assert max(intervals) <= 50_000
    assert not any(interval % 80 for interval in intervals)


# --- the judge -----------------------------------------------------------------------------------


def codes(plan: Plan, gates: GateControlList | None) -> set[str]:
    others = {port: its for port, its in plan.gates.items() if port != PORT}
    changed = replace(plan, gates=others | ({PORT: gates} if gates else {}))
    return {violation.code for violation in judge(changed)}


def test_the_judge_misses_a_list(planned: Plan) -> None:
    assert codes(planned, None) == {"gate-missing"}


def test_the_judge_refuses_best_effort_beside_a_planned_frame(planned: Plan) -> None:
    cycle = planned.gates[PORT].cycle_ns
    assert codes(planned, GateControlList(cycle, (GateEntry(0xFF, cycle),))) >= {
        "gate-exclusive",
        "gate-guard",
    }


def test_the_judge_refuses_a_gate_that_a_late_frame_would_wait_for(planned: Plan) -> None:
    gates = planned.gates[PORT]
    *others, last = gates.entries
    closed = replace(last, gate_states=last.gate_states & ~CYCLIC_BIT)
    assert "gate-talker" in codes(planned, replace(gates, entries=(*others, closed)))


def test_the_judge_refuses_a_list_of_a_station_without_gates(planned: Plan) -> None:
    net = planned.intent.network
    stations = {n: replace(its, gate_mode=None) for n, its in net.end_stations.items()}
    without = replace(planned.intent, network=replace(net, end_stations=stations))
    assert [str(each) for each in judge(replace(planned, intent=without))] == [
        "t/s1: is no connected port of a switch, nor of an end station with gates [gate-stray]"
    ]


# --- simulated -----------------------------------------------------------------------------------


def test_frames_keep_their_bound_beside_best_effort_that_gates_keep_back(planned: Plan) -> None:
    assert is_kept(planned, range(3), duration_ns=30 * MS)
    assert not starved(planned)
    cycle = planned.gates[PORT].cycle_ns
    open_all = {**planned.gates, PORT: GateControlList(cycle, (GateEntry(0xFF, cycle),))}
    assert not is_kept(replace(planned, gates=open_all), range(3), duration_ns=30 * MS)


def test_a_late_frame_of_a_gated_talker_is_made_up_for_within_the_promise() -> None:
    net = replace(LINE, disturbance_ns=0)
    streams = [stream(name, "t", "l", max_latency_ns=MS) for name in ("a", "b", "c")]
    found = plan(gated(intent(net, *streams), "t"))
    assert judge(found) == []
    promised = max(found.recovery_ns.values())
    starts = {name: its.talker_offsets_ns[0] for name, its in found.streams.items()}
    for by_ns in range(10_000, 1_000_000, 37_000):
        late = LateFrame("a", 2, by_ns)
        sent_ns = 2 * MS + starts["a"] + by_ns
        for frame, *_ in missed(found, Chance(1), duration_ns=20 * MS, late_frame=late):
            begin_ns = frame.number * MS + starts[frame.flow.name]
            is_itself = frame.flow.name == "a" and frame.number == 2
            assert is_itself or begin_ns < sent_ns + promised


# --- around what runs ----------------------------------------------------------------------------


def test_a_stream_of_a_talker_that_gets_gates_stays_where_it_is(planned: Plan) -> None:
    without = plan(intent(LINE, *planned.intent.streams.values()))
    kept = plan(planned.intent, keep=without)
    assert kept.streams == without.streams
    assert PORT in kept.gates
    assert judge(kept) == []


def test_a_live_planner_keeps_the_lists_of_talkers(planned: Plan) -> None:
    live = Live(planned)
    added = live.add([stream("d", "t", "l")])
    assert PORT in added.gates
    streams = {**planned.intent.streams, "d": stream("d", "t", "l")}
    grown = replace(
        planned,
        intent=replace(planned.intent, streams=streams),
        streams={**planned.streams, **added.streams},
        gates={**planned.gates, **{port: its for port, its in added.gates.items() if its}},
    )
    assert judge(grown) == []
    removed = live.remove(list(streams))
    assert removed.gates[PORT] is None
