"""What the rollout does when something goes wrong at a moment no real switch fails on cue.

The same rollout against real switches is in tests/kernel/test_end_to_end.py.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import paramiko
import pytest

from cnc import intent as intents
from cnc.data_tree.tree import ClockReport, ClockSource
from cnc.errors import CncError, InputError, PlanRejected, RolloutError
from cnc.finding import Check
from cnc.model import (
    NO_GATES,
    NS_PER_S,
    GateControlList,
    GateLimits,
    GateMode,
    Plan,
    PortRef,
    WakeUps,
    gated_port,
)
from cnc.planner import plan as compute
from cnc.rollout import (
    push,
    resume,
    roll_back,
    timing,
)
from cnc.rollout.events import Step, StepBegun
from cnc.rollout.goal import stored_clock_error_ns
from cnc.rollout.history import History, Outcome, Phase, record
from cnc.support.format import counted
from cnc.switch import ConnectOptions
from cnc.switch.device import DeviceError, StoredSwitch
from cnc.switch.rollout_id import RolloutId
from tests.unit.asked import desired_ports
from tests.unit.fake_devices import TAI_MINUS_MONOTONIC_NS, stand_in

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
CONNECT = ConnectOptions(Path("key"), Path("known_hosts"))


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compute(intents.load(LINE3))


@pytest.fixture(autouse=True)
def switches(plan, monkeypatch):
    return stand_in(monkeypatch, plan.intent.network.bridges)


@pytest.fixture
def devices(switches):
    return switches[0]


@pytest.fixture
def clock(switches):
    return switches[1]


def test_every_switch_is_told_the_same_base_time_a_multiple_of_every_cycle(plan, devices, clock):
    report = push(plan, connect=CONNECT)
    base_times = {s.base_time_ns for d in devices.values() for _, s in d.kernel.values()}
    assert base_times == {report.base_time_ns}
    assert all(report.base_time_ns % gates.cycle_ns == 0 for gates in plan.gates.values())
    lead_ns = report.base_time_ns - TAI_MINUS_MONOTONIC_NS - clock.monotonic_ns()
    assert timing.MIN_LEAD_NS <= lead_ns < timing.MIN_LEAD_NS + plan.intent.hyperperiod_ns()


def just_missed_ns(common_s):
    """A time at which the lead just misses an instant that cycles share every `common_s`."""
    return common_s * NS_PER_S * 7 - timing.MIN_LEAD_NS + 1


@pytest.mark.parametrize("common_s", [601, 3_600, 10**11])
def test_cycles_that_share_an_instant_only_much_later_are_refused(common_s):
    with pytest.raises(RolloutError, match=f"only every {common_s} s, the next in") as error:
        timing.base_time_ns(just_missed_ns(common_s), 0, (common_s * NS_PER_S, 1_000_000))
    assert "choose periods that divide one another" in error.value.hint


def test_cycles_that_share_an_instant_within_ten_minutes_are_waited_for():
    chosen_ns = timing.base_time_ns(just_missed_ns(600), 0, (200 * NS_PER_S, 3 * NS_PER_S))
    assert chosen_ns == 600 * NS_PER_S * 8


def test_all_commit_before_the_first_confirms_and_locks_are_given_back(plan, devices):
    push(plan, connect=CONNECT)
    for device in devices.values():
        assert device.calls == [
            *("lock running", "lock candidate", "edit", "commit_confirmed"),
            *("confirm", "save_startup", "unlock", "close"),
        ]


def test_switches_whose_tai_clocks_differ_are_refused_before_any_lock(plan, devices):
    devices["s2"].clock_ahead_ns = 37 * NS_PER_S
    with pytest.raises(
        RolloutError, match=r"TAI clock of s2 is at least 3[67]\.\d+ s ahead"
    ) as error:
        push(plan, connect=CONNECT)
    assert "no switch was changed" in str(error.value)
    assert all(device.calls == ["close"] for device in devices.values())


def test_gates_that_were_later_than_the_plan_allows_are_refused_before_any_lock(plan, devices):
    devices["s2"].wake_ups["s3"] = WakeUps(1_234_567, 43_210, 31_000)
    with pytest.raises(RolloutError, match=r"s2/s3: its gates open up to 43.21 µs late") as error:
        push(plan, connect=CONNECT)
    assert "1,234,567 wake-ups" in str(error.value)
    assert "the plan allows for 0 ns" in str(error.value)
    assert "no switch was changed" in str(error.value)
    assert "gate-margin: 50us" in error.value.hint
    assert all(device.calls == ["close"] for device in devices.values())


def test_gates_that_were_later_by_far_are_refused_after_few_wake_ups_unless_forced(plan, devices):
    plan = compute(plan.intent.with_gate_margin(1_000))
    devices["s2"].wake_ups["s3"] = WakeUps(101, 10_000)
    with pytest.raises(RolloutError, match=r"s2/s3: its gates open up to 10 µs late") as error:
        push(plan, connect=CONNECT)
    assert "--force-margin" in error.value.hint
    warned = []
    assert push(plan, connect=CONNECT, force_margin=True, warn=warned.extend).number is not None
    assert "gate margin" in {each.check for each in warned if each.where == "s2/s3"}


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_a_push_warns_of_is_told_before_anything_is_sent(plan, devices, dry_run):
    plan = compute(plan.intent.with_gate_margin(1_000))
    devices["s2"].wake_ups["s3"] = WakeUps(2_000, 4_321)
    told = []

    def warn(findings):
        told.extend((each.where, each.text) for each in findings if each.check == "gate margin")
        assert devices["s2"].calls == []

    push(plan, connect=CONNECT, dry_run=dry_run, warn=warn)
    text = "its gates open up to 4.321 µs late (the latest of 2,000 wake-ups); "
    assert told == [("s2/s3", text + "the plan allows for 1 µs")]


def test_what_was_measured_does_not_prevent_that_switches_get_back_what_they_ran(plan, devices):
    devices["s2"].wake_ups["s3"] = WakeUps(1_234_567, 43_210, 31_000)
    assert push(plan, connect=CONNECT, force_margin=True).number is not None


def test_a_plan_that_has_run_is_restored_with_what_the_judge_finds_as_a_warning(plan, devices):
    """An earlier version may have made it by another account of times."""
    promised = {name: replace(each, latency_bound_ns=1) for name, each in plan.streams.items()}
    unsound = replace(plan, streams=promised)
    with pytest.raises(PlanRejected, match="may reach"):
        push(unsound, connect=CONNECT)
    told = []
    assert push(unsound, connect=CONNECT, has_run=True, warn=told.append).changes
    ((warning, *_),) = told[:1]
    assert warning.check is Check.PLAN
    assert "violations in this plan, which has run: " in warning.text
    assert all(device.running.rollout_id for device in devices.values())


# How far the clocks on which a list may run are ahead of TAI.
REALTIME = ("realtime", -37 * NS_PER_S)
MONOTONIC = ("monotonic", -TAI_MINUS_MONOTONIC_NS)


def run_on(devices, ports, clock, *, reports_tai):
    """Let lists run on another clock than TAI; an older agent reports the time of that clock."""
    name, ahead_ns = clock
    for port in ports:
        switch = devices[port.node]
        switch.clocks[port.port] = name
        switch.clocks_ahead_ns[port.port] = 0 if reports_tai else ahead_ns


def bridge_ports(plan):
    network = plan.intent.network
    return [port for port in network.links if port.node in network.bridges]


@pytest.mark.parametrize("other", [REALTIME, MONOTONIC], ids=["realtime", "monotonic"])
def test_lists_on_another_clock_are_brought_to_tai_by_a_push(plan, devices, clock, other):
    run_on(devices, bridge_ports(plan), other, reports_tai=True)
    report = push(plan, connect=CONNECT)
    ahead_ns = report.base_time_ns - TAI_MINUS_MONOTONIC_NS - clock.monotonic_ns()
    assert ahead_ns >= timing.MIN_LEAD_NS
    assert {change.port for change in report.changes} == set(plan.gates)


@pytest.mark.parametrize("other", [REALTIME, MONOTONIC], ids=["realtime", "monotonic"])
def test_a_port_whose_list_runs_on_another_clock_is_not_what_time_is_read_from(
    plan, devices, clock, other
):
    run_on(devices, [PortRef("s2", "s3")], other, reports_tai=False)
    report = push(plan, connect=CONNECT)
    ahead_ns = report.base_time_ns - TAI_MINUS_MONOTONIC_NS - clock.monotonic_ns()
    assert timing.MIN_LEAD_NS <= ahead_ns < timing.MIN_LEAD_NS + plan.intent.hyperperiod_ns()


@pytest.mark.parametrize(
    ("other", "ago_s"), [(REALTIME, r"(29|30)\.\d+"), (MONOTONIC, r"1799999\d+\.\d+")]
)
def test_an_older_agent_whose_ports_all_run_on_another_clock_gives_no_base_time_in_the_past(
    plan, devices, other, ago_s
):
    run_on(devices, bridge_ports(plan), other, reports_tai=False)
    with pytest.raises(RolloutError, match=f"the base time has passed {ago_s} s ago") as error:
        push(plan, connect=CONNECT)
    assert "no switch was changed" in str(error.value)
    assert "upgrade tsn-agent on s1" in error.value.hint
    assert not any("edit" in device.calls for device in devices.values())


def test_a_refused_commit_cancels_those_that_had_taken_it(plan, devices):
    devices["s2"].breaks["commit_confirmed"] = "port s3: the kernel says no"
    with pytest.raises(RolloutError, match="s2: port s3: the kernel says no") as error:
        push(plan, connect=CONNECT)
    assert "no switch was changed" in str(error.value)
    for name, device in devices.items():
        assert ("cancel_commit" in device.calls) == (name != "s2")
        assert "confirm" not in device.calls
        assert device.calls[-3:] == ["discard_changes", "unlock", "close"]


def test_a_switch_that_cannot_be_taken_back_is_named(plan, devices):
    devices["s2"].breaks["commit_confirmed"] = "no"
    devices["s3"].breaks["cancel_commit"] = "lost"
    with pytest.raises(RolloutError, match="rollback of s3 not confirmed") as error:
        push(plan, connect=CONNECT)
    assert "no switch was changed" not in str(error.value)


def test_ctrl_c_takes_back_only_when_no_switch_is_still_asked(plan, devices):
    edit = devices["s2"].edit

    def edit_slowly(config):
        for _ in range(2):  # people press it again
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
        edit(config)

    devices["s2"].edit = edit_slowly
    with pytest.raises(KeyboardInterrupt, match="no switch was changed"):
        push(plan, connect=CONNECT)
    for device in devices.values():
        assert device.calls[2:] == ["edit", "discard_changes", "unlock", "close"]


def test_a_session_that_breaks_in_a_way_nobody_foresaw_takes_all_back(plan, devices, store):
    def commit(_timeout_s, _persist):
        raise paramiko.SSHException("while re-keying")

    devices["s2"].commit_confirmed = commit
    with pytest.raises(paramiko.SSHException) as error:
        push(plan, connect=CONNECT, history=store)
    assert error.value.__notes__ == ["no switch was changed"]
    assert all(device.running.rollout_id is None for device in devices.values())
    assert [each.phase for each in store.rollouts()] == [Phase.ROLLED_BACK]


def test_a_switch_that_breaks_while_it_is_taken_back_is_tried_again(plan, devices):
    cancel = devices["s1"].cancel_commit

    def cancel_the_second_time(persist):
        devices["s1"].cancel_commit = cancel
        raise paramiko.SSHException("while re-keying")

    devices["s1"].cancel_commit = cancel_the_second_time
    devices["s2"].breaks["commit_confirmed"] = "no"
    with pytest.raises(RolloutError, match="no switch was changed"):
        push(plan, connect=CONNECT)
    assert devices["s1"].running.rollout_id is None


def test_a_kernel_that_runs_something_else_takes_all_back(plan, devices):
    devices["s3"].breaks["gates"] = GateControlList(1_000, ())
    with pytest.raises(RolloutError, match="s3: port l1 does not run what was committed"):
        push(plan, connect=CONNECT)
    assert all("cancel_commit" in device.calls for device in devices.values())


def test_a_kernel_that_runs_the_list_in_another_mode_takes_all_back(plan, devices):
    devices["s3"].breaks["mode"] = GateMode.TXTIME_ASSIST
    with pytest.raises(RolloutError, match="mode is txtime-assist, expected software"):
        push(plan, connect=CONNECT)
    assert all("cancel_commit" in device.calls for device in devices.values())


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (GateLimits(entries_max=5), r"\d+ entries, the port holds 5"),
        (GateLimits(interval_max_ns=1_000), r"lasts \d+ ns, the port takes 1000 ns"),
        (GateLimits(cycle_max_ns=1_000), r"the cycle is 2000000 ns, the port takes 1000 ns"),
        (GateLimits(tick_ns=1_000_000), r"counts in ticks of 1000000 ns"),
    ],
    ids=["list", "interval", "cycle", "tick"],
)
def test_a_plan_beyond_what_a_switch_states_is_refused_before_any_lock(
    plan, devices, limits, words
):
    assert PortRef("s2", "s3") in plan.gates
    devices["s2"].limits["s3"] = limits
    with pytest.raises(RolloutError, match=f"s2/s3: .* {words}") as error:
        push(plan, connect=CONNECT)
    assert "no switch was changed" in str(error.value)
    assert "cnc plan --ask-switches" in error.value.hint
    assert all(device.calls == ["close"] for device in devices.values())


def test_a_lock_somebody_may_not_take_keeps_the_switchs_own_advice(plan, devices, monkeypatch):
    def lock(_datastore):
        raise DeviceError("s1", "access denied", hint="add the user to a group")

    monkeypatch.setattr(devices["s1"], "lock", lock, raising=False)
    with pytest.raises(RolloutError) as error:
        push(plan, connect=CONNECT)
    assert error.value.hint == "add the user to a group"


def test_lists_that_take_too_long_to_be_staged_are_committed_nowhere(plan, devices, clock):
    """Every switch would refuse them, and would have to be asked."""
    edit = devices["s2"].edit

    def slow_edit(config):
        clock.sleep(timing.MIN_LEAD_NS / NS_PER_S)
        edit(config)

    devices["s2"].edit = slow_edit
    with pytest.raises(RolloutError, match=r"4\.\d+ s after the instant until which") as error:
        push(plan, connect=CONNECT)
    assert "no switch was changed" in str(error.value)
    assert not any("commit_confirmed" in device.calls for device in devices.values())


def test_a_commit_that_is_applied_at_the_last_instant_is_reverted_before_the_base_time():
    for lead_s in (7, 8.4, 60, 600):
        base_ns, margin_ns = round(1e9 * lead_s), 2 * NS_PER_S
        deadlines = timing.Deadlines.before(base_ns, 0, margin_ns)
        reverted_ns = deadlines.apply_before_ns + deadlines.timeout_s * NS_PER_S
        assert reverted_ns == base_ns - margin_ns
        assert deadlines.apply_before_ns >= deadlines.timeout_s * NS_PER_S > 0
        assert deadlines.timeout_s <= timing.CONFIRM_MAX_S


def test_every_edit_says_until_when_it_may_be_applied(plan, devices, clock):
    now_ns = TAI_MINUS_MONOTONIC_NS + clock.monotonic_ns()
    report = push(plan, connect=CONNECT)
    (apply_before_ns,) = {d.running.rollout_id.apply_before_ns for d in devices.values()}
    assert now_ns < apply_before_ns < report.base_time_ns - timing.MIN_MARGIN_NS


def test_an_agent_that_applies_late_commits_is_pushed_to_on_request_alone(plan, devices):
    devices["s2"].refuses_late_rollouts = False
    with pytest.raises(RolloutError, match="s2: its agent applies a commit however late") as error:
        push(plan, connect=CONNECT)
    assert "no switch was changed" in str(error.value)
    assert "--without-deadline" in error.value.hint
    assert not any("edit" in device.calls for device in devices.values())

    push(plan, connect=CONNECT, without_deadline=True)
    told = {name: d.running.rollout_id.apply_before_ns for name, d in devices.items()}
    assert told["s2"] is None
    assert told["s1"]


@pytest.mark.parametrize(("answer_s", "margin_s"), [(0.01, 1), (1, 4), (10, 40)])
def test_the_wait_ends_the_longer_before_the_base_time_the_slower_a_switch_answers(
    plan, devices, clock, answer_s, margin_s
):
    answers, waits_s = devices["s2"].state, {}

    def slow_state(ports):
        asked_ns = clock.now_ns
        clock.sleep(answer_s)
        return replace(answers(ports), asked_ns=asked_ns)

    devices["s2"].state = slow_state
    for name, device in devices.items():
        commit = device.commit_confirmed

        def counted(timeout_s, persist, name=name, commit=commit):
            waits_s[name] = clock.monotonic() + timeout_s
            commit(timeout_s, persist)

        device.commit_confirmed = counted
    report = push(plan, connect=CONNECT)
    starts_s = (report.base_time_ns - TAI_MINUS_MONOTONIC_NS) / NS_PER_S
    assert set(waits_s) == set(devices)
    assert all(margin_s <= starts_s - end_s for end_s in waits_s.values())


def test_a_switch_that_takes_most_of_its_wait_to_change_takes_all_back(plan, devices, clock):
    slow = devices["s2"].commit_confirmed
    devices["s2"].commit_confirmed = lambda *told: (clock.sleep(3.5), slow(*told))
    with pytest.raises(RolloutError, match="too little time to confirm everywhere") as error:
        push(plan, connect=CONNECT)
    assert "no switch was changed" in str(error.value)
    assert all(device.running.rollout_id is None for device in devices.values())


def test_a_lock_somebody_holds_leaves_no_lock_of_ours(plan, devices):
    devices["s2"].breaks["lock running"] = "lock is held by session 7"
    with pytest.raises(RolloutError, match="held by session 7"):
        push(plan, connect=CONNECT)
    for name in ("s1", "s3"):
        assert devices[name].calls == ["lock running", "unlock", "close"]
    assert devices["s2"].calls == ["lock running", "close"]


def test_who_does_not_get_the_first_lock_asks_for_no_other(plan, devices):
    devices["s1"].breaks["lock running"] = "lock is held by session 7"
    with pytest.raises(RolloutError, match="held by session 7"):
        push(plan, connect=CONNECT)
    assert devices["s2"].calls == devices["s3"].calls == ["close"]


# --- after the decision ------------------------------------------------------------------------


def lost(name):
    """What the session says when the network goes away."""
    return DeviceError(name, "connection lost")


def test_a_confirmation_that_is_lost_is_sent_again_over_a_new_session(plan, devices):
    devices["s1"].breaks_once["confirm"] = lost("s1")
    push(plan, connect=CONNECT)
    assert devices["s1"].calls.count("confirm") == 2
    assert devices["s1"].calls.count("abandon") == 1
    assert all(device.persist is None for device in devices.values())


def test_a_confirmation_over_a_new_session_commits_nothing_that_others_edited(plan, devices):
    devices["s1"].breaks_once["confirm"] = lost("s1")
    push(plan, connect=CONNECT)
    after_the_loss = devices["s1"].calls[devices["s1"].calls.index("end_session") + 1 :]
    assert after_the_loss[:3] == ["discard_changes", "lock candidate", "confirm"]


def test_a_confirmation_that_was_lost_counts_though_another_has_locked_candidate_since(
    plan, devices
):
    device = devices["s1"]
    confirm = device.confirm

    def confirm_and_go_silent(persist):
        device.confirm = confirm
        confirm(persist)
        device.breaks["discard_changes"] = DeviceError("s1", "locked", tags=["in-use"])
        raise lost("s1")

    device.confirm = confirm_and_go_silent
    assert push(plan, connect=CONNECT).changes


def test_a_confirmation_whose_reply_was_lost_counts(plan, devices):
    confirm = devices["s1"].confirm

    def confirm_and_go_silent(persist):
        devices["s1"].confirm = confirm
        confirm(persist)
        raise lost("s1")

    devices["s1"].confirm = confirm_and_go_silent
    assert push(plan, connect=CONNECT).changes


def interrupted(plan, devices, store, broken="s1", step="confirm"):
    """A rollout that one switch did not confirm: it went back when its wait was over."""
    devices[broken].breaks[step] = lost(broken)
    with pytest.raises(RolloutError) as error:
        push(plan, connect=CONNECT, history=store)
    del devices[broken].breaks[step]
    if step == "confirm":
        devices[broken].go_back()
    return error.value


@pytest.fixture
def store(tmp_path):
    with History(tmp_path / "history.sqlite") as opened:
        yield opened


def test_a_switch_that_cannot_be_confirmed_is_said_loudly_and_stays_in_the_journal(
    plan, devices, store
):
    error = interrupted(plan, devices, store)
    assert "the network may run two schedules: s1 did not confirm" in str(error)
    assert "s2, s3 confirmed the new lists" in str(error)
    assert "cnc push --resume" in error.hint
    assert "cnc push --rollback" in error.hint
    (left,) = store.unfinished()
    assert left.phase is Phase.CONFIRMING
    outcomes = {name: change.outcome for name, change in left.switches.items()}
    assert outcomes == {"s1": Outcome.UNKNOWN, "s2": Outcome.SAVED, "s3": Outcome.SAVED}


def test_when_no_switch_was_told_in_time_all_went_back_and_nobody_has_to_choose(
    plan, devices, store, clock
):
    for name, device in devices.items():

        def too_late(_persist, device=device, name=name):
            device.go_back()
            raise DeviceError(name, "no such commit is pending", tags=["invalid-value"])

        device.confirm = too_late
    with pytest.raises(RolloutError, match="no switch was changed"):
        push(plan, connect=CONNECT, history=store)
    assert store.unfinished() == []


def test_nothing_else_is_pushed_until_an_operator_has_chosen(plan, devices, store):
    interrupted(plan, devices, store)
    with pytest.raises(RolloutError, match="was not confirmed everywhere"):
        push(plan, connect=CONNECT, history=store)


def test_resume_brings_the_switch_that_went_back_to_the_new_lists(plan, devices, store):
    interrupted(plan, devices, store)
    report = resume(connect=CONNECT, history=store)
    assert {change.port.node for change in report.changes} == {"s1"}
    assert runs(devices, plan)
    assert store.unfinished() == []
    assert [each.phase for each in store.rollouts()] == [Phase.DONE, Phase.DONE]


def test_rollback_brings_the_switches_that_confirmed_to_what_they_had(plan, devices, store):
    interrupted(plan, devices, store)
    report = roll_back(connect=CONNECT, history=store)
    assert {change.port.node for change in report.changes} == {"s2", "s3"}
    assert all(not device.kernel for device in devices.values())
    assert store.unfinished() == []
    assert [each.phase for each in store.rollouts()] == [Phase.DONE, Phase.ROLLED_BACK]


@pytest.mark.parametrize("resolve", [resume, roll_back])
def test_what_an_operator_decides_is_left_to_older_agents_on_request_alone(
    plan, devices, store, resolve
):
    interrupted(plan, devices, store)
    for device in devices.values():
        device.refuses_late_rollouts = False
    with pytest.raises(RolloutError, match="applies a commit however late it comes"):
        resolve(connect=CONNECT, history=store)
    resolve(connect=CONNECT, history=store, without_deadline=True)
    assert store.unfinished() == []


@pytest.mark.parametrize("resolve", [resume, roll_back])
def test_what_an_operator_decides_may_be_late_as_well(plan, devices, store, clock, resolve):
    interrupted(plan, devices, store)
    now_ns = TAI_MINUS_MONOTONIC_NS + clock.monotonic_ns()
    report = resolve(connect=CONNECT, history=store)
    told = {devices[change.port.node].running.rollout_id for change in report.changes}
    assert told
    assert all(now_ns < each.apply_before_ns < report.base_time_ns for each in told)


def test_a_network_whose_clock_lacks_the_tai_offset_has_its_instants_by_that_clock(
    plan, devices, clock
):
    for device in devices.values():
        device.clock_ahead_ns = -37 * NS_PER_S
    push(plan, connect=CONNECT)
    now_ns = TAI_MINUS_MONOTONIC_NS + clock.monotonic_ns() - 37 * NS_PER_S
    for device in devices.values():
        left_ns = device.running.rollout_id.apply_before_ns - now_ns
        assert 0 < left_ns < timing.MIN_LEAD_NS


def test_a_resume_that_fails_itself_can_be_resumed(plan, devices, store):
    interrupted(plan, devices, store)
    devices["s1"].breaks["confirm"] = lost("s1")
    with pytest.raises(RolloutError, match="may run two schedules"):
        resume(connect=CONNECT, history=store)
    del devices["s1"].breaks["confirm"]
    devices["s1"].go_back()
    resume(connect=CONNECT, history=store)
    assert runs(devices, plan)
    assert store.unfinished() == []


def test_a_switch_that_does_not_save_for_its_next_start_is_saved_by_the_next_push(
    plan, devices, store
):
    error = interrupted(plan, devices, store, "s2", "save_startup")
    assert "all switches run the new lists, but not all have saved them" in str(error)
    assert "push again" in error.hint
    devices["s2"].calls.clear()
    assert push(plan, connect=CONNECT, history=store).changes == ()
    assert "save_startup" in devices["s2"].calls
    assert [each.phase for each in store.rollouts()] == [Phase.DONE]


def test_a_rollout_that_turns_out_to_be_kept_by_nobody_is_ended_by_the_next_push(
    plan, devices, store
):
    interrupted(plan, devices, store)
    for name in ("s2", "s3"):  # as a controller that died after the decision would have left them
        devices[name].go_back()
    assert push(plan, connect=CONNECT, history=store).changes
    assert [each.phase for each in store.rollouts()] == [Phase.DONE, Phase.ROLLED_BACK]


def test_without_an_unresolved_rollout_there_is_nothing_to_resume(plan, devices, store):
    push(plan, connect=CONNECT, history=store)
    with pytest.raises(InputError, match="no rollout waits"):
        resume(connect=CONNECT, history=store)


def runs(devices, plan):
    """Whether every switch keeps and runs just what the plan wants."""
    return all(
        device.persist is None
        and {port: wanted for port, (wanted, _) in device.kernel.items()}
        == {
            port: gates
            for port, wanted in desired_ports(plan, name).items()
            if (gates := gated_port(wanted))
        }
        for name, device in devices.items()
    )


# --- the controller dies -----------------------------------------------------------------------


def push_and_die_before_the_decision(plan, store, monkeypatch):
    def die(journal):
        journal.close()  # as the kernel does
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr("cnc.rollout.history.Journal.decide", die)
        with pytest.raises(Died):
            push(plan, connect=CONNECT, history=store)


def test_a_rollout_whose_controller_died_before_the_decision_is_cancelled_by_the_next(
    plan, devices, store, monkeypatch
):
    push_and_die_before_the_decision(plan, store, monkeypatch)
    assert all(device.persist for device in devices.values())
    assert push(plan, connect=CONNECT, history=store).changes
    assert runs(devices, plan)
    assert [each.phase for each in store.rollouts()] == [Phase.DONE, Phase.ROLLED_BACK]


class Died(BaseException):
    """Stands for SIGKILL: nothing may handle it."""


def set_clock_ahead(monkeypatch, ahead):
    """Set the wall clock by which recovery goes; switches and monotonic clocks go on."""

    class Set(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + ahead

    monkeypatch.setattr(record, "datetime", Set)


def test_a_controller_whose_clock_was_set_back_waits_no_longer_than_the_switches(
    plan, devices, store, clock, monkeypatch
):
    interrupted(plan, devices, store)
    (left,) = store.unfinished()
    set_clock_ahead(monkeypatch, -timedelta(days=365))
    begun_s = clock.monotonic()
    with pytest.raises(RolloutError, match="was not confirmed everywhere"):
        push(plan, connect=CONNECT, history=store)
    waited_s = clock.monotonic() - begun_s
    assert waited_s == pytest.approx((left.confirm_by - left.started).total_seconds())


def test_a_controller_whose_clock_was_set_forward_still_cancels_what_is_pending(
    plan, devices, store, monkeypatch
):
    push_and_die_before_the_decision(plan, store, monkeypatch)
    set_clock_ahead(monkeypatch, timedelta(days=365))
    assert push(plan, connect=CONNECT, history=store).changes
    assert all("cancel_commit" in device.calls for device in devices.values())
    assert runs(devices, plan)


def test_a_decision_that_cannot_be_written_takes_all_back(plan, devices, store, monkeypatch):
    def full(_journal):
        raise CncError("history.sqlite: no space left on device")

    monkeypatch.setattr("cnc.rollout.history.Journal.decide", full)
    with pytest.raises(RolloutError, match="no space left on device\nno switch was changed"):
        push(plan, connect=CONNECT, history=store)
    assert all(device.running.rollout_id is None for device in devices.values())


def test_a_disk_that_takes_the_whole_wait_for_the_decision_takes_all_back(
    plan, devices, store, clock, monkeypatch
):
    monkeypatch.setattr("cnc.rollout.history.Journal.decide", lambda _journal: clock.sleep(4))
    with pytest.raises(
        RolloutError, match="too little time to confirm everywhere\nno switch was changed"
    ):
        push(plan, connect=CONNECT, history=store)
    assert not any("confirm" in device.calls for device in devices.values())


# --- two controllers ---------------------------------------------------------------------------


def test_what_another_controller_brought_is_not_overwritten_unless_told(plan, devices, store):
    for device in devices.values():
        device.running = StoredSwitch(
            {}, RolloutId("5f0c", "bob@laptop", "2026-01-01T00:00:00+00:00")
        )
    with pytest.raises(
        RolloutError, match=r"s2: its configuration comes from a rollout .* bob@laptop"
    ) as error:
        push(plan, connect=CONNECT, history=store)
    assert "no switch was changed" in str(error.value)
    assert "--take-over" in error.value.hint
    assert push(plan, connect=CONNECT, history=store, take_over=True).changes


def test_every_switch_that_changes_says_which_rollout_it_runs(plan, devices, store):
    report = push(plan, connect=CONNECT, history=store)
    known = store.rollout(report.number)
    assert {device.running.rollout_id.id for device in devices.values()} == {known.id}
    assert {device.running.rollout_id.controller for device in devices.values()} == {known.operator}


def test_switches_are_told_how_far_clocks_may_be_apart_but_for_agents_that_do_not_know_it(
    plan, devices
):
    older, *others = devices.values()
    for device in others:
        device.clock_report = ClockReport(ClockSource.SHARED)
    push(plan, connect=CONNECT)
    assert older.running.rollout_id.clock_error_ns is None
    told = {device.running.rollout_id.clock_error_ns for device in others}
    assert told == {plan.intent.network.clock_error_ns}


def test_a_switch_alone_is_told_of_no_clock_error_that_it_would_wait_for():
    document = intents.load(LINE3).document
    one = {
        **document,
        "switches": {"s1": document["switches"]["s1"]},
        "end-stations": ["t1", "l1"],
        "links": [["t1/eth0", "s1/t1"], ["s1/s2", "l1/eth0"]],
        "streams": {"motion": document["streams"]["motion"]},
    }
    alone = compute(intents.from_document(one, "one switch"))
    assert stored_clock_error_ns(alone) is None


def test_a_plan_the_judge_refuses_reaches_no_switch(plan, devices):
    port, gates = next(iter(plan.gates.items()))
    broken = {**plan.gates, port: GateControlList(gates.cycle_ns, gates.entries[1:])}
    with pytest.raises(PlanRejected, match=str(port)):
        push(Plan(plan.intent, plan.streams, broken, plan.algorithm), connect=CONNECT)
    assert all(device.calls == [] for device in devices.values())


def test_nothing_to_change_sends_nothing(plan, devices, monkeypatch):
    push(plan, connect=CONNECT)
    for device in devices.values():
        device.calls.clear()
    report = push(plan, connect=CONNECT)
    assert report.changes == ()
    assert all(
        device.calls == ["lock running", "lock candidate", "unlock", "close"]
        for device in devices.values()
    )
    assert desired_ports(plan, "s1")["s2"] != NO_GATES


def test_a_rollout_reports_each_step_once_and_in_order(plan, devices):
    events: list[StepBegun] = []
    push(plan, connect=CONNECT, listener=events.append)
    others = {Step.ROLLBACK, Step.WAIT}
    assert [event.step for event in events] == [step for step in Step if step not in others]
    assert str(events[0]) == f"connecting to {counted(len(devices), 'switch')}"


def test_a_rollout_that_fails_reports_the_rollback(plan, devices):
    events: list[StepBegun] = []
    devices["s1"].breaks["commit_confirmed"] = "no"
    with pytest.raises(RolloutError):
        push(plan, connect=CONNECT, listener=events.append)
    assert [event.step for event in events][-2:] == [Step.COMMIT, Step.ROLLBACK]
