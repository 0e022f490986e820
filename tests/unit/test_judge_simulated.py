"""The judge against the simulator: no plan that it allows makes a frame late, and each of its rules
is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from cnc.check import judge
from cnc.model import GateEntry, Hop, Intent, Network, Plan, PortRef
from cnc.planner import plan
from tests.simulator.campaign import is_kept_by_chance, verdict, verdict_of_mutation
from tests.simulator.mutations import with_list, with_stream
from tests.unit.planner_fuzz import SHORT_LISTS, kept_plan, live_plans, single_plan, stated_plan
from tests.unit.planner_networks import MS, US, intent, network, stream

LINE = network("t-s1", "u-s1", "s1-s2", "s2-l", processing_ns=(20_000, 20_000))
FIRST, LAST = PortRef("s1", "s2"), PortRef("s2", "l")


@pytest.mark.parametrize("seed", range(2, 15))
def test_plans_of_random_networks_keep_their_promises(seed: int) -> None:
    for planned in single_plan(seed, (0, *SHORT_LISTS)):
        assert verdict(planned, seed) == "kept"


@pytest.mark.parametrize("seed", range(1, 9))
def test_plans_around_kept_streams_keep_their_promises(seed: int) -> None:
    for planned in kept_plan(seed, SHORT_LISTS):
        assert verdict(planned, seed) == "kept"


@pytest.mark.parametrize("seed", range(1, 9))
def test_live_plans_keep_their_promises_after_each_event(seed: int) -> None:
    for planned in live_plans(seed, SHORT_LISTS):
        assert verdict(planned, seed) == "kept"


@pytest.mark.parametrize("seed", range(1, 13))
def test_plans_of_networks_that_state_more_keep_their_promises(seed: int) -> None:
    for planned in stated_plan(seed):
        assert verdict(planned, seed) == "kept"
        for change in range(5 if planned.gates else 0):
            kind, became = verdict_of_mutation(planned, 5 * seed + change)
            assert became in {"noticed", "kept"}, kind


@pytest.mark.parametrize("seed", range(2, 15))
def test_of_a_changed_plan_the_judge_notices_all_that_makes_frames_late(seed: int) -> None:
    for planned in single_plan(seed, (0, *SHORT_LISTS)):
        for change in range(10 if planned.gates else 0):
            kind, became = verdict_of_mutation(planned, 10 * seed + change)
            assert became in {"noticed", "kept"}, kind


def two_talkers(**facts: object) -> Intent:
    """Both talk to the same listener by way of the same ports; `b` has the shorter frames, which
    leave no room for those of `a`."""
    return intent(
        replace(LINE, **facts),
        stream("b", "u", "l", payload_octets=100, earliest_ns=100 * US),
        stream("a", "t", "l", payload_octets=700, earliest_ns=100 * US),
    )


def with_states(planned: Plan, port: PortRef, change: Callable[[int], int]) -> Plan:
    """The plan with other gates open on a port."""
    entries = (replace(e, gate_states=change(e.gate_states)) for e in planned.gates[port].entries)
    return with_list(planned, port, *entries)


def with_hops(planned: Plan, name: str, change: Callable[[tuple[Hop, ...]], list[Hop]]) -> Plan:
    (path,) = planned.streams[name].paths
    changed = replace(planned.streams[name], paths=(tuple(change(path)),))
    return with_stream(planned, name, changed)


def on_network(planned: Plan, **facts: object) -> Plan:
    net: Network = replace(planned.intent.network, **facts)
    return replace(planned, intent=replace(planned.intent, network=net))


def it_promises_too_much(planned: Plan) -> Plan:
    return with_stream(planned, "a", replace(planned.streams["a"], latency_bound_ns=5 * US))


def frames_start_together(_planned: Plan) -> Plan:
    """On the port of their talker, where no gate keeps them apart."""
    both = intent(
        LINE,
        stream("long", "t", "l", payload_octets=1500),
        stream("short", "t", "l", payload_octets=46),
    )
    planned = plan(both, algorithm="waiting")
    starts = {name: its.talker_offsets_ns[0] for name, its in planned.streams.items()}
    later, first = sorted(starts, key=starts.__getitem__, reverse=True)
    planned = with_hops(
        planned, later, lambda hops: [replace(hops[0], offset_ns=starts[first]), *hops[1:]]
    )
    bound = planned.streams[later].latency_bound_ns + starts[later] - starts[first]
    moved = replace(planned.streams[later], latency_bound_ns=bound)
    return replace(planned, streams={later: moved, first: planned.streams[first]})


def switches_are_faster(planned: Plan) -> Plan:
    bridges = {
        name: replace(bridge, processing_min_ns=0)
        for name, bridge in planned.intent.network.bridges.items()
    }
    return on_network(planned, bridges=bridges)


def the_window_is_too_short(planned: Plan) -> Plan:
    entries = list(planned.gates[LAST].entries)
    index = next(i for i, e in enumerate(entries) if e.gate_states == 0xC0)
    window, following = entries[index], entries[index + 1]
    entries[index] = replace(window, interval_ns=window.interval_ns // 4)
    rest = window.interval_ns - window.interval_ns // 4
    entries[index + 1] = replace(following, interval_ns=following.interval_ns + rest)
    return with_list(planned, LAST, *entries)


def a_higher_class_may_send_beside(_planned: Plan) -> Plan:
    """Its frames may be there early, and what they take is missing for the others."""
    both = intent(
        network("t-s1", "u-s1", "s1-s2", "s2-l", processing_ns=(0, 20_000)),
        stream("a", "t", "l", payload_octets=46, earliest_ns=100 * US),
        stream(
            "b",
            "u",
            "l",
            traffic_classes=("slower",),
            payload_octets=1500,
            earliest_ns=90 * US,
            latest_ns=90 * US,
        ),
    )
    return with_states(plan(both), LAST, lambda states: 0xD0 if states == 0x90 else states)


def best_effort_has_no_guard_band(planned: Plan) -> Plan:
    return with_states(planned, LAST, lambda states: states | (states == 0x80))


def a_port_has_no_list(planned: Plan) -> Plan:
    return replace(planned, gates={p: its for p, its in planned.gates.items() if p != FIRST})


def a_cycle_does_not_fit_the_periods(planned: Plan) -> Plan:
    first, *others = planned.gates[LAST].entries
    return with_list(
        planned, LAST, replace(first, interval_ns=first.interval_ns + 10 * US), *others
    )


def control_may_never_send(planned: Plan) -> Plan:
    return with_states(planned, LAST, lambda states: states & ~0x80)


def best_effort_may_never_send(planned: Plan) -> Plan:
    return with_states(planned, LAST, lambda states: states & ~0x01)


def a_hop_is_missing(planned: Plan) -> Plan:
    return with_hops(planned, "a", lambda hops: list(hops[:-1]))


RULES: dict[str, Callable[[Plan], Plan]] = {
    "bound": it_promises_too_much,
    "overlap": frames_start_together,
    "fifo": switches_are_faster,
    "gate-window": the_window_is_too_short,
    "gate-exclusive": a_higher_class_may_send_beside,
    "gate-guard": best_effort_has_no_guard_band,
    "gate-missing": a_port_has_no_list,
    "gate-cycle": a_cycle_does_not_fit_the_periods,
    "gate-control": control_may_never_send,
    "starved-best-effort": best_effort_may_never_send,
    "route": a_hop_is_missing,
}


@pytest.mark.parametrize("rule", RULES)
def test_without_one_of_its_rules_the_judge_allows_what_goes_wrong(rule: str) -> None:
    sound = plan(two_talkers())
    assert judge(sound) == []
    assert is_kept_by_chance(sound, seed=1)
    wrong = RULES[rule](sound)
    assert {violation.code for violation in judge(wrong)} == {rule}
    assert not is_kept_by_chance(wrong, seed=1)


def test_a_list_is_read_alike_by_judge_and_simulator_from_any_base_time() -> None:
    """A cycle that begins in the middle of a window is no other cycle."""
    sound = plan(two_talkers())
    first, second, *others = sound.gates[LAST].entries
    half = second.interval_ns // 2
    turned = (
        replace(second, interval_ns=second.interval_ns - half),
        *others,
        first,
        replace(second, interval_ns=half),
    )
    late = with_list(sound, LAST, *turned)
    assert verdict(late, seed=1) == "noticed"
    assert not is_kept_by_chance(late, seed=1)
    assert sum(entry.interval_ns for entry in turned) == MS
    assert GateEntry(second.gate_states, half) in turned


@pytest.mark.parametrize("seed", [621, 722, 729])
def test_frames_that_come_to_a_loose_port_at_one_instant_have_no_order(seed: int) -> None:
    """Of one the latest arrival is its planned time, of the other the earliest."""
    for planned in single_plan(seed, (0, 0, *SHORT_LISTS, 64)):
        assert verdict(planned, seed) == "kept"
