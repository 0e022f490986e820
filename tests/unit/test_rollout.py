"""What the rollout does when something goes wrong at a moment no real switch fails on cue.

The same rollout against real switches is in tests/kernel/test_end_to_end.py.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.errors import PlanRejected, RolloutError
from cnc.model import NS_PER_S, GateControlList, GateLimits, GateMode, Plan, PortRef
from cnc.netconf import ConnectOptions, push, rollout
from cnc.netconf.device import DeviceError, SwitchState
from cnc.netconf.payload import desired_ports
from cnc.netconf.readback import stored_ports
from cnc.netconf.tree import AgentReport, KernelSchedule, PortReport
from cnc.planner import plan as compute

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
CONNECT = ConnectOptions(Path("key"), Path("known_hosts"))
TAI_MINUS_MONOTONIC_NS = 1_800_000_000 * NS_PER_S


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compute(intents.load(LINE3))


class FakeDevice:
    """A switch that takes everything, but for what its test breaks; remembers what it was told."""

    def __init__(self, name, plan):
        self.name = name
        self.plan = plan
        self.calls = []
        self.breaks = {}
        self.clock_ahead_ns = 0
        self.candidate = None
        self.kernel = {}
        self.limits = {}

    def state(self, ports):
        now_ns = time.monotonic_ns()
        clock_ns = TAI_MINUS_MONOTONIC_NS + now_ns + self.clock_ahead_ns
        reports = {port: self._report(port, clock_ns) for port in ports}
        return SwitchState(AgentReport(37, 100), reports, now_ns, now_ns)

    def _report(self, port, clock_ns):
        wanted, schedule = self.kernel.get(port, (None, None))
        return PortReport(
            root_qdisc="taprio" if schedule else "noqueue",
            mode=self.breaks.get("mode", GateMode.SOFTWARE) if schedule else None,
            clock="tai" if schedule else None,
            running=None,
            pending=schedule,
            priority_map=wanted.priority_map if wanted else (0,) * 8,
            number_of_classes=wanted.number_of_classes if wanted else 0,
            dscp_priorities=wanted.dscp_priorities if wanted else {},
            current_time_ns=clock_ns,
            limits=self.limits.get(port, GateLimits()),
        )

    def stored_ports(self, ports):
        return {}

    def edit(self, config):
        self._call("edit")
        self.candidate = stored_ports(config)

    def commit_confirmed(self, timeout_s):
        self._call("commit_confirmed")
        self.kernel = {
            port: (stored.configuration, self._scheduled(stored))
            for port, stored in self.candidate.items()
            if stored.configuration
        }

    def _scheduled(self, stored):
        gates = self.breaks.get("gates", stored.configuration.gates)
        return KernelSchedule(stored.base_time_ns, gates)

    def _call(self, what):
        self.calls.append(what)
        if what in self.breaks:
            raise DeviceError(self.name, self.breaks[what])

    def __getattr__(self, name):
        return lambda: self._call(name)


@pytest.fixture
def devices(plan, monkeypatch):
    made = {name: FakeDevice(name, plan) for name in plan.intent.network.bridges}
    monkeypatch.setattr(FakeDevice, "close", lambda self: self.calls.append("close"), raising=False)
    fake = lambda bridge, _options: made[bridge.name]  # noqa: E731  stands for the class
    fake.__dict__.update(close=FakeDevice.close)
    for step in ("confirm", "save_startup"):
        setattr(fake, step, lambda device, step=step: getattr(device, step)())
    monkeypatch.setattr(rollout, "Device", fake)
    return made


def test_every_switch_is_told_the_same_base_time_a_multiple_of_every_cycle(plan, devices):
    report = push(plan, connect=CONNECT)
    base_times = {s.base_time_ns for d in devices.values() for _, s in d.kernel.values()}
    assert base_times == {report.base_time_ns}
    assert all(report.base_time_ns % gates.cycle_ns == 0 for gates in plan.gates.values())
    lead_ns = report.base_time_ns - TAI_MINUS_MONOTONIC_NS - time.monotonic_ns()
    assert rollout.MIN_LEAD_NS - NS_PER_S < lead_ns < rollout.MIN_LEAD_NS + NS_PER_S


def test_all_commit_before_the_first_confirms_and_locks_are_given_back(plan, devices):
    push(plan, connect=CONNECT)
    for device in devices.values():
        assert device.calls == [
            *("lock", "edit", "commit_confirmed", "confirm", "save_startup", "unlock", "close")
        ]


def test_switches_whose_tai_clocks_differ_are_refused_before_any_lock(plan, devices):
    devices["s2"].clock_ahead_ns = 37 * NS_PER_S
    with pytest.raises(
        RolloutError, match=r"TAI clock of s2 is at least 3[67]\.\d+ s ahead"
    ) as error:
        push(plan, connect=CONNECT)
    assert "no switch was changed" in str(error.value)
    assert all(device.calls == ["close"] for device in devices.values())


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
    with pytest.raises(RolloutError, match="s3 did not say that it went back") as error:
        push(plan, connect=CONNECT)
    assert "no switch was changed" not in str(error.value)


def test_a_kernel_that_runs_something_else_takes_all_back(plan, devices):
    devices["s3"].breaks["gates"] = GateControlList(1_000, ())
    with pytest.raises(RolloutError, match="s3: port l1 does not run what was committed"):
        push(plan, connect=CONNECT)
    assert all("cancel_commit" in device.calls for device in devices.values())


def test_a_kernel_that_runs_the_list_in_another_mode_takes_all_back(plan, devices):
    devices["s3"].breaks["mode"] = GateMode.TXTIME_ASSIST
    with pytest.raises(RolloutError, match="mode is txtime-assist, wanted software"):
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
    def lock():
        raise DeviceError("s1", "access denied", hint="add the user to a group")

    monkeypatch.setattr(devices["s1"], "lock", lock, raising=False)
    with pytest.raises(RolloutError) as error:
        push(plan, connect=CONNECT)
    assert error.value.hint == "add the user to a group"


def test_a_base_time_that_passed_before_all_were_ready_takes_all_back(plan, devices, monkeypatch):
    monkeypatch.setattr(rollout, "MIN_LEAD_NS", -NS_PER_S)
    with pytest.raises(RolloutError, match="s after the base time"):
        push(plan, connect=CONNECT)
    assert all("cancel_commit" in device.calls for device in devices.values())


def test_a_lock_somebody_holds_leaves_no_lock_of_ours(plan, devices):
    devices["s2"].breaks["lock"] = "lock is held by session 7"
    with pytest.raises(RolloutError, match="held by session 7"):
        push(plan, connect=CONNECT)
    assert devices["s1"].calls == ["lock", "unlock", "close"]
    assert devices["s3"].calls == ["close"]


def test_a_failure_among_the_confirms_is_said_loudly(plan, devices):
    devices["s1"].breaks["confirm"] = "gone"
    with pytest.raises(RolloutError, match="the network may run two schedules"):
        push(plan, connect=CONNECT)


def test_a_plan_the_judge_refuses_reaches_no_switch(plan, devices):
    port, gates = next(iter(plan.gates.items()))
    broken = {**plan.gates, port: GateControlList(gates.cycle_ns, gates.entries[1:])}
    with pytest.raises(PlanRejected, match=str(port)):
        push(Plan(plan.intent, plan.streams, broken, plan.algorithm), connect=CONNECT)
    assert all(device.calls == [] for device in devices.values())


def test_nothing_to_change_sends_nothing(plan, devices, monkeypatch):
    push(plan, connect=CONNECT)
    for device in devices.values():
        stored = device.candidate
        monkeypatch.setattr(
            device, "stored_ports", lambda _ports, stored=stored: stored, raising=False
        )
        device.calls.clear()
    report = push(plan, connect=CONNECT)
    assert report.changes == ()
    assert all(device.calls == ["lock", "unlock", "close"] for device in devices.values())
    assert desired_ports(plan, "s1")["s2"] is not None
