"""A push to three switches: real agents and NETCONF servers, controllers that die, frozen servers.

Every moment of a rollout and every fault are walked through in the VM (tests/fault).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from lxml import etree

from cnc.data_tree.tree import BRIDGE, INTERFACES, NETCONF, SCHED_BRIDGE
from cnc.errors import RolloutError
from cnc.model import Plan, StoredGates
from cnc.planner import plan as compute
from cnc.rollout import Report, push, resume, roll_back, status
from cnc.rollout.history import History, Outcome, Phase
from cnc.switch import ConnectOptions
from cnc.switch.device import Device, DeviceError
from tests.scale.dying import (
    WhileItsAgentHangs,
    after_the_decision,
    after_the_first_confirmation,
    before_the_decision,
    push_and_die,
)
from tests.scale.inspection import Inspector, inspector, kernel_lists
from tests.scale.orders import AGENT, NETCONF_SERVER
from tests.scale.simulation import Simulation, simulated_switches
from tests.stack.netconfd_process import wait_until

GOES_BACK_WITHIN_S = 90.0  # the longest confirm window that an overloaded machine came to


@dataclass(frozen=True)
class Plans:
    """They differ in every list; all switches run `former` when a test begins."""

    former: Plan
    new: Plan


@dataclass(frozen=True)
class Operator:
    """Somebody with a history of what they have rolled out."""

    connect: ConnectOptions
    path: Path
    history: History

    def push(self, plan: Plan, *, take_over: bool = False) -> Report:
        return push(plan, connect=self.connect, history=self.history, take_over=take_over)


@pytest.fixture(scope="module")
def simulation():
    with simulated_switches(3) as running:
        yield running


@pytest.fixture(scope="module")
def plans(simulation: Simulation) -> Plans:
    return Plans(compute(simulation.intent(200)), compute(simulation.intent(400)))


@pytest.fixture
def operator(simulation: Simulation, plans: Plans, tmp_path: Path):
    path = tmp_path / "history.sqlite"
    with History(path) as history:
        operator = Operator(simulation.connect, path, history)
        operator.push(plans.former, take_over=True)
        yield operator


@pytest.fixture
def seen(simulation: Simulation, operator: Operator):
    with inspector(simulation) as opened:
        yield opened


def test_every_switch_runs_it_and_the_history_has_it(
    operator: Operator, plans: Plans, seen: Inspector
):
    report = operator.push(plans.new)
    assert seen.lists() == plans.new.gates
    kept = operator.history.rollout(report.number)
    assert kept.phase is Phase.DONE
    assert {change.outcome for change in kept.switches.values()} == {Outcome.SAVED}
    assert seen.rollout_ids() == {kept.id}
    assert operator.history.plan_of(report.number).gates == plans.new.gates
    assert seen.held() is None


def test_a_switch_that_reboots_comes_back_with_what_was_rolled_out(
    simulation: Simulation, operator: Operator, plans: Plans
):
    operator.push(plans.new)
    simulation.switches["s2"].reboot()
    with inspector(simulation) as seen:
        assert seen.lists() == plans.new.gates


def test_a_frame_size_limit_set_by_hand_is_told_and_goes_with_the_next_push(
    simulation: Simulation, operator: Operator, plans: Plans, seen: Inspector
):
    port = min(plans.former.gates)
    bridge = plans.former.intent.network.bridges[port.node]
    with Device(bridge, simulation.connect) as switch:
        switch.edit(limit_frames(port.port, traffic_class=6, octets=46))
        switch.commit_confirmed(60, "by-hand")
        switch.confirm("by-hand")
    limit = "queue-max-sdu of 46 octets for traffic class 6"
    differing = [s for s in status(plans.former, connect=operator.connect) if not s.agrees]
    assert [(s.port, s.verdict) for s in differing] == [
        (port, f"differs: {limit} is not in the plan")
    ]
    report = operator.push(plans.former)
    assert all(port.agrees for port in status(plans.former, connect=operator.connect))
    assert [(change.port, change.why) for change in report.changes] == [
        (port, f"also configured, but in no plan: {limit}")
    ]
    operator.push(plans.new)


def limit_frames(port: str, *, traffic_class: int, octets: int):
    """The `<config>` that limits the frames of a traffic class, as a person would send it."""
    return etree.fromstring(
        f"<config xmlns='{NETCONF}'><interfaces xmlns='{INTERFACES}'><interface>"
        f"<name>{port}</name><bridge-port xmlns='{BRIDGE}'>"
        f"<gate-parameter-table xmlns='{SCHED_BRIDGE}'><queue-max-sdu-table>"
        f"<traffic-class>{traffic_class}</traffic-class><queue-max-sdu>{octets}</queue-max-sdu>"
        "</queue-max-sdu-table></gate-parameter-table></bridge-port></interface></interfaces>"
        "</config>"
    )


def test_switches_whose_lists_stay_see_no_change(
    simulation: Simulation, operator: Operator, plans: Plans, seen: Inspector
):
    fewer = compute(simulation.intent(200, without=["head-h1"]), keep=plans.former)
    applied = {name: len(switch.kernel.log) for name, switch in simulation.switches.items()}
    commits = commits_logged(simulation)
    operator.push(fewer)
    news = {name: s.kernel.log[applied[name] :] for name, s in simulation.switches.items()}
    assert news == {"s1": ["apply station"], "s2": [], "s3": []}
    asked = {name for name, count in commits_logged(simulation).items() if count != commits[name]}
    assert asked == {"s1"}
    assert seen.lists() == fewer.gates


def commits_logged(simulation: Simulation) -> Mapping[str, int]:
    return logged(simulation, "committed")


def commits_undone(simulation: Simulation) -> Mapping[str, int]:
    return logged(simulation, "confirmed commit reverted")


def logged(simulation: Simulation, words: str) -> Mapping[str, int]:
    """How often each NETCONF server has said these words."""
    return {
        name: switch.log(NETCONF_SERVER).count(words)
        for name, switch in simulation.switches.items()
    }


def test_what_another_controller_rolled_out_is_overwritten_only_when_told(
    operator: Operator, plans: Plans, seen: Inspector, tmp_path: Path
):
    path = tmp_path / "another.sqlite"
    with History(path) as history:
        another = Operator(operator.connect, path, history)
        with pytest.raises(RolloutError, match="is not in this history") as refused:
            another.push(plans.new)
        assert "no switch was changed" in str(refused.value)
        assert seen.lists() == plans.former.gates
        another.push(plans.new, take_over=True)
    assert seen.lists() == plans.new.gates


def test_a_controller_killed_before_its_decision_leaves_the_former_plan(
    operator: Operator, plans: Plans, seen: Inspector
):
    push_and_die(plans.new, operator.connect, operator.path, before_the_decision)
    former = plans.former.gates
    assert wait_until(lambda: seen.lists_if_they_agree() == former, GOES_BACK_WITHIN_S)
    # A server forgets the commit only when all is as it was.
    assert wait_until(lambda: seen.held() is None), seen.held()
    operator.push(plans.new)
    assert seen.lists() == plans.new.gates


def test_a_switch_whose_commit_took_long_goes_back_before_the_base_time_as_the_others_do(
    simulation: Simulation, operator: Operator, plans: Plans
):
    agent = simulation.switches["s2"].pids[AGENT]
    undone = commits_undone(simulation)
    push_and_die(
        plans.new, operator.connect, operator.path, WhileItsAgentHangs("s2", agent, hold_s=2.5)
    )
    (left,) = operator.history.unfinished()
    tai_minus_utc_ns = time.clock_gettime_ns(time.CLOCK_TAI) - time.time_ns()
    all_undone = {name: count + 1 for name, count in undone.items()}
    assert wait_until(lambda: commits_undone(simulation) == all_undone, GOES_BACK_WITHIN_S)
    assert kernel_lists(simulation.switches.values()) == plans.former.gates
    back_ns = {
        name: each.chassis.kernel.stat().st_mtime_ns + tai_minus_utc_ns
        for name, each in simulation.switches.items()
    }
    assert all(at_ns < left.base_time_ns for at_ns in back_ns.values()), back_ns
    operator.push(plans.new)


def test_a_controller_killed_before_it_told_anybody_its_decision_leaves_no_choice_to_make(
    operator: Operator, plans: Plans, seen: Inspector
):
    push_and_die(plans.new, operator.connect, operator.path, after_the_decision)
    assert operator.push(plans.former).changes == ()
    assert operator.history.unfinished() == []
    assert seen.lists() == plans.former.gates
    assert seen.held() is None
    operator.push(plans.new)
    assert seen.lists() == plans.new.gates


@pytest.mark.parametrize("word", [resume, roll_back])
def test_a_controller_killed_between_confirmations_leaves_the_choice_to_an_operator(
    operator: Operator, plans: Plans, seen: Inspector, word
):
    push_and_die(plans.new, operator.connect, operator.path, after_the_first_confirmation)
    with pytest.raises(RolloutError, match="not confirmed everywhere") as refused:
        operator.push(plans.former)
    assert "--resume" in refused.value.hint
    word(connect=operator.connect, history=operator.history)
    chosen = plans.new if word is resume else plans.former
    assert seen.lists() == chosen.gates
    assert seen.held() is None
    operator.push(plans.new)
    assert seen.lists() == plans.new.gates


def test_a_confirmation_over_a_new_session_does_not_commit_what_others_edited(
    simulation: Simulation, operator: Operator, plans: Plans, monkeypatch: pytest.MonkeyPatch
):
    port = min(plans.former.gates)
    bridge = plans.former.intent.network.bridges[port.node]
    confirm = Device.confirm
    edited = threading.Event()

    def lose_the_session(device, persist):
        if device.name != bridge.name or edited.is_set():
            confirm(device, persist)
            return
        device.abandon()
        with Device(bridge, simulation.connect) as another:
            limit = limit_frames(port.port, traffic_class=6, octets=46)
            assert wait_until(lambda: is_taken(another, limit))
            edited.set()
        raise DeviceError(device.name, "the session broke")

    monkeypatch.setattr(Device, "confirm", lose_the_session)
    operator.push(plans.new)
    assert edited.is_set()
    with Device(bridge, simulation.connect) as switch:
        assert switch.stored([port.port]).ports[port.port][StoredGates].extras == ()


def is_taken(switch: Device, config) -> bool:
    """Whether candidate took the edit: its lock may be somebody else's still."""
    try:
        switch.edit(config)
    except DeviceError:
        return False
    return True


