"""Nothing is called proved that the judge can refute: denser plans than the planner's, by hand."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cnc.check import judge
from cnc.model import Intent, Plan
from cnc.planner.capacity import overload
from cnc.planner.gates import gate_control_lists
from cnc.planner.problem import Placement, stream_plans
from tests.unit.planner_networks import (
    BEST_EFFORT,
    CYCLIC,
    MS,
    US,
    examples,
    intent,
    network,
    problem,
    stream,
    with_full_offload,
)

LINE = with_full_offload(network("t-s1", "s1-s2", "s2-l"))


def back_to_back(wanted: Intent) -> Plan:
    """All streams, which share one route, right behind each other in their order, in one class.

    Frames of one port keep their order, so that they may wait in the queue together.
    """
    by_hand = problem(wanted)
    free = dict.fromkeys(range(len(by_hand.links)), 0)
    placements = {}
    for member in by_hand.members:
        route = by_hand.route(member, by_hand.trees[member.stream][0])
        offsets: list[int] = []
        for leg in route.legs:
            ready = 0 if leg.parent is None else offsets[leg.parent] + leg.max_ns
            offsets.append(max(ready, free[leg.link]))
            free[leg.link] = offsets[-1] + leg.window_ns
        placements[member] = Placement(route, tuple(offsets), CYCLIC.number)
    lists = gate_control_lists(by_hand, placements.values()).lists
    return Plan(wanted, stream_plans(by_hand, placements), lists, "by hand")


def line_of(payloads: list[int], period_us: int) -> Intent:
    streams = [
        stream(
            f"f{n}", "t", "l", period_ns=period_us * US, payload_octets=octets, max_latency_ns=MS
        )
        for n, octets in enumerate(payloads)
    ]
    short = replace(BEST_EFFORT, max_frame_octets=64)
    return intent(LINE, *streams, classes=(CYCLIC, short))


@examples(max_examples=200)
@given(
    payloads=st.lists(st.sampled_from([46, 100, 100, 300, 700]), min_size=8, max_size=60),
    period_us=st.sampled_from([30, 40, 50, 64]),
)
def test_what_is_proved_not_to_fit_does_not_fit_by_hand_either(
    payloads: list[int], period_us: int
) -> None:
    wanted = line_of(payloads, period_us)
    if overload(problem(wanted)):
        assert judge(back_to_back(wanted)) != []


def test_a_link_that_is_filled_by_hand_is_not_proved_to_be_overloaded() -> None:
    """With 48 frames of 1.136 us in 64 us, of which the rest is best effort's and its guard's."""
    full = line_of([100] * 48, 64)
    assert judge(back_to_back(full)) == []
    assert overload(problem(full)) == ()
    assert overload(problem(line_of([100] * 57, 64))) != ()
