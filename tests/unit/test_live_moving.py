"""A live plan in which a few streams move for one that has no room."""

from __future__ import annotations

import pytest

from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.model import Windows
from cnc.planner import Live, plan
from tests.unit.planner_fuzz import first_faults, moving_plans
from tests.unit.planner_networks import LINE, MS, US, intent, stream


def live_with_a_stream_in_the_way() -> Live:
    """One that may leave at any time lies where the only time of another is."""
    free = stream("free", "t", "l", period_ns=MS, windows=Windows.EXACT)
    return Live(plan(intent(LINE, free)))


def test_a_stream_that_may_leave_at_any_time_moves_for_one_that_may_not() -> None:
    live = live_with_a_stream_in_the_way()
    before = live.plan
    tight = stream("tight", "t", "l", period_ns=MS, latest_ns=0, windows=Windows.EXACT)
    with pytest.raises(Unschedulable):
        live.add([tight])
    assert live.plan == before
    changes = live.add([tight], moving_at_most=1)
    assert changes.moved == ("free",)
    assert changes.streams.keys() == {"free", "tight"}
    assert judge(live.plan) == []
    assert live.plan.streams["free"].latency_bound_ns <= before.streams["free"].latency_bound_ns
    assert Live(live.plan).remove(["tight", "free"]).gates.keys() == before.gates.keys()


def test_nobody_moves_where_there_is_room() -> None:
    live = live_with_a_stream_in_the_way()
    late = stream("late", "t", "l", earliest_ns=500 * US, windows=Windows.EXACT)
    assert live.add([late], moving_at_most=3).moved == ()


@pytest.mark.parametrize("seed", range(1, 41))
def test_where_streams_move_a_plan_stays_sound_and_no_promise_is_broken(seed: int) -> None:
    assert first_faults(moving_plans(seed)) == []
