"""Nothing is called proved that the judge can refute: denser plans than the planner's, by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.model import Intent, Plan, PortRef
from cnc.planner import Budget, plan
from cnc.planner.capacity import crowded_link, overload
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
    with_links,
    with_streams,
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
    if crowded_link(problem(wanted)):
        assert judge(back_to_back(wanted)) != []
    else:
        assert overload(problem(wanted)) is None


def test_a_link_that_is_filled_by_hand_is_not_proved_to_be_overloaded() -> None:
    """With 48 frames of 1.136 us in 64 us, of which the rest is best effort's and its guard's."""
    full = line_of([100] * 48, 64)
    assert judge(back_to_back(full)) == []
    assert crowded_link(problem(full)) == ()
    assert overload(problem(line_of([100] * 56, 64))) is None
    too_full = overload(problem(line_of([100] * 57, 64)))
    assert too_full is not None
    assert sum(too_full.shares.values()) == Fraction(57 * 1136, 64_000)


def refusals(wanted: Intent) -> dict[str, str]:
    with pytest.raises(Unschedulable) as refused:
        plan(wanted, budget=Budget(ejections=100))
    return refused.value.reasons


@pytest.mark.parametrize("drive", ["cyclic", "slower"])
def test_a_burst_that_fits_in_pieces_is_not_proved_impossible(drive: str) -> None:
    """Eight frames of 123.36 us never lie between frames that come each millisecond, unless the
    talker sends them as eight streams."""
    net = with_full_offload(network("c-s1", "t-s1", "s1-s2", "s2-r", "s2-l", rate_bps=10**8))
    picture = stream("picture", "c", "r", period_ns=20 * MS, max_latency_ns=20 * MS, frames=8)
    picture = replace(picture, payload_octets=1500)
    pieces = [replace(picture, name=f"piece{n}", frames=1) for n in range(8)]
    loop = stream("loop", "t", "l", traffic_classes=(drive,), payload_octets=64)
    assert judge(plan(intent(net, *pieces, loop))) == []
    [reason] = refusals(intent(net, picture, loop)).values()
    assert "proved" not in reason
    assert "this is not a proof" in reason


def test_margins_that_windows_could_share_prove_no_overload() -> None:
    """Ten frames with a gate margin of 20 us each are more than 200 us; in one window they would
    need it once."""
    late = replace(LINE, gate_margin_ns=20 * US)
    many = [stream(f"f{n}", "t", "l", period_ns=200 * US) for n in range(10)]
    reasons = refusals(intent(late, *many))
    assert any("By the rules of this planner no offsets" in why for why in reasons.values())
    assert not any("proved" in why for why in reasons.values())


def test_an_overload_is_proved_by_the_share_of_each_stream() -> None:
    """Frames of 12.336 us in 100 us: 8 of them are 98.7 % of a link, 9 of them 111.0 %."""
    eight, nine = (
        [stream(f"f{n}", "t", "l", period_ns=100 * US, payload_octets=1500) for n in range(count)]
        for count in (8, 9)
    )
    assert not any("proved" in why for why in refusals(intent(LINE, *eight)).values())
    assert any(
        why.endswith(
            "It is proved that no offsets on these routes carry these together: their frames alone "
            "take 111.0% of s1/s2 (f0 12.3%, f1 12.3%, f2 12.3%, f3 12.3%, f4 12.3%, f5 12.3%, "
            "f6 12.3%, f7 12.3% and 1 more)"
        )
        for why in refusals(intent(LINE, *nine)).values()
    )


def test_a_way_is_proved_too_long_by_what_frames_cables_and_switches_take() -> None:
    """Three receptions of 1.04 us over 100 ns of cable each, and two switches of 5 us."""
    fast, slow = (
        refusals(intent(LINE, stream("f", "t", "l", max_latency_ns=limit)))["f"]
        for limit in (13_420, 13_419)
    )
    assert "needs at least" in fast
    assert "proved" not in fast
    assert slow.endswith(
        "It is proved that no plan is in time on this path: frames and cables alone take 3.42 µs, "
        "with switch processing of 10 µs that is 13.42 µs"
    )


def test_a_burst_is_proved_late_only_by_the_link_where_it_takes_longest() -> None:
    """Its frames follow each other from link to link; they need not come all together."""
    slow_between = {PortRef("s1", "s2"), PortRef("s2", "l")}
    net = network("t-s1", "s1-s2", "s2-l", rate_bps=10**9)
    burst = stream("f", "t", "l", frames=10)
    wanted = with_links(intent(net, burst), *slow_between, rate_bps=10**8)
    one_by_one = 1_040 + 2 * 10_400 + 300 + 10_000 + 9 * 11_360
    for limit, is_proved in ((one_by_one, False), (one_by_one - 1, True)):
        late = with_streams(wanted, replace(burst, max_latency_ns=limit))
        assert ("proved" in refusals(late)["f"]) is is_proved
