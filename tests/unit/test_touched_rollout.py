"""A rollout of what is touched: which switches it speaks to, and what it takes the rest for."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.errors import RolloutError
from cnc.model import Plan
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.rollout.history import History, Phase
from cnc.switch import ConnectOptions
from tests.unit.fake_devices import stand_in

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
CONNECT = ConnectOptions(Path("key"), Path("known_hosts"))


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compute(intents.load(LINE3))


@pytest.fixture(scope="module")
def more(plan) -> Plan:
    """With one more stream, which passes s3 alone."""
    document = intents.load(LINE3).document
    added = {**document["streams"]["valves"], "talker": "l1", "listeners": ["l2"]}
    wanted = {**document, "streams": {**document["streams"], "report": added}}
    return compute(intents.from_document(wanted, plan.intent.name), keep=plan)


@pytest.fixture
def devices(plan, monkeypatch):
    return stand_in(monkeypatch, plan.intent.network.bridges)[0]


@pytest.fixture
def store_path(tmp_path):
    return tmp_path / "history.sqlite"


@pytest.fixture
def store(store_path):
    with History(store_path) as opened:
        yield opened


@pytest.fixture
def running(plan, devices, store):
    """All run the plan, and nobody has asked them anything yet."""
    push(plan, connect=CONNECT, history=store)
    for device in devices.values():
        device.calls.clear()
    return devices


def touch(plan, store, **options):
    return push(plan, connect=CONNECT, history=store, touched=True, **options)


def test_only_what_differs_from_the_plan_that_runs_is_spoken_to(running, more, store):
    report = touch(more, store)
    assert {change.port.node for change in report.changes} == {"s3"}
    assert running["s3"].calls[-1] == "close"
    assert running["s1"].calls == running["s2"].calls == []


def test_what_is_wrong_with_others_does_not_prevent_it(running, more, store):
    running["s1"].refuses_late_rollouts = False
    running["s2"].breaks["lock running"] = "lock is held by session 7"
    assert touch(more, store).changes


def test_the_history_has_the_whole_plan_and_the_switches_that_changed(
    running, more, store, store_path
):
    number = touch(more, store).number
    with History(store_path) as again:
        assert again.plan_of(number) == more
    assert set(store.rollout(number).switches) == {"s3"}
    assert touch(more, store).changes == ()


def test_all_are_spoken_to_where_no_plan_runs_yet(plan, devices, store):
    report = touch(plan, store)
    assert {change.port.node for change in report.changes} == set(devices)


def test_a_change_of_nothing_speaks_to_nobody(plan, running, store):
    report = touch(plan, store)
    assert (report.changes, report.number) == ((), None)
    assert all(device.calls == [] for device in running.values())


def test_back_to_the_plan_before_is_a_change_of_the_same_switches(plan, running, more, store):
    touch(more, store)
    touch(plan, store)
    assert store.running_plan(plan.intent.name) == plan
    assert running["s1"].calls == []


def test_a_change_that_another_rollout_has_overtaken_is_refused(
    plan, running, more, store, monkeypatch
):
    """What the other one brought to other switches would be missing in the history."""
    read = running["s3"].stored

    def overtaken(ports):
        monkeypatch.setattr(running["s3"], "stored", read, raising=False)
        push(plan, connect=CONNECT, history=store, take_over=True)
        for device in running.values():
            device.running, device.kernel = type(device.running)({}, None), {}
        push(plan, connect=CONNECT, history=store, take_over=True)
        return read(ports)

    monkeypatch.setattr(running["s3"], "stored", overtaken, raising=False)
    with pytest.raises(RolloutError, match=r"rollout 2 of .* has begun since this change") as error:
        touch(more, store)
    assert "no switch was changed" in str(error.value)
    assert [each.phase for each in store.rollouts()] == [Phase.DONE, Phase.DONE]


def test_one_that_was_rolled_back_has_overtaken_nothing(running, more, store):
    running["s3"].breaks_once["commit_confirmed"] = "no"
    with pytest.raises(RolloutError, match="no switch was changed"):
        touch(more, store)
    assert touch(more, store).changes
