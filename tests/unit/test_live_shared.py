"""A live plan whose streams share windows: one more joins where all leave by the stated ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cnc.check import judge
from cnc.errors import InputError, Unschedulable
from cnc.model import GateControlList, GateEntry, Intent, PortRef, Stream, Windows
from cnc.planner import Live, plan
from cnc.planner.live.within import opens_within
from tests.unit.planner_fuzz import first_faults, sharing_live_plans
from tests.unit.planner_networks import MS, US, intent, network, stream, with_streams

STAR = network("t-s1", "u-s1", "s1-s2", "s2-l", "s2-m")


def sharing(*streams: Stream, recovery_ns: int | None = None) -> Intent:
    """Through gates that open up to 50 µs late."""
    late = replace(STAR, gate_margin_ns=50 * US, disturbance_ns=recovery_ns)
    return intent(late, *(replace(each, windows=Windows.SHARED) for each in streams))


def named(name: str, talker: str = "t", listener: str = "l", **stated: object) -> Stream:
    return stream(name, talker, listener, windows=Windows.SHARED, **stated)


def crowd(count: int) -> list[Stream]:
    """One that sends in each slot of 1 ms, and others that do so in every other one."""
    others = (named(f"f{n}", "tu"[n % 2], period_ns=2 * MS) for n in range(1, count))
    return [named("f0"), *others]


def test_a_stream_joins_windows_that_have_room_and_nobody_moves() -> None:
    running = plan(sharing(*crowd(12)))
    live = Live(running)
    came = live.add([named("new", period_ns=2 * MS)])
    assert judge(live.plan) == []
    assert {n: live.plan.streams[n] for n in running.streams} == running.streams
    # Of two slots one had seven frames, the other six: the window is as long as for seven.
    before = {hop.egress: hop.window_ns for hop in running.streams["f0"].hops[1:]}
    assert {hop.egress: hop.window_ns for hop in came.streams["new"].hops[1:]} == before
    assert live.plan.gates == running.gates


def test_a_window_is_opened_where_none_is() -> None:
    running = plan(sharing(*crowd(4)))
    live = Live(running)
    came = live.add([named("other", "u", "m", period_ns=2 * MS, max_latency_ns=2 * MS)])
    assert judge(live.plan) == []
    assert PortRef("s2", "m") in came.gates
    assert running.gates.keys() < live.plan.gates.keys()


def test_where_all_slots_are_full_a_stream_waits_behind_the_others() -> None:
    live = Live(plan(sharing(*crowd(11))))
    patient = live.add([named("patient", period_ns=2 * MS, max_latency_ns=2 * MS)])
    assert judge(live.plan) == []
    ends = {hop.egress: hop.window_ns for hop in live.plan.streams["f0"].hops[1:]}
    assert all(hop.window_ns >= ends[hop.egress] for hop in patient.streams["patient"].hops[1:])


def test_a_stream_that_has_less_time_than_a_window_takes_is_refused() -> None:
    live = Live(plan(sharing(*crowd(12))))
    before = live.plan
    with pytest.raises(Unschedulable) as refused:
        live.add([named("hasty", "t", "m", period_ns=2 * MS, max_latency_ns=60 * US)])
    why = refused.value.reasons["hasty"]
    assert why.startswith("no window that frames share brings it in time: it would take up to ")
    assert why.endswith("its max-latency is 60 µs")
    assert live.plan == before


def test_a_window_that_nobody_needs_any_more_is_shut() -> None:
    live = Live(plan(sharing(*crowd(4), named("alone", "u", "m"))))
    gone = live.remove(["alone"])
    assert gone.gates[PortRef("s2", "m")] is None
    assert judge(live.plan) == []


def test_a_promise_of_recovery_holds_while_others_come_and_go() -> None:
    running = plan(sharing(*crowd(11), recovery_ns=100 * US))
    assert running.recovery_ns.keys() == running.streams.keys()
    live = Live(running)
    live.remove(["f3"])
    live.add([named("new", "u", period_ns=2 * MS)])
    assert judge(live.plan) == []
    assert {n: live.plan.recovery_ns[n] for n in running.streams if n != "f3"} == {
        n: ns for n, ns in running.recovery_ns.items() if n != "f3"
    }


def test_what_does_not_go_with_shared_windows_is_refused_with_the_reason() -> None:
    live = Live(plan(sharing(*crowd(4))))
    for asked, why in (
        (replace(named("own"), windows=Windows.EXACT), "those of its class share theirs"),
        (named("odd", period_ns=1500 * US), "its period of 1500 µs is no multiple of the slots of"),
    ):
        with pytest.raises(Unschedulable) as refused:
            live.add([asked])
        assert why in refused.value.reasons[asked.name]


def test_windows_that_are_longer_than_the_planner_makes_them_are_not_held() -> None:
    running = plan(sharing(*crowd(4)))
    port = PortRef("s1", "s2")
    open_to_all = replace(
        running.gates[port],
        entries=tuple(
            replace(entry, gate_states=entry.gate_states | 1 << running.class_of("f0").number)
            for entry in running.gates[port].entries
        ),
    )
    with pytest.raises(
        InputError, match="has other windows that streams share than this planner lays out"
    ):
        Live(replace(running, gates={**running.gates, port: open_to_all}))


def test_gates_are_compared_over_all_cycles_of_both_lists() -> None:
    short = GateControlList(10, (GateEntry(1, 5), GateEntry(2, 5)))
    long = GateControlList(20, (GateEntry(1, 5), GateEntry(2, 5), GateEntry(3, 10)))
    assert opens_within(short, long)
    assert not opens_within(long, short)


def test_streams_of_a_plan_that_may_choose_share_windows_are_held_by_default() -> None:
    free = with_streams(
        sharing(*crowd(40)), *(replace(each, windows=Windows.AUTO) for each in crowd(40))
    )
    running = plan(free)
    assert all(planned.is_shared for planned in running.streams.values())
    live = Live(running)
    live.remove(["f0"])
    live.add([replace(crowd(1)[0], name="again")])
    assert judge(live.plan) == []


@pytest.mark.parametrize("seed", range(1, 31))
def test_a_live_plan_of_a_random_network_with_shared_windows_stays_sound(seed: int) -> None:
    assert first_faults(sharing_live_plans(seed)) == []
