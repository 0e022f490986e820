"""A live plan that promises recovery: streams come and go, and no promise to others is broken."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from cnc import intent as intents
from cnc.check import judge
from cnc.errors import InputError, Unschedulable
from cnc.model import Intent, Windows
from cnc.planner import Live, plan
from cnc.planner.lateness import lateness
from cnc.planner.live import promises
from tests.unit.planner_fuzz import first_faults, promising_plans
from tests.unit.planner_networks import LINE, MS, US, intent, stream

SCHEDULES = Path(__file__).parents[2] / "schedules"
A = stream("a", "t", "l")


def recovering(wanted: Intent, *, required: bool = False) -> Intent:
    network = replace(wanted.network, disturbance_ns=100 * US, recovery_required=required)
    return replace(wanted, network=network)


@pytest.mark.parametrize("name", ["line3", "bridged5", "guarded", "ring6"])
def test_a_default_plan_is_kept_running_with_its_promises(name: str) -> None:
    shipped = intents.load(SCHEDULES / f"{name}.yaml")
    running = plan(shipped)
    live = Live(running)
    last = list(shipped.streams.values())[-1]
    gone = live.remove([last.name])
    assert gone.gone == (last.name,)
    assert judge(live.plan) == []
    back = live.add([last])
    assert judge(live.plan) == []
    others = running.streams.keys() - {last.name}
    promised = {its: live.plan.recovery_ns[its] for its in others}
    assert promised == {its: running.recovery_ns[its] for its in others}
    assert back.recovery_ns[last.name] == live.plan.recovery_ns[last.name]
    assert {hop.egress for hop in back.streams[last.name].hops} <= back.ports


def test_a_stream_is_promised_the_same_where_nobody_was_promised_anything() -> None:
    running = plan(recovering(intent(LINE, A)))
    silent = replace(running, recovery_ns={})
    more = stream("more", "t", "l", payload_octets=46)
    came = Live(silent).add([more])
    longer = {name: ns + MS for name, ns in running.recovery_ns.items()}
    assert came.recovery_ns == Live(replace(running, recovery_ns=longer)).add([more]).recovery_ns
    assert came.recovery_ns["more"] > 0


def test_what_the_first_change_asks_for_is_found_once_and_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = replace(plan(recovering(intent(LINE, A))), recovery_ns={})
    more = stream("more", "t", "l", payload_octets=46)
    unprepared = Live(silent).add([more])
    begun, go_on, times = Event(), Event(), []

    def held_up(*its: Any) -> Any:
        times.append(1)
        begun.set()
        go_on.wait(20)
        return lateness(*its)

    monkeypatch.setattr(promises, "lateness", held_up)
    live = Live(silent)
    with ThreadPoolExecutor(2) as pool:
        preparing = pool.submit(live.prepare)
        begun.wait(20)
        adding = pool.submit(live.add, [more])
        wait([adding], 0.2)  # in vain, and for long enough to find it a second time
        go_on.set()
        preparing.result(20)
        assert adding.result(20) == unprepared
    assert len(times) == 1


def test_a_stream_that_would_make_others_late_for_longer_is_refused_with_both_figures() -> None:
    running = plan(recovering(intent(LINE, A)))
    live = Live(running)
    long = stream("long", "t", "l", payload_octets=1500, frames=8)
    with pytest.raises(Unschedulable) as refused:
        live.add([long])
    port, why = next(iter(refused.value.reasons.items()))
    assert port in {"port s1/s2", "port s2/s3", "port s3/l", "port t/s1"}
    promised = running.recovery_ns["a"] / 1000
    assert why.startswith("after a disturbance frames of a could be late for ")
    assert f"{promised:g} µs is what it was promised" in why
    assert live.plan == running


def test_room_that_a_stream_has_left_is_there_for_one_like_it() -> None:
    b = stream("b", "t", "l", payload_octets=700)
    live = Live(plan(recovering(intent(LINE, A, b))))
    for turn in range(3):
        live.remove(["b" if not turn else f"b{turn}"])
        live.add([replace(b, name=f"b{turn + 1}")])
        assert judge(live.plan) == []


def test_where_no_bound_is_found_a_stream_has_none() -> None:
    burst = stream("burst", "t", "l", frames=256, payload_octets=106, windows=Windows.EXACT)
    live = Live(plan(recovering(intent(LINE, burst))))
    assert not live.plan.recovery_ns
    assert live.add([A]).recovery_ns == {}
    assert judge(live.plan) == []


def test_where_each_stream_must_have_a_bound_one_without_is_refused_with_the_port() -> None:
    live = Live(plan(recovering(intent(LINE, stream("back", "l", "t")), required=True)))
    burst = stream("burst", "t", "l", frames=256, payload_octets=106)
    with pytest.raises(Unschedulable) as refused:
        live.add([burst])
    assert refused.value.reasons["burst"].startswith(
        "at s1/s2 no bound is found on how long frames are late after a disturbance: outside their "
        "planned windows the gates leave too little time for burst"
    )
    live.add([A])


def test_a_promise_that_nothing_accounts_for_is_no_plan_to_go_on_from() -> None:
    running = plan(recovering(intent(LINE, A)))
    with pytest.raises(InputError, match=r"promises more of disturbances .* account for: a"):
        Live(replace(running, recovery_ns={"a": running.recovery_ns["a"] - 1}))


def test_a_plan_that_was_changed_is_one_to_go_on_from() -> None:
    live = Live(plan(recovering(intent(LINE, A, stream("b", "t", "l", period_ns=2 * MS)))))
    live.remove(["b"])
    again = Live(live.plan)
    assert again.plan == live.plan
    assert again.remove(["a"]).gates.keys() == live.remove(["a"]).gates.keys()


@pytest.mark.parametrize("seed", range(1, 41))
def test_a_live_plan_of_a_random_network_keeps_what_it_promises(seed: int) -> None:
    assert first_faults(promising_plans(seed)) == []
