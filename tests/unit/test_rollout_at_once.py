"""A change that is right in every mixture: when its lists start, and how it is read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.data_tree.tree import GatesReport
from cnc.errors import RolloutError
from cnc.model import NS_PER_S, Plan
from cnc.planner import plan as compute
from cnc.rollout import push, timing
from cnc.rollout.events import Step
from cnc.rollout.history import History, Phase
from cnc.switch import ConnectOptions
from tests.unit.fake_devices import TAI_MINUS_MONOTONIC_NS, stand_in

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
CONNECT = ConnectOptions(Path("key"), Path("known_hosts"))
MS = 1_000_000


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compute(intents.load(LINE3))


@pytest.fixture
def switches(plan, monkeypatch):
    return stand_in(monkeypatch, plan.intent.network.bridges)


@pytest.fixture
def devices(switches):
    return switches[0]


@pytest.fixture
def clock(switches):
    return switches[1]


@pytest.fixture
def store(tmp_path):
    with History(tmp_path / "history.sqlite") as opened:
        yield opened


def tai_ns(clock):
    return TAI_MINUS_MONOTONIC_NS + clock.monotonic_ns()


def ports_of(plan, name):
    return [port.port for port in plan.gates if port.node == name]


def at_once(plan, **options):
    return push(plan, connect=CONNECT, at_once=True, **options)


def test_all_lists_run_when_they_are_confirmed_and_none_has_waited_for_a_lead(plan, devices, clock):
    begun_ns = tai_ns(clock)
    at_once(plan)
    assert tai_ns(clock) - begun_ns < timing.AT_ONCE_MIN_NS + plan.intent.hyperperiod_ns()
    for name, device in devices.items():
        reports = device.state(ports_of(plan, name)).ports.values()
        gates = [each[GatesReport] for each in reports]
        assert all(each.running for each in gates)
        assert not any(each.pending for each in gates)
        assert device.calls[-2:] == ["unlock", "close"]


def test_each_list_starts_with_the_next_multiple_of_its_own_cycle(plan, devices, store):
    report = at_once(plan, history=store)
    for device in devices.values():
        for wanted, schedule in device.kernel.values():
            cycle_ns = wanted.gates.cycle_ns
            assert schedule.base_time_ns % cycle_ns == 0
            assert 0 <= schedule.base_time_ns - report.base_time_ns < cycle_ns
    assert store.rollout(report.number).base_time_ns == report.base_time_ns


@pytest.mark.parametrize(("cycle_ns", "confirm_s"), [(2 * MS, 5), (2_100 * MS, 5), (4_000 * MS, 8)])
def test_cycles_that_share_no_instant_for_hours_are_no_reason_to_wait(cycle_ns, confirm_s):
    now_ns = 1_800_000_000 * NS_PER_S + 1
    deadlines = timing.Deadlines.at_once(now_ns, 0, {cycle_ns, 7_919 * MS // 10})
    assert deadlines.runs_ns - deadlines.base_time_ns < max(cycle_ns, NS_PER_S)
    assert deadlines.timeout_s == confirm_s
    assert (deadlines.runs_ns - now_ns) * 2 <= deadlines.timeout_s * NS_PER_S


def test_a_commit_that_comes_after_the_base_time_is_refused_by_its_switch(plan, devices):
    """Its list would have to take over from a base time that has passed."""
    report = at_once(plan)
    (apply_before_ns,) = {d.running.rollout_id.apply_before_ns for d in devices.values()}
    assert apply_before_ns == report.base_time_ns


def test_the_slower_a_switch_answers_the_more_time_there_is_for_its_commit():
    fast, slow = (timing.Deadlines.at_once(0, ns, {MS}) for ns in (MS, 400 * MS))
    assert fast.base_time_ns == timing.AT_ONCE_MIN_NS
    assert slow.base_time_ns == 600 * MS


def test_lists_that_take_too_long_to_be_staged_are_committed_nowhere(plan, devices, clock, store):
    edit = devices["s2"].edit

    def slow_edit(config):
        clock.sleep(1)
        edit(config)

    devices["s2"].edit = slow_edit
    with pytest.raises(RolloutError, match=r"0\.\d+ s after the instant until which") as error:
        at_once(plan, history=store)
    assert "no switch was changed" in str(error.value)
    assert not any("commit_confirmed" in device.calls for device in devices.values())


def test_a_list_that_starts_a_little_late_is_waited_for(plan, devices):
    devices["s2"].clock_ahead_ns = -500_000  # within what the plan allows
    at_once(plan)
    assert all(device.persist is None for device in devices.values())


def test_a_list_that_does_not_start_takes_all_back(plan, devices, clock, store):
    commit = devices["s2"].commit_confirmed

    def to_a_clock_that_stands_still(timeout_s, persist):
        commit(timeout_s, persist)
        devices["s2"].clock = type("Stopped", (), {"monotonic_ns": lambda _, n=clock.now_ns: n})()

    devices["s2"].commit_confirmed = to_a_clock_that_stands_still
    events = []
    with pytest.raises(RolloutError, match=r"s2: the list of s\d does not run 1\.\d+ s after") as e:
        at_once(plan, history=store, listener=lambda event: events.append(event.step))
    assert "no switch was changed" in str(e.value)
    assert events[-2:] == [Step.VERIFY, Step.ROLLBACK]
    assert all("cancel_commit" in device.calls for device in devices.values())
    assert [each.phase for each in store.rollouts()] == [Phase.ROLLED_BACK]
