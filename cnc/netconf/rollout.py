"""One plan, all switches, or none.

    connect ─► preflight ─► lock ─► difference ─► edit + validate ─► confirmed commit ─► read back
            ─► confirm ─► startup ─► unlock

Every step runs on all switches in parallel and ends before the next begins. Up to the first
confirm any failure takes all switches back to what they ran; a controller that dies does too,
because a confirmed commit is bound to its session (RFC 6241 8.4).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TypeVar

from cnc.check import judge
from cnc.errors import PlanRejected, RolloutError
from cnc.model import NS_PER_S, Bridge, GateControlList, Plan, PortRef
from cnc.netconf.compare import agent_down, difference_of, needs_change
from cnc.netconf.device import ConnectOptions, Device, DeviceError, SwitchState
from cnc.netconf.limits import refuse_beyond_limits
from cnc.netconf.parallel import UNCHANGED, before_any_change, in_parallel
from cnc.netconf.payload import desired_ports, edit_config
from cnc.netconf.tree import PortConfiguration, StoredPort

T = TypeVar("T")
Progress = Callable[[str], None]

# A rollout of a few switches takes well under a second; the base time must still lie ahead when the
# slowest one has confirmed, so the time between them grows with what the preflight took.
MIN_LEAD_NS = 3 * NS_PER_S
LEAD_PER_PREFLIGHT = 20
CONFIRM_TIMEOUT_S = 60
CLOCK_READ_TOLERANCE_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class PortChange:
    """What a push changes on one port; None stands for no gates."""

    port: PortRef
    before: GateControlList | None
    after: GateControlList | None
    why: str


@dataclass(frozen=True, slots=True)
class SwitchTimes:
    """Where the time of a push went on one switch, in nanoseconds.

    `netconf_ns` holds every RPC from edit-config to the confirming commit without `apply_ns`, the
    agent's own time from the configuration to the kernel.
    """

    payload_ns: int
    netconf_ns: int
    apply_ns: int


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a push: what changed, from which TAI instant, and what it cost."""

    changes: tuple[PortChange, ...]
    base_time_ns: int | None
    times: Mapping[str, SwitchTimes]
    total_ns: int


def push(
    plan: Plan,
    *,
    connect: ConnectOptions,
    dry_run: bool = False,
    progress: Progress = lambda _: None,
) -> Report:
    """Bring `plan` to every switch as one change.

    Ports that already run their list are not touched; with nothing to change nothing is sent.
    `dry_run` stops after the comparison. Raises PlanRejected when the judge refuses the plan,
    RolloutError when any switch does; then no switch has changed.
    """
    if violations := judge(plan):
        raise PlanRejected("\n".join(f"{v.where}: {v.text}" for v in violations))
    started_ns = time.monotonic_ns()
    desired = {name: desired_ports(plan, name) for name in plan.intent.network.bridges}
    with ExitStack() as stack:
        with before_any_change():
            devices = stack.enter_context(_sessions(plan, connect, progress))
            rollout = _Rollout(plan, devices, desired, progress)
            rollout.preflight()
            if not dry_run:
                stack.enter_context(rollout.locked())
            rollout.compare()
        if dry_run or not rollout.changes:
            return Report(tuple(rollout.describe()), None, {}, time.monotonic_ns() - started_ns)
        base_time_ns = rollout.choose_base_time()
        rollout.stage(base_time_ns)
        rollout.commit(base_time_ns)
        return Report(
            tuple(rollout.describe()),
            base_time_ns,
            rollout.times(),
            time.monotonic_ns() - started_ns,
        )


