"""The latencies that plans promise are bounds, on networks that do their worst."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cnc.errors import Unschedulable
from cnc.model import GateControlList, GateEntry, Intent, Plan, PortRef
from cnc.planner import plan
from tests.unit.gate_simulator import Outcome, simulate
from tests.unit.planner_networks import (
    LINE,
    MS,
    US,
    examples,
    intent,
    intents,
    stream,
    with_links,
)


def assert_promises_hold(planned: Plan, outcome: Outcome) -> None:
    assert outcome.late(planned) == []
    assert outcome.stuck == []


@examples(max_examples=250)
@given(intents(streams_max=8, entries_max=st.just(0) | st.integers(16, 64)), st.integers(0, 1000))
def test_no_frame_is_later_than_its_bound_and_none_stays_in_a_queue(
    wanted: Intent, seed: int
) -> None:
    try:
        planned = plan(wanted, algorithm="waiting", best_effort=True)
    except Unschedulable:
        return
    assert_promises_hold(planned, simulate(planned, seed, duration_ns=3 * MS))


@examples(max_examples=100)
@given(
    limit=st.integers(4, 30),
    periods_us=st.lists(st.sampled_from([250, 500, 1000]), min_size=3, max_size=12),
    jitter_ns=st.integers(0, 20_000),
    seed=st.integers(0, 1000),
)
def test_frames_that_leave_early_where_a_list_is_short_spoil_nothing(
    limit: int, periods_us: list[int], jitter_ns: int, seed: int
) -> None:
    streams = [
        stream(f"f{i}", "t", "l", period_ns=period * US) for i, period in enumerate(periods_us)
    ]
    net = replace(
        LINE,
        bridges={
            name: replace(bridge, processing_max_ns=bridge.processing_min_ns + jitter_ns)
            for name, bridge in LINE.bridges.items()
        },
    )
    wanted = with_links(intent(net, *streams), gate_entries_max=limit)
    try:
        planned = plan(wanted, algorithm="waiting", best_effort=True)
    except Unschedulable:
        return
    assert_promises_hold(planned, simulate(planned, seed, duration_ns=4 * MS))


def test_the_bound_is_the_least_there_is() -> None:
    """With every clock, switch and control frame at its worst a frame takes just as long."""
    planned = plan(intent(LINE, stream("a", "t", "l")))
    outcome = simulate(planned, seed=1, duration_ns=300 * MS, loss=0)
    assert len(outcome.latencies_ns) == 300
    slowest = max(latency for _, latency in outcome.latencies_ns)
    bound = planned.streams["a"].latency_bound_ns
    assert bound - planned.intent.network.clock_error_ns <= slowest <= bound


def two_streams() -> Plan:
    return plan(intent(LINE, stream("a", "t", "l"), stream("b", "t", "l")))


def test_a_gate_that_opens_late_makes_frames_late_in_the_simulator_too() -> None:
    planned = two_streams()
    port = PortRef("s2", "l")
    cycle = planned.gates[port].cycle_ns
    late = GateControlList(cycle, (GateEntry(0x81, cycle // 2), GateEntry(0xC0, cycle // 2)))
    broken = replace(planned, gates={**planned.gates, port: late})
    assert simulate(broken, seed=1, duration_ns=3 * MS).late(broken)


def test_a_gate_that_never_opens_leaves_frames_behind_in_the_simulator_too() -> None:
    planned = two_streams()
    port = PortRef("s2", "l")
    shut = GateControlList(planned.gates[port].cycle_ns, (GateEntry(0x81, MS),))
    broken = replace(planned, gates={**planned.gates, port: shut})
    assert {f.stream for f in simulate(broken, seed=1, duration_ns=3 * MS).stuck} == {"a", "b"}


def test_best_effort_without_a_guard_band_takes_the_window_in_the_simulator_too() -> None:
    planned = plan(intent(LINE, stream("a", "t", "l", earliest_ns=100 * US)))
    unguarded = {
        port: replace(
            gates,
            entries=tuple(
                replace(e, gate_states=0x81) if e.gate_states == 0x80 else e for e in gates.entries
            ),
        )
        for port, gates in planned.gates.items()
    }
    broken = replace(planned, gates=unguarded)
    assert simulate(broken, seed=1, duration_ns=30 * MS).stuck
