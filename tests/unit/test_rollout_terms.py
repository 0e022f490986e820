"""Who acts for a network: what a rollout tells its switches of it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.data_tree.tree import KeptTerm
from cnc.errors import RolloutError
from cnc.model import NS_PER_S, Plan
from cnc.planner import plan as compute
from cnc.rollout import (
    Term,
    push,
    resume,
    roll_back,
    timing,
)
from cnc.rollout.history import History
from cnc.switch import ConnectOptions
from cnc.switch.device import DeviceError, StoredSwitch
from cnc.switch.payload import edit_config
from cnc.switch.rollout_id import RolloutId, rollout_id_element, rollout_id_in
from tests.unit.fake_devices import TAI_MINUS_MONOTONIC_NS, stand_in

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
CONNECT = ConnectOptions(Path("key"), Path("known_hosts"))
SERVICE = Term("line3", 7)
KEPT = KeptTerm("line3", 7, "cnc@server", "2026-11-29T10:00:00+00:00")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compute(intents.load(LINE3))


@pytest.fixture
def devices(plan, monkeypatch):
    return stand_in(monkeypatch, plan.intent.network.bridges)[0]


@pytest.fixture
def store(tmp_path):
    with History(tmp_path / "history.sqlite") as opened:
        yield opened


def told(devices):
    """The terms that switches were told, and the networks that they were told to leave."""
    ids = [device.running.rollout_id for device in devices.values()]
    return [each.term for each in ids], [each.former_network for each in ids]


def test_every_edit_names_network_and_term(plan, devices):
    push(plan, connect=CONNECT, term=SERVICE)
    assert told(devices) == ([SERVICE] * 3, [None] * 3)


def test_without_a_term_none_is_named(plan, devices):
    push(plan, connect=CONNECT)
    assert told(devices) == ([None] * 3, [None] * 3)


def test_agents_that_keep_no_terms_are_told_none(plan, devices):
    devices["s2"].keeps_terms = False
    push(plan, connect=CONNECT, term=SERVICE)
    assert told(devices)[0] == [SERVICE, None, SERVICE]


@pytest.mark.parametrize("resolve", [resume, roll_back])
def test_what_is_decided_of_an_interrupted_rollout_names_them_too(plan, devices, store, resolve):
    devices["s1"].breaks["confirm"] = DeviceError("s1", "connection lost")
    with pytest.raises(RolloutError, match="may run two schedules"):
        push(plan, connect=CONNECT, history=store, term=Term("line3", 6))
    del devices["s1"].breaks["confirm"]
    devices["s1"].go_back()
    report = resolve(connect=CONNECT, history=store, term=SERVICE)
    changed = {change.port.node for change in report.changes}
    assert {devices[name].running.rollout_id.term for name in changed} == {SERVICE}


def test_to_take_over_is_to_name_the_next_term_of_all_that_switches_have_met(plan, devices):
    devices["s1"].kept_term = KEPT
    devices["s3"].kept_term = KeptTerm("line3", 9, "other@server", KEPT.taken)
    push(plan, connect=CONNECT, take_over=True)
    assert told(devices) == ([Term("line3", 10)] * 3, [None] * 3)


def test_to_take_over_where_nobody_acts_names_none(plan, devices):
    push(plan, connect=CONNECT, take_over=True)
    assert told(devices)[0] == [None] * 3


def test_who_takes_over_with_a_term_of_its_own_keeps_to_it(plan, devices):
    devices["s1"].kept_term = KEPT
    push(plan, connect=CONNECT, take_over=True, term=Term("line3", 8))
    assert told(devices)[0] == [Term("line3", 8)] * 3


def test_a_switch_of_another_network_is_told_to_leave_it_by_who_takes_over_alone(plan, devices):
    devices["s2"].kept_term = KeptTerm("plant", 3, "cnc@server", KEPT.taken)
    push(plan, connect=CONNECT, take_over=True)
    assert told(devices) == ([Term("line3", 4)] * 3, [None, "plant", None])

    for device in devices.values():
        device.running, device.kernel = StoredSwitch({}, None), {}
    push(plan, connect=CONNECT, term=Term("line3", 9))
    assert told(devices)[1] == [None] * 3


def test_who_does_not_know_the_rollout_is_told_who_acts_for_the_network(plan, devices, store):
    devices["s2"].running = StoredSwitch({}, RolloutId("5f0c", "cnc@server", KEPT.taken))
    devices["s2"].kept_term = KEPT
    with pytest.raises(RolloutError) as error:
        push(plan, connect=CONNECT, history=store)
    assert "network line3, for which cnc@server acts since 2026-11-29T10:00:00+00:00 (term 7)" in (
        str(error.value)
    )
    assert "--take-over" in error.value.hint


def test_a_rollout_of_the_own_term_is_no_other_controllers(plan, devices, store):
    """As of a switch that was claimed before its first rollout."""
    devices["s2"].running = StoredSwitch({}, RolloutId("5f0c", "x@y", KEPT.taken, term=SERVICE))
    with pytest.raises(RolloutError, match="not in this history"):
        push(plan, connect=CONNECT, history=store, term=Term("line3", 8))
    assert push(plan, connect=CONNECT, history=store, term=SERVICE).changes


def test_what_is_written_is_read_again():
    its = RolloutId("5f0c", "ann@noc", KEPT.taken, 1000, 12, SERVICE, "plant")
    assert rollout_id_in(edit_config({}, 0, {}, its)) == its
    plain = RolloutId("5f0c", "ann@noc", KEPT.taken)
    assert len(rollout_id_element(plain)) == 3


def told_until_ns(devices):
    (told_ns,) = {device.running.rollout_id.apply_before_ns for device in devices.values()}
    return told_ns


def test_no_switch_may_apply_a_rollout_after_the_end_of_its_leaders_lease(plan, devices):
    end_ns = time.monotonic_ns() + 2 * NS_PER_S
    wanted = []

    def within(wanted_ns):
        wanted.append(wanted_ns)
        return end_ns - time.monotonic_ns()

    push(plan, connect=CONNECT, term=SERVICE, within=within)
    assert told_until_ns(devices) <= end_ns + TAI_MINUS_MONOTONIC_NS
    assert wanted[0] > 2 * NS_PER_S


def test_a_lease_that_lasts_longer_changes_nothing(plan, devices):
    report = push(plan, connect=CONNECT, term=SERVICE, within=lambda wanted_ns: wanted_ns)
    left_ns = report.base_time_ns - told_until_ns(devices)
    assert left_ns == timing.MIN_MARGIN_NS + 3 * NS_PER_S


def test_by_a_lease_that_is_over_nothing_is_sent(plan, devices):
    with pytest.raises(RolloutError, match="no switch was changed"):
        push(plan, connect=CONNECT, term=SERVICE, within=_over)
    assert not any(device.running.rollout_id for device in devices.values())


def _over(_wanted_ns):
    raise RolloutError("the lease is over")


def test_switches_that_are_too_slow_for_the_lease_are_told_so(plan, devices):
    with pytest.raises(RolloutError, match="after the end of the lease by which this controller"):
        push(plan, connect=CONNECT, term=SERVICE, within=lambda _wanted_ns: 0)
    assert not any(device.running.rollout_id for device in devices.values())