@pytest.fixture
def freezes_at_its_confirmation(simulation: Simulation, monkeypatch: pytest.MonkeyPatch):
    """Makes a switch's server hang from the moment at which it is first told to confirm."""
    confirm = Device.confirm
    hung = threading.Event()

    def freeze(switch):
        def confirm_frozen(device, persist):
            if device.name == switch.name and not hung.is_set():
                switch.freeze(NETCONF_SERVER)
                hung.set()
            confirm(device, persist)

        monkeypatch.setattr(Device, "confirm", confirm_frozen)

    yield freeze
    for switch in simulation.switches.values():
        switch.thaw(NETCONF_SERVER)


def test_a_server_that_hangs_while_it_is_to_confirm_is_named_and_resume_brings_it_along(
    simulation: Simulation, operator: Operator, plans: Plans, freezes_at_its_confirmation
):
    s2 = simulation.switches["s2"]
    freezes_at_its_confirmation(s2)
    with pytest.raises(RolloutError, match=r"may run two schedules: .*s2 did not confirm"):
        operator.push(plans.new)
    s2.thaw(NETCONF_SERVER)
    resume(connect=operator.connect, history=operator.history)
    with inspector(simulation) as seen:
        assert seen.lists() == plans.new.gates
        assert seen.held() is None
