"""A live plan in which streams share windows beside others that have windows of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.model import Intent, Stream, Windows
from cnc.planner import Live, plan
from tests.unit.planner_fuzz import both_live_plans, first_faults
from tests.unit.planner_networks import MS, US, intent, network, stream

STAR = replace(network("t-s1", "u-s1", "s1-s2", "s2-l", "s2-m"), gate_margin_ns=10 * US)


def own(name: str, talker: str = "t", **stated: object) -> Stream:
    return stream(name, talker, "l", traffic_classes=("slower",), windows=Windows.EXACT, **stated)


def shared(name: str, talker: str = "t", **stated: object) -> Stream:
    return stream(name, talker, "l", windows=Windows.SHARED, **stated)


@pytest.fixture
def both() -> Intent:
    every = [shared(f"f{n}", "tu"[n % 2], period_ns=2 * MS) for n in range(5)]
    return intent(STAR, shared("f", period_ns=MS), *every, own("o1"), own("o2", "u"))


def test_streams_of_both_kinds_come_and_go_and_nobody_moves(both: Intent) -> None:
    running = plan(both)
    assert {planned.is_shared for planned in running.streams.values()} == {True, False}
    live = Live(running)
    came = live.add([own("alone", "u"), shared("along", "u", period_ns=2 * MS)])
    assert [its.is_shared for its in came.streams.values()] == [False, True]
    assert judge(live.plan) == []
    assert {n: live.plan.streams[n] for n in running.streams} == running.streams
    live.remove(["o1", "f0"])
    assert judge(live.plan) == []
    assert Live(live.plan).plan.gates == live.plan.gates


def test_the_first_streams_say_whether_frames_share_windows_also_where_all_had_gone() -> None:
    live = Live(plan(intent(STAR)))
    for windows, is_shared in (
        (Windows.SHARED, True),
        (Windows.AUTO, False),
        (Windows.SHARED, True),
    ):
        came = live.add([stream(n, "t", "l", windows=windows) for n in "ab"])
        assert [its.is_shared for its in came.streams.values()] == [is_shared, is_shared]
        assert judge(live.plan) == []
        live.remove("ab")
        assert not live.plan.gates


def test_a_stream_is_to_share_windows_where_each_frame_has_its_own_and_is_refused() -> None:
    running = plan(intent(STAR, own("o1")))
    live = Live(running)
    with pytest.raises(Unschedulable, match="each frame has one of its own") as refused:
        live.add([own("o2"), shared("f")])
    assert refused.value.reasons.keys() == {"f"}
    assert live.plan == running


def test_a_stream_whose_jitter_is_limited_has_a_window_of_its_own_where_others_share(
    both: Intent,
) -> None:
    every = [its for name, its in both.streams.items() if name.startswith("f")]
    live = Live(plan(intent(STAR, *every)))
    steady = stream("steady", "u", "l", traffic_classes=("cyclic", "slower"), max_jitter_ns=20 * US)
    came = live.add([replace(steady, windows=Windows.AUTO)])
    assert not came.streams["steady"].is_shared
    assert came.jitter_ns["steady"]["l"] <= 20 * US
    assert judge(live.plan) == []


def test_a_stream_that_may_choose_has_the_windows_of_its_class(both: Intent) -> None:
    live = Live(plan(both))
    for name, classes in (("slower", ("slower",)), ("cyclic", ("slower", "cyclic"))):
        free = stream(name, "t", "l", traffic_classes=classes, period_ns=2 * MS)
        came = live.add([replace(free, windows=Windows.AUTO)])
        assert came.streams[name].is_shared == (name == "cyclic")
        assert judge(live.plan) == []


def test_windows_of_one_kind_in_a_class_of_the_other_are_refused(both: Intent) -> None:
    live = Live(plan(both))
    before = live.plan
    for asked, why in (
        (replace(own("new"), traffic_classes=("cyclic",)), "those of its class share theirs"),
        (replace(shared("new"), traffic_classes=("slower",)), "its class has frames with windows"),
    ):
        with pytest.raises(Unschedulable) as refused:
            live.add([asked])
        assert why in refused.value.reasons["new"]
    assert live.plan == before


def test_a_window_of_its_own_that_others_would_have_no_bound_beside_is_refused(
    both: Intent,
) -> None:
    recovering = replace(STAR, disturbance_ns=100 * US)
    every = [its for name, its in both.streams.items() if name.startswith("f")]
    running = plan(intent(recovering, *every))
    assert running.recovery_ns.keys() == running.streams.keys()
    live = Live(running)
    with pytest.raises(Unschedulable) as refused:
        live.add([own("new")])
    assert "without an end after a disturbance" in next(iter(refused.value.reasons.values()))
    assert live.plan == running


@pytest.mark.parametrize("seed", range(1, 31))
def test_a_live_plan_of_a_random_network_with_both_kinds_stays_sound(seed: int) -> None:
    assert first_faults(both_live_plans(seed)) == []
