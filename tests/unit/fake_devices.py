"""Switches that take all that a rollout sends, but for what a test breaks, and a clock for them."""

from __future__ import annotations

from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import AgentReport, KernelSchedule
from cnc.model import NS_PER_S, GateLimits, GateMode, StoredGates
from cnc.rollout import read_back, recovery, rollout, sessions, timing, transaction
from cnc.switch.device import DeviceError, StoredSwitch
from cnc.switch.readback import stored_ports
from cnc.switch.rollout_id import rollout_id_in
from tests.unit.places import port_report

TAI_MINUS_MONOTONIC_NS = 1_800_000_000 * NS_PER_S


class FakeDevice:
    """A switch that takes everything, but for what its test breaks; remembers what it was told.

    `breaks` maps a step to the words of its refusal; a `DeviceError` is raised as it is. With
    `breaks_once` the same step works when it is tried again.
    """

    def __init__(self, name, clock):
        self.name = name
        self.clock = clock
        self.session_id = "1"
        self.calls = []
        self.breaks = {}
        self.breaks_once = {}
        self.clock_ahead_ns = 0
        self.clocks = {}
        self.clocks_ahead_ns = {}
        self.candidate = None
        self.kernel = {}
        self.running = StoredSwitch({}, None)
        self.former = None
        self.persist = None
        self.limits = {}
        self.wake_ups = {}
        self.clock_report = None
        self.profile = None
        self.refuses_late_rollouts = True
        self.keeps_terms = True
        self.kept_term = None

    def state(self, ports):
        now_ns = self.clock.monotonic_ns()
        clock_ns = TAI_MINUS_MONOTONIC_NS + now_ns + self.clock_ahead_ns
        reports = {port: self._report(port, clock_ns) for port in ports}
        agent = AgentReport(
            37,
            100,
            clock=self.clock_report,
            refuses_late_rollouts=self.refuses_late_rollouts,
            keeps_terms=self.keeps_terms,
            kept_term=self.kept_term,
        )
        return SwitchState(agent, reports, now_ns, now_ns)

    def _report(self, port, clock_ns):
        wanted, schedule = self.kernel.get(port, (None, None))
        waits = schedule is not None and schedule.base_time_ns > clock_ns
        return port_report(
            root_qdisc="taprio" if schedule else "noqueue",
            mode=self.breaks.get("mode", GateMode.SOFTWARE) if schedule else None,
            clock=self.clocks.get(port, "tai" if schedule else None),
            running=None if waits else schedule,
            pending=schedule if waits else None,
            priority_map=wanted.priority_map if wanted else (0,) * 8,
            number_of_classes=wanted.number_of_classes if wanted else 0,
            dscp_priorities=wanted.dscp_priorities if wanted else {},
            current_time_ns=clock_ns + self.clocks_ahead_ns.get(port, 0),
            limits=self.limits.get(port, GateLimits()),
            wake_ups=self.wake_ups.get(port),
        )

    def stored(self, ports):
        return self.running

    def rollout_id(self):
        return self.running.rollout_id

    def wait_at_most(self, timeout_s): ...

    def edit(self, config):
        self._call("edit")
        self.candidate = StoredSwitch(stored_ports(config), rollout_id_in(config))

    def commit_confirmed(self, timeout_s, persist):
        self._call("commit_confirmed")
        self.former = (self.running, self.kernel)
        self.persist = persist
        self.running = self.candidate
        self.clocks, self.clocks_ahead_ns = {}, {}
        self.kernel = {
            port: (stored.configuration, self._scheduled(stored))
            for port, its in self.candidate.ports.items()
            if (stored := its[StoredGates]).configuration
        }

    def confirm(self, persist):
        self._call("confirm")
        self._refuse_unless_pending(persist)
        self.persist = None

    def cancel_commit(self, persist):
        self._call("cancel_commit")
        self._refuse_unless_pending(persist)
        self.go_back()

    def go_back(self):
        """As at the end of the confirm window."""
        self.running, self.kernel = self.former
        self.persist = None

    def _refuse_unless_pending(self, persist):
        if self.persist != persist:
            raise DeviceError(self.name, "no such commit is pending", tags=["invalid-value"])

    def _scheduled(self, stored):
        gates = self.breaks.get("gates", stored.configuration.gates)
        return KernelSchedule(stored.base_time_ns, gates)

    def lock(self, datastore):
        self._call(f"lock {datastore}")

    def _call(self, what):
        self.calls.append(what)
        broken = self.breaks_once.pop(what, None) or self.breaks.get(what)
        if isinstance(broken, DeviceError):
            raise broken
        if broken:
            raise DeviceError(self.name, broken)

    def __getattr__(self, name):
        return lambda *_: self._call(name)


def stand_in(monkeypatch, names):
    """Switches of these names in the place of all that a rollout connects to, and their clock in
    the place of time."""
    clock = Clock()
    for module in (read_back, recovery, rollout, timing, transaction):
        monkeypatch.setattr(module, "time", clock)
    devices = {name: FakeDevice(name, clock) for name in names}
    monkeypatch.setattr(sessions, "Device", lambda switch, _options: devices[switch.name])
    return devices, clock


class Clock:
    """Time that passes only while somebody waits."""

    now_ns = 10**12

    def monotonic_ns(self):
        return self.now_ns

    def monotonic(self):
        return self.now_ns / NS_PER_S

    def time_ns(self):
        return TAI_MINUS_MONOTONIC_NS + self.now_ns - 37 * NS_PER_S

    def sleep(self, duration_s):
        self.now_ns += round(duration_s * NS_PER_S)
