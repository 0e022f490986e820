"""Ports whose gates can do less: short intervals, short cycles, a coarse tick."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc import intent as intents_from
from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.model import GateLimits, Intent, Plan, PortRef
from cnc.planner import plan
from cnc.planner.incremental import unchanged
from tests.unit.planner_networks import (
    LINE,
    MS,
    US,
    examples,
    intent,
    intents,
    network,
    stream,
    with_links,
)

SCHEDULES = Path(__file__).parents[2] / "schedules"
BETWEEN = PortRef("s1", "s2")
FAR = stream("a", "t", "l", earliest_ns=100 * US)


def refusal(wanted: Intent) -> str:
    with pytest.raises(Unschedulable) as refused:
        plan(wanted)
    return refused.value.reasons[f"port {BETWEEN}"]


def states_over_time(planned: Plan, port: PortRef) -> list[tuple[int, int]]:
    """Gate states and for how long, neighbours with the same states as one."""
    merged: list[tuple[int, int]] = []
    for entry in planned.gates[port].entries:
        if merged and merged[-1][0] == entry.gate_states:
            merged[-1] = entry.gate_states, merged[-1][1] + entry.interval_ns
        else:
            merged.append((entry.gate_states, entry.interval_ns))
    return merged


def test_an_entry_longer_than_the_port_takes_is_cut_into_equal_ones_with_the_same_gates() -> None:
    free = plan(intent(LINE, FAR))
    limited = plan(with_links(intent(LINE, FAR), BETWEEN, gate_interval_max_ns=300_001))
    assert max(e.interval_ns for e in free.gates[BETWEEN].entries) > 600_003
    entries = limited.gates[BETWEEN].entries
    assert max(e.interval_ns for e in entries) <= 300_001
    assert len(entries) == len(free.gates[BETWEEN].entries) + 2
    assert states_over_time(limited, BETWEEN) == states_over_time(free, BETWEEN)
    assert judge(limited) == []


def test_an_interval_limit_no_cycle_reaches_changes_nothing() -> None:
    free = plan(intent(LINE, FAR))
    stated = with_links(intent(LINE, FAR), gate_interval_max_ns=2**31 - 1, gate_cycle_max_ns=MS)
    assert plan(stated).gates == free.gates


def test_entries_that_were_cut_count_towards_the_length_of_the_list() -> None:
    free = intent(LINE, FAR, stream("b", "t", "l", earliest_ns=160 * US))
    exact = plan(free).gates[BETWEEN].entries
    limits = {"gate_entries_max": len(exact), "gate_interval_max_ns": 300 * US}
    limited = plan(with_links(free, BETWEEN, **limits))
    assert len(limited.gates[BETWEEN].entries) <= len(exact)
    assert len(states_over_time(limited, BETWEEN)) < len(exact)
    assert judge(limited) == []


def test_a_list_too_long_for_its_short_entries_is_refused_with_the_figures() -> None:
    """Windows of two classes cannot be made one."""
    two = intent(LINE, FAR, stream("b", "t", "l", traffic_classes=("slower",)))
    limits = {"gate_entries_max": 10, "gate_interval_max_ns": 100 * US}
    reason = refusal(with_links(two, BETWEEN, **limits))
    assert "gate entries, none longer than 100 µs, even with the smallest gaps" in reason
    assert "the port has 10" in reason


def test_a_cycle_that_all_entries_together_cannot_fill_is_refused_at_once() -> None:
    limited = with_links(intent(LINE, FAR), BETWEEN, gate_interval_max_ns=1000, gate_entries_max=9)
    assert "more than the port's 9 gate entries of at most 1 µs can fill" in refusal(limited)


def test_intervals_that_cannot_be_cut_in_two_are_refused() -> None:
    limited = with_links(
        intent(LINE, FAR), BETWEEN, gate_interval_max_ns=9_999, gate_interval_min_ns=5_000
    )
    assert "may last from 5 µs to 9.999 µs" in refusal(limited)


def test_a_cycle_longer_than_the_ports_is_refused_with_both_figures() -> None:
    limited = with_links(intent(LINE, FAR), BETWEEN, gate_cycle_max_ns=999_999)
    reason = refusal(limited)
    assert "the periods 1000 µs only repeat together every 1000 µs" in reason
    assert "the port's cycle ends at 999.999 µs" in reason


def test_a_cycle_that_is_no_multiple_of_the_tick_is_refused() -> None:
    limited = with_links(intent(LINE, FAR), BETWEEN, gate_tick_ns=3000)
    assert "gates change at multiples of 3 µs only" in refusal(limited)


def test_a_tick_that_leaves_no_room_for_a_frame_is_named_in_the_refusal() -> None:
    limited = with_links(intent(LINE, FAR), BETWEEN, gate_tick_ns=MS)
    with pytest.raises(Unschedulable, match=r"of s1/s2, a tick of 1000 µs, jitter"):
        plan(limited)


@pytest.mark.parametrize("tick_ns", [8, 32, 100, 1000])
def test_a_window_opens_at_the_tick_before_and_closes_at_one_after_the_frame(tick_ns: int) -> None:
    limited = with_links(intent(LINE, replace(FAR, earliest_ns=100_001)), gate_tick_ns=tick_ns)
    planned = plan(limited)
    assert judge(planned) == []
    gates = planned.gates[BETWEEN]
    assert all(entry.interval_ns % tick_ns == 0 for entry in gates.entries)
    opens = sum(e.interval_ns for e in gates.entries[:2])
    at = planned.streams["a"].hops[1].offset_ns
    assert at - tick_ns < opens <= at


def test_a_frame_that_a_coarse_tick_lets_out_early_is_expected_early_at_the_next_bridge() -> None:
    """A port with a short list keeps nobody waiting: there the order hangs on when frames come."""
    meeting = network("t-s1", "u-s3", "s1-s2", "s3-s2", "s2-l")
    busy = intent(meeting, *(stream(f"f{i:02}", "tu"[i % 2], "l") for i in range(12)))
    coarse = with_links(busy, BETWEEN, PortRef("s3", "s2"), gate_tick_ns=1000)
    planned = plan(with_links(coarse, PortRef("s2", "l"), gate_entries_max=8))
    assert planned.streams.keys() == busy.streams.keys()
    assert judge(planned) == []


def shipped_with_gates() -> list[str]:
    return [
        path.stem
        for path in sorted(SCHEDULES.glob("*.yaml"))
        if (shipped := intents_from.load(path)).streams
        and any(bridge.gate_mode for bridge in shipped.network.bridges.values())
    ]


@pytest.mark.parametrize("tick_ns", [8, 200])
@pytest.mark.parametrize("name", shipped_with_gates())
def test_a_shipped_network_is_planned_and_recovers_whatever_its_ports_count_in(
    name: str, tick_ns: int
) -> None:
    shipped = intents_from.load(SCHEDULES / f"{name}.yaml")
    fine, coarse = (plan(with_links(shipped, gate_tick_ns=each)) for each in (1, tick_ns))
    assert judge(coarse) == []
    assert coarse.streams.keys() == shipped.streams.keys()
    # What a class loses at the edges of its openings moves nobody into another cycle.
    for stream_name, recovery_ns in fine.recovery_ns.items():
        assert abs(coarse.recovery_ns[stream_name] - recovery_ns) < shipped.hyperperiod_ns()


LIMITS = st.builds(
    GateLimits,
    entries_max=st.sampled_from([0, 0, 8, 64]),
    interval_max_ns=st.sampled_from([0, 0, 50 * US, 333_333]),
    cycle_max_ns=st.sampled_from([0, 0, 2 * MS, 20 * MS]),
    tick_ns=st.sampled_from([1, 8, 32, 250, 1000, 7]),
)


@examples(max_examples=150)
@given(intents(streams_max=10), st.lists(LIMITS, min_size=1, max_size=6), st.booleans())
def test_whatever_the_switches_state_a_plan_keeps_it_and_is_sound(
    wanted: Intent, choices: list[GateLimits], waits: bool
) -> None:
    network = wanted.network
    gated_ports = sorted(port for port in network.links if network.gate_mode(port.node))
    limits = {port: choices[i % len(choices)] for i, port in enumerate(gated_ports)}
    limited = wanted.within(limits)
    try:
        planned = plan(limited, algorithm="waiting" if waits else "ejection", best_effort=True)
    except Unschedulable:  # a port that can run no list at all
        return
    assert judge(planned) == []
    for port, gates in planned.gates.items():
        its = limits[port]
        assert len(gates.entries) <= (its.entries_max or len(gates.entries))
        assert gates.cycle_ns <= (its.cycle_max_ns or gates.cycle_ns)
        for entry in gates.entries:
            assert entry.interval_ns <= (its.interval_max_ns or gates.cycle_ns)
            assert entry.interval_ns % its.tick_ns == 0


def test_what_runs_is_kept_where_the_switch_states_no_more_than_was_planned_with() -> None:
    wanted = intent(LINE, FAR)
    stated = dict.fromkeys(plan(wanted).gates, GateLimits(430, 2**31 - 1, 2**31 - 1, 1))
    assert unchanged(wanted.within(stated), plan(wanted)).keys() == {"a"}


@pytest.mark.parametrize(
    "limits",
    [GateLimits(entries_max=429), GateLimits(interval_max_ns=MS), GateLimits(tick_ns=8)],
    ids=["list", "interval", "tick"],
)
def test_a_stream_is_placed_anew_where_a_limit_may_change_when_it_leaves(
    limits: GateLimits,
) -> None:
    wanted = intent(LINE, FAR)
    assert unchanged(wanted.within({BETWEEN: limits}), plan(wanted)) == {}


def test_of_two_limits_the_tighter_counts_and_an_unknown_one_does_not() -> None:
    link = replace(
        LINE.links[BETWEEN], gate_entries_max=16, gate_cycle_max_ns=0, gate_tick_ns=8
    ).within(GateLimits(entries_max=64, interval_max_ns=5, cycle_max_ns=7, tick_ns=12))
    assert (link.gate_entries_max, link.gate_interval_max_ns) == (16, 5)
    assert (link.gate_cycle_max_ns, link.gate_tick_ns) == (7, 24)
    assert link.within(GateLimits()) == link
