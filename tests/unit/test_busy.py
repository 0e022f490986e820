"""Disturbances of plans in which frames share windows, by the account of busy times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle

import pytest

from cnc.check import busy, judge, recovery
from cnc.check.busy import BusyPeriods
from cnc.errors import Unschedulable
from cnc.model import Intent, Plan, PortRef, TrafficClass, Windows
from cnc.planner import plan
from tests.simulator.adversary import Chance, Slow
from tests.simulator.ports import Disturbance, LateFrame
from tests.unit.planner_networks import CYCLIC, MS, SLOWER, US, seeded
from tests.unit.test_shared_recovery import (
    LASTS_NS,
    PLANS,
    asked_for,
    codes,
    disturbances,
    given_by,
    late_frames,
    too_long,
)
from tests.unit.test_shared_recovery import recovering as recovering_by
from tests.unit.window_plans import (
    WITHOUT_CONTROL,
    line,
    random_spare_room,
    ring,
    stored_batch,
)


def account_of(planned: Plan) -> BusyPeriods:
    return BusyPeriods(*given_by(planned))


def recovering(planned: Plan, lasts_ns: int = LASTS_NS) -> Plan:
    """The plan with what the account promises."""
    return recovering_by(planned, lasts_ns, BusyPeriods)


@pytest.mark.parametrize("name", sorted(PLANS.keys() - {"a ring"}))
def test_frames_are_in_time_again_when_queues_have_been_busy_once_after_one_another(
    name: str,
) -> None:
    planned = recovering(PLANS[name](MS))
    assert planned.recovery_ns.keys() == planned.streams.keys()
    for seed, disturbance in enumerate(disturbances(planned, LASTS_NS, 193 * US)):
        assert list(too_long(planned, Slow(), disturbance=disturbance)) == []
        assert list(too_long(planned, Chance(seed), disturbance=disturbance)) == []
    for seed, late_frame in enumerate(late_frames(planned, 193 * US)):
        for against in (Slow(), Chance(seed)):
            assert list(too_long(planned, against, late_frame=late_frame)) == []


def test_the_judge_takes_the_shorter_of_both_accounts() -> None:
    """Late frames of a line leave behind their windows; where they do not, spare room of several
    periods makes up for them."""
    short = line(4, 9, spare_ns=MS)
    asked = asked_for(short, LASTS_NS)
    given = given_by(asked)
    by_window = recovery.SharedRecovery(*given).by_stream()
    assert recovery.account_of(*given).by_stream() == by_window
    assert recovering(short).recovery_ns.keys() == by_window.keys()
    long = recovering(short, 2 * MS)
    assert long.recovery_ns.keys() == long.streams.keys()
    assert judge(long) == []
    shorter = {name: ns - 1 for name, ns in long.recovery_ns.items()}
    assert codes(replace(long, recovery_ns=shorter)) == {"recovery"}


def test_queues_that_feed_one_another_in_a_ring_have_no_bound() -> None:
    around = asked_for(ring(6, 2, spare_ns=MS), LASTS_NS)
    account = account_of(around)
    assert set(account.by_stream().values()) == {None}
    assert set(account.endless.values()) == {"frames may hand lateness on around a ring of ports"}


def test_a_port_without_room_beside_what_is_planned_is_named_with_both_figures() -> None:
    account = account_of(asked_for(stored_batch(30), LASTS_NS))
    assert set(account.by_stream().values()) == {None}
    (why,) = account.endless.values()
    assert account.endless.keys() == {PortRef("s1", "plc")}
    assert why.startswith("in 1 ms its gates leave late frames ")
    assert ", of which those that come as planned take " in why


def test_longer_disturbances_take_longer_and_no_plan_gets_a_bound_by_less_spare_room() -> None:
    found = [max(recovering(line(3, 4, spare_ns=MS), ns).recovery_ns.values()) for ns in (0, MS)]
    assert found[0] < found[1]
    rooms = range(0, 200 * US, 10 * US)
    has = [bool(recovering(stored_batch(30, spare_ns=room)).recovery_ns) for room in rooms]
    assert has == sorted(has)
    assert has[0] < has[-1]


def test_a_busy_time_is_what_may_be_there_by_what_a_cycle_serves_beside_its_own_frames() -> None:
    """By hand: four frames in a period, no margin and no control. A disturbance that one cycle
    makes up for takes another one in which that begins; a nanosecond more, one more."""
    frame_ns, best_effort_ns, open_ns = 849, 12_338, 903_500
    misfit_ns = best_effort_ns + frame_ns  # where a stretch begins, and ends
    spare_ns = open_ns - misfit_ns - 4 * frame_ns
    a_cycle_ns = varies_ns = late_ns = 4 * frame_ns
    holds_ns = a_cycle_ns + varies_ns + late_ns + 2 * misfit_ns + frame_ns  # one that nobody asked
    talker_ns, takes_ns = 1_702, 5_854  # until the talker is back, and its frames have come
    made = stored_batch(4, classes=WITHOUT_CONTROL, spare_ns=900 * US)
    for more_ns, cycles in ((0, 1), (1, 2)):
        account = account_of(asked_for(made, spare_ns - holds_ns + more_ns))
        back_ns = talker_ns + takes_ns + (cycles + 1) * MS
        assert set(account.by_stream().values()) == {back_ns}


# --- what the account leaves out ------------------------------------------------------------------


def nothing_is_lost_where_gates_open(broken: pytest.MonkeyPatch) -> Plan:
    service = BusyPeriods._service

    def without(account: BusyPeriods, *given: object) -> object:
        intent = account._intent
        no_margin = replace(intent.network, gate_margin_ns=0)
        account._intent = replace(intent, network=no_margin)
        try:
            return service(account, *given)
        finally:
            account._intent = intent

    broken.setattr(BusyPeriods, "_service", without)
    return stored_batch(30, classes=WITHOUT_CONTROL, margin_ns=50 * US)


def no_control(broken: pytest.MonkeyPatch) -> Plan:
    broken.setattr(busy, "control_part", lambda *_: (0, 1))
    broken.setattr(busy, "control_waiting_ns", lambda *_: 0)
    broken.setattr(busy, "wire_ns", lambda *_: 0)
    return stored_batch(30)


def nothing_is_planned(broken: pytest.MonkeyPatch) -> Plan:
    broken.setattr(BusyPeriods, "_work", lambda *_: (0, 0))
    return stored_batch(30, classes=WITHOUT_CONTROL)


BROKEN = [nothing_is_lost_where_gates_open, no_control, nothing_is_planned]


@pytest.mark.parametrize("rule", BROKEN, ids=lambda rule: rule.__name__)
def test_an_account_that_leaves_one_thing_out_promises_what_does_not_come(
    rule: Callable[[pytest.MonkeyPatch], Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a pause for it no spare room makes up for a disturbance, ever."""
    port = PortRef("s1", "plc")
    begins = range(MS, 2 * MS, 50 * US)
    with monkeypatch.context() as broken:
        made = rule(broken)
        planned = recovering(made)
    assert recovering(made).recovery_ns == {}
    assert any(
        any(too_long(planned, Slow(), disturbance=Disturbance(port, begin, LASTS_NS)))
        for begin in begins
    )


