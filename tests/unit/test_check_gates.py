"""What a port can run, and what its gates may do beside the planned times."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from cnc.check import judge
from cnc.model import GateEntry, GateMode, Plan
from tests.unit.test_check import (
    BEST_EFFORT,
    CONTROL,
    CYCLIC,
    PORT,
    line3_plan,
    with_entries,
    with_guard_band_halved,
    with_port_limits,
    with_states,
)


@pytest.fixture(scope="module")
def good() -> Plan:
    return line3_plan()


def with_gate_mode(p: Plan, mode: GateMode) -> Plan:
    bridges = p.intent.network.bridges
    bridges = {**bridges, PORT.node: replace(bridges[PORT.node], gate_mode=mode)}
    network = replace(p.intent.network, bridges=bridges)
    return replace(p, intent=replace(p.intent, network=network))


def with_entries_cut_up_to(p: Plan, count: int) -> Plan:
    """The same list with its last, long entry cut into pieces."""

    def apply(entries: list[GateEntry]) -> None:
        last = entries.pop()
        pieces = count - len(entries)
        entries += [replace(last, interval_ns=1000)] * (pieces - 1)
        entries.append(replace(last, interval_ns=last.interval_ns - 1000 * (pieces - 1)))

    return with_entries(p, apply)


@pytest.mark.parametrize("mode", [GateMode.SOFTWARE, GateMode.TXTIME_ASSIST])
def test_a_port_in_software_holds_as_many_entries_as_the_kernel_shows(
    good: Plan, mode: GateMode
) -> None:
    on_port = with_gate_mode(good, mode)
    assert judge(with_entries_cut_up_to(on_port, 430)) == []
    found = judge(with_entries_cut_up_to(on_port, 431))
    assert [str(v) for v in found] == ["s2/s3: 431 entries, the port holds 430 [gate-entries]"]


def test_hardware_holds_as_many_entries_as_its_port_says(good: Plan) -> None:
    hardware = with_entries_cut_up_to(with_gate_mode(good, GateMode.FULL_OFFLOAD), 431)
    assert judge(hardware) == []
    assert judge(with_port_limits(hardware, gate_entries_max=431)) == []
    assert [v.code for v in judge(with_port_limits(hardware, gate_entries_max=430))] == [
        "gate-entries"
    ]


def test_a_port_takes_intervals_cycles_and_ticks_up_to_its_limits_and_no_further(
    good: Plan,
) -> None:
    gates = good.gates[PORT]
    longest = max(entry.interval_ns for entry in gates.entries)
    tick = math.gcd(*(entry.interval_ns for entry in gates.entries))
    at_its_limits = with_port_limits(
        good,
        gate_interval_max_ns=longest,
        gate_cycle_max_ns=gates.cycle_ns,
        gate_tick_ns=tick,
    )
    assert judge(at_its_limits) == []
    [too_long] = judge(with_port_limits(good, gate_interval_max_ns=longest - 1))
    assert str(too_long).endswith(
        f"lasts {longest} ns, the port takes {longest - 1} ns [gate-interval]"
    )
    [too_slow] = judge(with_port_limits(good, gate_cycle_max_ns=gates.cycle_ns - 1))
    assert str(too_slow) == (
        "s2/s3: the cycle is 2000000 ns, the port takes 1999999 ns [gate-cycle]"
    )
    assert {v.code for v in judge(with_port_limits(good, gate_tick_ns=2 * tick))} == {"gate-tick"}


def test_a_plan_without_streams_is_told_what_gates_are_judged_by(good: Plan) -> None:
    gates = {PORT: good.gates[PORT]}
    alone = replace(
        good, intent=replace(good.intent, streams={}), streams={}, gates=gates, recovery_ns={}
    )
    told = {str(violation) for violation in judge(alone) if violation.code == "gate-cycle"}
    assert told == {
        (
            "s2/s3: the plan has no streams, by whose periods a cycle is judged; state them in its "
            "intent, or the list as gate-control-list of its port [gate-cycle]"
        )
    }


def test_a_plan_that_rests_on_preemption_is_refused(good: Plan) -> None:
    """Its gates are software, with which nothing preempts."""
    found = judge(with_port_limits(good, preemption=True))
    assert ("preemption", str(PORT)) in {(violation.code, violation.where) for violation in found}


def test_the_gate_margin_is_kept_free_after_each_planned_frame(good: Plan) -> None:
    network = replace(good.intent.network, gate_margin_ns=1)
    found = judge(replace(good, intent=replace(good.intent, network=network)))
    codes = {v.code for v in found}
    assert codes == {"bound", "overlap", "gate-window", "gate-exclusive", "gate-guard"}


def test_a_gate_that_never_closes_is_guarded_before_each_frame(good: Plan) -> None:
    """No moment of opening to count from: the guard bands in the list stand by themselves."""
    assert judge(with_states(good, lambda states: states | CYCLIC)) == []
    unguarded = with_guard_band_halved(good)
    found = judge(with_states(unguarded, lambda states: states | CYCLIC))
    assert "gate-guard" in {v.code for v in found}


def test_a_class_may_open_over_its_own_guard_band_but_best_effort_may_not_reach_into_it(
    good: Plan,
) -> None:
    """A frame that is early may find the wire busy; at its planned time it must be free."""

    def opened_early(guard_ns: int) -> Plan:
        def apply(entries: list[GateEntry]) -> None:
            best_effort = next(i for i, e in enumerate(entries) if e.interval_ns > 400_000)
            both = sum(e.interval_ns for e in entries[best_effort : best_effort + 2])
            entries[best_effort : best_effort + 2] = [
                GateEntry(CONTROL | BEST_EFFORT, both - guard_ns),
                GateEntry(CONTROL | CYCLIC, guard_ns),
            ]

        return with_entries(good, apply)

    largest_ns = (1522 + 20) * 8 + 2  # on a link that is 100 ppm slow
    assert judge(opened_early(largest_ns)) == []
    assert {v.code for v in judge(opened_early(largest_ns - 1))} == {"gate-guard"}
