"""Streams of classes with a shaper that join and leave a plan in memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import yaml

from cnc.check import judge
from cnc.check.change import Judged
from cnc.errors import Unschedulable
from cnc.mechanisms.cbs.model import IdleSlopes
from cnc.model import Intent, Plan, PortRef, Stream, StreamPlan
from cnc.planner import Live, plan
from cnc.service.refused import CallRefused
from tests.unit.planner_networks import MS, seeded, with_streams
from tests.unit.service_network import CUC, ONE, TWO, Switches, service
from tests.unit.shaped_networks import document, intent_of, random_intent, ring_of, stream

UP, TO_LISTENER = PortRef("s1", "up"), PortRef("s3", "l1")
OTHER_LISTENER = PortRef("s3", "l2")
SHAPED = ("video", "audio", "events")
AXIS = {"class": "axes", "payload": "100B", "period": "1ms", "max-latency": "1ms"}


def wanted(reserve: str | None = None, **streams: dict[str, Any]) -> Intent:
    classes = {name: {"reserve": reserve} for name in SHAPED} if reserve else {}
    return intent_of(talkers=4, streams=streams, classes=classes)


def live_of(reserve: str | None = None, **streams: dict[str, Any]) -> Live:
    return Live(plan(wanted(reserve, **streams)))


def some(**streams: dict[str, Any]) -> list[Stream]:
    return [*wanted(**streams).streams.values()]


def slopes(made: Plan, number: int = 5) -> dict[PortRef, int]:
    return {port: its[number] for port, its in made[IdleSlopes].by_port.items() if number in its}


def refusal_of(live: Live, **streams: dict[str, Any]) -> str:
    """Why these have no place, which changes nothing of the plan."""
    before = live.plan
    with pytest.raises(Unschedulable) as refused:
        live.add(some(**streams))
    assert Live(before).plan == live.plan == before
    return str(refused.value)


def admitted_of(seed: int) -> Plan:
    """The plan of a random network, which asks for no more than it has."""
    every = random_intent(seed, axes=seed % 4)
    made = plan(every, best_effort=True)
    intent = with_streams(every, *(every.streams[name] for name in made.streams))
    return replace(made, intent=intent, refused={})


def until_refused(live: Live, every: Iterable[list[Stream]]) -> tuple[int, str]:
    """How many of these join before one is refused, and why that is."""
    for joined, streams in enumerate(every):
        try:
            live.add(streams)
        except Unschedulable as refused:
            return joined, str(refused)
    raise AssertionError("all have joined")


@pytest.mark.parametrize("name", ["video", "events"])
class TestEitherShaper:
    def test_one_joins_while_all_keep_the_bounds_that_were_announced(self, name):
        live = live_of("50%", a=stream(**{"class": name}))
        promised = live.plan.streams["a"]
        changes = live.add(some(b=stream("t2", payload="200B", **{"class": name})))
        assert live.plan.streams["a"] == promised
        assert {PortRef("t2", "eth0"), UP, TO_LISTENER} <= changes.ports
        assert changes.gates == {}
        assert not judge(live.plan)

    def test_the_first_at_a_port_has_its_gates_opened_and_the_last_leaves_none(self, name):
        live = live_of("20%", a=stream(**{"class": name}))
        changes = live.add(some(b=stream("t2", "l2", payload="64B", **{"class": "events"})))
        assert list(changes.gates) == [OTHER_LISTENER]
        assert live.remove(["b"]).gates == {OTHER_LISTENER: None}
        assert live.remove(["a"]).gates.keys() == {UP, PortRef("s2", "up"), TO_LISTENER}
        assert not live.plan.gates
        assert not judge(live.plan)

    def test_one_that_would_be_late_is_refused_with_port_figure_and_theory(self, name):
        live = live_of(a=stream(**{"class": name}))
        late = stream("t2", "l2", **{"class": name, "max-latency": "400us"})
        theory = "CBS" if name == "video" else "strict"
        figures = rf"ms by network calculus \({theory}\), [\d.]+ .s of it at s\d/\w+, "
        assert re.search(f"{figures}its max-latency is 400 µs", refusal_of(live, b=late))

    def test_one_beside_which_another_would_be_late_is_refused_with_both_figures(self, name):
        live = live_of(a=stream(**{"class": name}))
        text = refusal_of(live, b=stream("t2", **{"class": name}))
        assert "beside it stream a would take up to" in text
        assert "of it at s1/up, and" in text
        assert "is promised. What would help: a `reserve` of its class" in text

    def test_all_of_several_join_or_none(self, name):
        live = live_of("50%", a=stream(**{"class": name}))
        small = stream("t2", payload="64B", **{"class": name})
        great = stream("t3", payload="1400B", frames=25, **{"class": name})
        assert "c: " in refusal_of(live, b=small, c=great)
        live.add(some(b=small))

    def test_a_planned_stream_that_takes_too_much_time_of_theirs_is_refused(self, name):
        live = live_of(a=stream(**{"class": name}))
        text = refusal_of(live, axis=stream("t2", **AXIS))
        assert "axis: a, which runs: it may take" in text

    def test_planned_streams_come_and_go_beside_them(self, name):
        live = live_of("90%", a=stream(frames=4, **{"class": name}))
        before = live.plan
        come = live.add(some(axis=stream("t2", **AXIS)))
        assert come.gates.keys() >= {UP, TO_LISTENER}
        assert not judge(live.plan)
        gone = live.remove(["axis"])
        assert gone.gates[UP] == before.gates[UP]
        assert live.plan.gates == before.gates
        assert live.plan[IdleSlopes] == before[IdleSlopes]
        assert not judge(live.plan)


class TestSlopes:
    def test_they_rise_as_streams_join_and_fall_as_they_leave(self):
        live = live_of("90%", a=stream())
        alone = slopes(live.plan)
        live.add(some(b=stream("t2", "l2", payload="64B")))
        both = slopes(live.plan)
        assert both[UP] > alone[UP]
        assert both[TO_LISTENER] == alone[TO_LISTENER]
        live.remove(["b"])
        assert slopes(live.plan) == alone

    def test_they_stay_where_a_bound_would_rise_without_the_stream_that_leaves(self):
        """A burst that comes rarely goes by the slope of one that comes all the time."""
        rare = stream(frames=8, period="40ms", payload="1400B", **{"max-latency": "100ms"})
        often = stream("t2", payload="1400B", period="2ms")
        live = live_of(a=rare, b=often)
        before, promised = slopes(live.plan), live.plan.streams["a"]
        live.remove(["b"])
        assert slopes(live.plan) == before
        assert live.plan.streams["a"] == promised
        assert not judge(live.plan)
        again = Live(live.plan)
        again.add(some(c=stream("t3", payload="64B", period="40ms", **{"class": "events"})))
        assert slopes(again.plan) == before

    def test_a_plan_around_those_that_stay_holds_them_as_well(self):
        rare = stream(frames=8, period="40ms", payload="1400B", **{"max-latency": "100ms"})
        both = plan(wanted(a=rare, b=stream("t2", payload="1400B", period="2ms")))
        after = plan(wanted(a=rare), keep=both)
        assert slopes(after) == slopes(both)
        assert after.streams["a"] == both.streams["a"]


class TestLeaving:
    @pytest.mark.parametrize(
        ("seed", "name"), [(2000, "f3"), (2037, "f5"), (2212, "f8"), (2277, "f0")]
    )
    def test_what_is_left_of_other_classes_reckoned_in_two_ways_keeps_its_bounds(self, seed, name):
        live = Live(admitted_of(seed))
        live.remove([name])
        assert name not in live.plan.streams
        assert not judge(live.plan)

    def test_one_without_which_a_bound_would_rise_whatever_slopes_there_are_stays(self):
        live = Live(admitted_of(2107))
        before = live.plan
        with pytest.raises(Unschedulable, match=r"f2: it may take .* is promised"):
            live.remove(["f13"])
        assert live.plan == before


class TestReserve:
    def test_bounds_are_stated_so_much_longer_within_what_is_allowed(self):
        bare = plan(wanted(a=stream())).streams["a"].latency_bound_ns
        reserved = plan(wanted("50%", a=stream())).streams["a"].latency_bound_ns
        assert reserved == bare + bare // 2
        most = f"{bare + 1}ns"
        narrow = plan(wanted("50%", a=stream(**{"max-latency": most})))
        assert narrow.streams["a"].latency_bound_ns == bare + 1

    def test_it_is_used_up_by_those_that_join(self):
        classes = {"video": {"reserve": "50%", "shaping": {"by": "cbs", "idle-slope": "20Mbps"}}}
        live = Live(plan(intent_of(streams={"a": stream()}, classes=classes)))
        every = [some(**{f"b{n}": stream("t2", payload="100B", period="20ms")}) for n in range(40)]
        joined, why = until_refused(live, every)
        assert 2 <= joined < 40
        assert "is promised" in why
        assert not judge(live.plan)


class TestRing:
    def test_streams_join_a_ring_until_a_bound_would_rise(self):
        every = ring_of(5, 2, **{"max-latency": "60ms"})
        first, *rest = every.streams.values()
        live = Live(plan(with_streams(every, first)))
        _, why = until_refused(live, [[each] for each in rest])
        assert "stream f0 would take up to" in why
        assert not judge(live.plan)

    def test_one_that_leaves_no_bound_is_refused_with_the_ports(self):
        every = ring_of(13, 5, payload="1400B", **{"max-latency": "100ms"})
        live = Live(plan(with_streams(every)))
        with pytest.raises(Unschedulable, match="no bound is found at s"):
            live.add([*every.streams.values()])
        assert not live.plan.streams


class TestBesideOthers:
    def test_a_planned_stream_of_a_talker_that_allows_no_interference_is_refused(self):
        keys = {"defaults": {"talker-interference": "none"}}
        live = Live(plan(intent_of(streams={"a": stream()}, **keys)))
        with pytest.raises(Unschedulable, match="t1 with talker-interference: none"):
            live.add(some(axis=stream("t1", **AXIS)))
        assert not judge(live.plan)

    def test_where_none_is_planned_yet_the_first_may_share_windows(self):
        live = live_of("90%", a=stream())
        live.add(some(axis=stream("t2", windows="shared", **AXIS)))
        assert live.plan.streams["axis"].is_shared
        assert not judge(live.plan)
        live.remove(["axis"])
        assert not judge(live.plan)


class TestMixture:
    """While some nodes go by the plan before a change, and others by the next."""

    def test_another_stream_of_a_class_may_join(self):
        live = live_of("50%", a=stream())
        judged = Judged(live.plan)
        live.add(some(b=stream("t2", payload="200B")))
        assert slopes(live.plan)[UP] > slopes(judged.plan)[UP]
        assert judged.compatible(live.plan) == []

    def test_one_may_leave_once_its_talker_has_stopped(self):
        live = live_of("50%", a=stream(), b=stream("t2", payload="200B"))
        judged = Judged(live.plan)
        live.remove(["b"])
        (found,) = judged.compatible(live.plan)
        assert (found.where, found.code) == ("b", "mixture")
        assert judged.compatible(live.plan, silent=["b"]) == []

    def test_a_class_gets_no_shaper_where_frames_of_others_wait(self):
        live = live_of("90%", a=stream())
        judged = Judged(live.plan)
        live.add(some(b=stream("t2", payload="64B", **{"class": "audio"})))
        found = judged.compatible(live.plan)
        assert {each.where for each in found} == {str(UP), "s2/up", str(TO_LISTENER)}
        assert "empties its queues" in found[0].text
        live.remove(["b"])
        live.add(some(c=stream("t2", payload="64B", **{"class": "events"})))
        assert judged.compatible(live.plan) == []

    def test_slopes_that_are_lower_at_some_ports_and_higher_at_others_break_a_bound(self):
        made = plan(wanted("20%", a=stream()))
        lower, higher = ({5: bps * by // 10} for by in (9, 12) for bps in [slopes(made)[UP]])
        by_port = made[IdleSlopes].by_port
        other = IdleSlopes({**by_port, UP: lower, TO_LISTENER: higher})
        assert not judge(made)
        found = Judged(made).compatible(replace(made, parts=made.parts.having(other)))
        assert {(each.code, each.where) for each in found} <= {
            ("bound", "a"),
            ("unbounded", "s1/up"),
        }
        assert found


@pytest.mark.parametrize("seed", range(6))
def test_plans_stay_sound_and_promises_hold_while_streams_come_and_go(seed):
    random = seeded(seed)
    reserve = random.choice((None, "20%", "60%"))
    every = random_intent(seed, axes=random.randrange(6), reserve=reserve)
    live = Live(plan(with_streams(every)))
    promised: dict[str, StreamPlan] = {}
    for _ in range(10):
        name = random.choice(list(every.streams))
        gates = dict(live.plan.gates)
        try:
            if name in live.plan.streams:
                changes = live.remove([name])
            else:
                changes = live.add([every.streams[name]])
        except Unschedulable:
            continue
        gates |= {port: its for port, its in changes.gates.items() if its}
        gone = {port for port, its in changes.gates.items() if its is None}
        assert live.plan.gates == {p: its for p, its in gates.items() if p not in gone}
        promised = {n: promised.get(n, its) for n, its in live.plan.streams.items()}
        assert live.plan.streams == promised
        assert not judge(live.plan)
    assert Live(live.plan).plan == live.plan


def test_a_service_admits_streams_refuses_what_breaks_a_promise_and_starts_again(tmp_path):
    file = tmp_path / "shaped.yaml"
    classes = {"video": {"reserve": "50%"}}
    file.write_text(yaml.safe_dump(document(classes=classes)))
    switches = Switches()
    small = stream("t2", payload="100B", period="20ms")

    async def ask() -> None:
        async with service(tmp_path, switches, file=file) as asking:
            put = await asking.put(ONE, small)
            assert (put["state"], put["placed"]) == ("planned", True)
            assert put["status"]["latency_bound_ns"] > 2 * MS
            await asking.until(ONE, "configured")
            with pytest.raises(CallRefused, match=r"of it at s1/up, and .* is promised"):
                await asking.put(TWO, stream("t2", frames=20))
        running = switches.plans[-1]
        async with service(tmp_path, switches, file=file) as asking:
            assert (await asking.get(ONE))["state"] == "configured"
            assert asking.core.decided
            again, _ = asking.core.decided
            assert again.streams == running.streams
            assert again[IdleSlopes] == running[IdleSlopes]
            await asking.call("stream.delete", {"cuc": CUC, "stream_id": ONE})
            await asking.until_quiet()

    asyncio.run(asyncio.wait_for(ask(), 60))
    with_one, without = switches.plans[0], switches.plans[-1]
    assert len(with_one.streams) == 2
    assert list(without.streams) == ["a"]
    assert slopes(with_one)[UP] > slopes(without)[UP]
    assert all(not judge(each) for each in switches.plans)