# --- any network ---------------------------------------------------------------------------------


def assert_in_time_again(planned: Plan, lasts_ns: int, seed: int) -> None:
    random, hyperperiod = seeded(seed), planned.intent.hyperperiod_ns()
    for port in sorted(planned.gates) if planned.recovery_ns else ():
        hops = [h for its in planned.streams.values() for h in its.hops if h.egress == port]
        hop = random.choice(hops)
        begin = (
            hyperperiod + hop.offset_ns + random.choice((-1, hop.window_ns // 2, -lasts_ns // 2))
        )
        against = random.choice((Slow(), Chance(seed)))
        disturbance = Disturbance(port, begin, lasts_ns)
        late = set(too_long(planned, against, disturbance=disturbance))
        assert not late & planned.recovery_ns.keys()
    for name in random.sample(sorted(planned.streams), min(3, len(planned.streams))):
        period = planned.intent.streams[name].period_ns
        late_frame = LateFrame(name, hyperperiod // period, random.randrange(1, period))
        late = set(too_long(planned, Slow(), late_frame=late_frame))
        assert not late & planned.recovery_ns.keys()


@pytest.mark.parametrize("seed", range(200, 225))
def test_streams_of_random_networks_recover_as_the_account_promises(seed: int) -> None:
    lasts = (20 * US, LASTS_NS, 400 * US, 2 * MS)[seed % 4]
    for made in random_spare_room(seed):
        assert_in_time_again(recovering(made, lasts), lasts, seed)


KINDS = {
    "one class": ((CYCLIC, Windows.SHARED),),
    "two classes": ((CYCLIC, Windows.SHARED), (SLOWER, Windows.SHARED)),
    "above exact windows": ((CYCLIC, Windows.SHARED), (SLOWER, Windows.EXACT)),
    "below exact windows": ((CYCLIC, Windows.EXACT), (SLOWER, Windows.SHARED)),
}


def of(wanted: Intent, kinds: Sequence[tuple[TrafficClass, Windows]]) -> Intent:
    """The intent, whose streams take these classes and windows in turn."""
    streams = {}
    for (name, its), (c, windows) in zip(wanted.streams.items(), cycle(kinds), strict=False):
        streams[name] = replace(its, windows=windows, traffic_classes=(c.name,))
    known = {**wanted.classes, **{c.name: c for c, _ in kinds}}
    return replace(wanted, streams=streams, classes=known)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", KINDS)
def test_plans_of_the_planner_for_random_networks_recover_as_the_account_promises(
    kind: str, seed: int
) -> None:
    for made in random_spare_room(seed):
        lasts = (20 * US, LASTS_NS)[seed % 2]
        network = replace(made.intent.network, disturbance_ns=lasts)
        wanted = of(replace(made.intent, network=network), KINDS[kind])
        try:
            planned = plan(wanted, best_effort=True)
        except Unschedulable:
            return
        assert judge(planned) == []
        assert_in_time_again(recovering(planned, lasts), lasts, seed)
        if kind in {"one class", "two classes"}:
            assert planned.recovery_ns.keys() == planned.streams.keys()