class _Rollout:
    """The state of one push: sessions, what each switch has, what it must get."""

    def __init__(
        self,
        plan: Plan,
        devices: Mapping[str, Device],
        desired: Mapping[str, Mapping[str, PortConfiguration | None]],
        progress: Progress,
    ) -> None:
        self._plan = plan
        self._devices = devices
        self._desired = desired
        self._progress = progress
        self._stored: Mapping[str, Mapping[str, StoredPort]] = {}
        self._states: Mapping[str, SwitchState] = {}
        self._spent_ns = dict.fromkeys(devices, 0)
        self._payload_ns = dict.fromkeys(devices, 0)
        self._apply_ns = dict.fromkeys(devices, 0)
        self._unconfirmed: set[str] = set()
        self.changes: dict[str, dict[str, str]] = {}

    def preflight(self) -> None:
        """Read every switch; refuse when an agent, a limit or a clock is not as it must be."""
        self._progress("reading what the switches run")
        self._states = self._on_all(lambda d: d.state(self._desired[d.name]))
        for name, state in self._states.items():
            if state.agent is None:
                down = agent_down(name)
                raise RolloutError(str(down), hint=down.hint)
        refuse_beyond_limits(self._plan, self._states)
        self._check_clocks()

    def compare(self) -> None:
        """Find the ports that do not have, or do not run, what the plan wants."""
        self._stored = self._on_all(lambda d: d.stored_ports(self._desired[d.name]))
        for name, ports in self._desired.items():
            reasons = {
                port: why
                for port, wanted in ports.items()
                if (
                    why := needs_change(
                        wanted, self._stored[name].get(port), self._states[name].ports.get(port)
                    )
                )
            }
            if reasons:
                self.changes[name] = reasons

    def describe(self) -> Iterator[PortChange]:
        """The ports that change, in order."""
        for name, reasons in sorted(self.changes.items()):
            for port, why in sorted(reasons.items()):
                stored = self._stored[name].get(port)
                before = stored.configuration.gates if stored and stored.configuration else None
                ref = PortRef(name, port)
                yield PortChange(ref, before, self._plan.gates.get(ref), why)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold every switch's locks.

        They are taken one by one in name order, so that of two operators one gets all of them.
        """
        self._progress("locking")
        with ExitStack() as locks:
            for name in sorted(self._devices):
                device = self._devices[name]
                try:
                    device.lock()
                except DeviceError as error:
                    raise RolloutError(
                        str(error),
                        hint=error.hint
                        or "another operator or tool holds the lock; try again when it is done",
                    ) from error
                locks.callback(_quietly, device.unlock)
            yield

    def stage(self, base_time_ns: int) -> None:
        """Put the new configuration into every changed switch's candidate datastore."""
        self._progress("sending the new gate control lists")

        def edit(device: Device) -> None:
            begun_ns = time.monotonic_ns()
            wanted = {port: self._desired[device.name][port] for port in self.changes[device.name]}
            config = edit_config(wanted, base_time_ns, self._stored[device.name])
            self._payload_ns[device.name] = time.monotonic_ns() - begun_ns
            self._timed(lambda d: d.edit(config))(device)

        with self._all_or_none():
            self._on_changed(edit)

    def commit(self, base_time_ns: int) -> None:
        """Confirmed commit everywhere, read back, confirm everywhere; on failure cancel all."""
        with self._all_or_none():
            self._progress("committing on all switches")
            self._on_changed(self._timed(self._commit_confirmed))
            self._progress("comparing what the kernels run")
            self._on_changed(lambda d: self._verify(d, base_time_ns))
            self._refuse_if_late(base_time_ns)
        self._progress("confirming")
        try:
            self._on_changed(self._timed(Device.confirm))
        except RolloutError as error:
            raise RolloutError(
                f"{error}\nother switches have confirmed: the network may run two schedules",
                hint="run `cnc status` to see who runs what, then push again",
            ) from error
        self._on_changed(Device.save_startup)

    def times(self) -> dict[str, SwitchTimes]:
        return {
            name: SwitchTimes(
                payload_ns=self._payload_ns[name],
                netconf_ns=max(0, self._spent_ns[name] - self._apply_ns[name]),
                apply_ns=self._apply_ns[name],
            )
            for name in self.changes
        }

    # --- parts -------------------------------------------------------------------------------

    def _on_all(self, ask: Callable[[Device], T]) -> dict[str, T]:
        return in_parallel(list(self._devices.values()), ask)

    def _on_changed(self, ask: Callable[[Device], T]) -> dict[str, T]:
        return in_parallel([self._devices[name] for name in self.changes], ask)

    def _timed(self, ask: Callable[[Device], None]) -> Callable[[Device], None]:
        def timed(device: Device) -> None:
            begun_ns = time.monotonic_ns()
            ask(device)
            self._spent_ns[device.name] += time.monotonic_ns() - begun_ns

        return timed

    def _commit_confirmed(self, device: Device) -> None:
        device.commit_confirmed(CONFIRM_TIMEOUT_S)
        self._unconfirmed.add(device.name)

    @contextmanager
    def _all_or_none(self) -> Iterator[None]:
        """Take all switches back when the block fails, and say whether every one did."""
        try:
            yield
        except (RolloutError, KeyboardInterrupt) as error:
            silent = [name for name in self.changes if not self._take_back(self._devices[name])]
            if isinstance(error, KeyboardInterrupt):
                raise
            outcome = UNCHANGED
            if silent:
                outcome = (
                    f"{', '.join(silent)} did not say that it went back; it does so by itself when "
                    f"it sees the session end, at most {CONFIRM_TIMEOUT_S} s from now"
                )
            raise RolloutError(f"{error}\n{outcome}", hint=error.hint) from error

    def _take_back(self, device: Device) -> bool:
        went_back = device.name not in self._unconfirmed or _quietly(device.cancel_commit)
        return _quietly(device.discard_changes) and went_back

    def _check_clocks(self) -> None:
        """Refuse switches whose TAI clocks differ: a schedule would start at different instants."""
        bounds = {}
        for name, state in self._states.items():
            offset = state.tai_minus_monotonic_ns()
            if offset is None:
                raise RolloutError(
                    f"{name}: reports no clock for any of its ports",
                    hint="do the port names of the intent exist on the switch?",
                )
            bounds[name] = offset
        allowed_ns = self._plan.intent.network.clock_error_ns + CLOCK_READ_TOLERANCE_NS
        behind = min(bounds, key=lambda name: bounds[name][1])
        ahead = max(bounds, key=lambda name: bounds[name][0])
        apart_ns = bounds[ahead][0] - bounds[behind][1]
        if apart_ns > allowed_ns:
            offsets = {n: s.agent.tai_offset_s for n, s in self._states.items() if s.agent}
            raise RolloutError(
                f"the TAI clock of {ahead} is at least {apart_ns / NS_PER_S:.6f} s ahead of that "
                f"of {behind} (TAI offsets in seconds: "
                f"{', '.join(f'{n} {o}' for n, o in sorted(offsets.items()))})",
                hint="synchronise the switches (ptp4l, phc2sys) and set the kernel's TAI offset",
            )

    def choose_base_time(self) -> int:
        """First common multiple of all cycles that lies far enough ahead (ns, TAI)."""
        slowest_ns = max(s.answered_ns - s.asked_ns for s in self._states.values())
        lead_ns = max(MIN_LEAD_NS, LEAD_PER_PREFLIGHT * slowest_ns)
        cycle_ns = math.lcm(1, *(gates.cycle_ns for gates in self._plan.gates.values()))
        earliest_ns = self._network_time_ns() + lead_ns
        return -(-earliest_ns // cycle_ns) * cycle_ns

    def _network_time_ns(self) -> int:
        """The latest any switch's TAI clock can be now."""
        offsets = (state.tai_minus_monotonic_ns() for state in self._states.values())
        return time.monotonic_ns() + max(upper for _, upper in filter(None, offsets))

    def _verify(self, device: Device, base_time_ns: int) -> None:
        """The kernel's dump must equal the plan before anyone confirms."""
        state = device.state(self._desired[device.name])
        if state.agent and state.agent.last_change_us is not None:
            self._apply_ns[device.name] = state.agent.last_change_us * 1000
        for port in self.changes[device.name]:
            wanted = self._desired[device.name][port]
            report = state.ports.get(port)
            if difference := difference_of(wanted, report, base_time_ns):
                raise DeviceError(
                    device.name, f"port {port} does not run what was committed: {difference}"
                )

    def _refuse_if_late(self, base_time_ns: int) -> None:
        late_ns = self._network_time_ns() - base_time_ns
        if late_ns >= 0:
            raise RolloutError(
                f"the switches were ready {late_ns / NS_PER_S:.3f} s after the base time; "
                "all were taken back",
                hint="the network or a switch is slower than its preflight showed; push again",
            )


@contextmanager
def _sessions(
    plan: Plan, connect: ConnectOptions, progress: Progress
) -> Iterator[dict[str, Device]]:
    bridges = list(plan.intent.network.bridges.values())
    progress(f"connecting to {len(bridges)} switches")
    opened: dict[str, Device] = {}

    def open_session(bridge: Bridge) -> None:
        opened[bridge.name] = Device(bridge, connect)

    try:
        in_parallel(bridges, open_session)
        yield opened
    finally:
        with ThreadPoolExecutor(max_workers=max(1, len(opened))) as pool:
            list(pool.map(Device.close, opened.values()))


def _quietly(step: Callable[[], None]) -> bool:
    """Run a clean-up step whose failure must not hide the error that led here; did it work?"""
    try:
        step()
    except DeviceError:
        return False
    return True
