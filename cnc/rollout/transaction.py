"""The two phases in which all switches change, or none.

    stage      the new configuration into every candidate datastore, validated
    commit     confirmed commit everywhere; every kernel is read back
    ---------- the decision, written to the journal
    confirm    everywhere; then each switch saves what it runs for its next start

Before the decision any failure rolls back all switches, and one that cannot be reached reverts by
itself. After it there is no automatic rollback: an operator decides about what cannot be confirmed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import PortReport
from cnc.errors import CncError, RolloutError
from cnc.model import NS_PER_S
from cnc.rollout.compare import (
    difference_between,
    difference_from_stored,
)
from cnc.rollout.events import Listener, Step, StepBegun
from cnc.rollout.history import Journal, Outcome, Phase, SwitchChange
from cnc.rollout.read_back import kind, read_back
from cnc.rollout.sessions import Sessions
from cnc.rollout.taking_part import in_turns, taking_part
from cnc.rollout.timing import SLOWER, ConfirmWindow, Deadlines
from cnc.switch.device import Device, DeviceError
from cnc.switch.parallel import UNCHANGED, uninterrupted
from cnc.switch.rollout_id import RolloutId

CHOICES = (
    "`cnc push --resume` moves all switches to the new lists, `cnc push --rollback` to the "
    "previous ones"
)

RETRY_S = 0.2
# Allowed for a switch to revert after its confirm time-out, and for the reply to the last request.
SETTLE_S = 2.0


@dataclass(slots=True)
class SwitchTimes:
    """Durations of a push on one switch, in nanoseconds.

    `netconf_ns` is the sum of every RPC from edit-config to the confirming commit without
    `apply_ns`, the agent's own time from the configuration to the kernel.
    """

    payload_ns: int
    netconf_ns: int
    apply_ns: int


class Transaction:
    """One change of several switches, whose sessions are open and whose locks are held.

    `changes` and `states`, read before the change, are by switch.
    """

    def __init__(
        self,
        sessions: Sessions,
        changes: Mapping[str, SwitchChange],
        states: Mapping[str, SwitchState],
        journal: Journal,
        *,
        rollout_id: RolloutId,
        takes_over: bool,
        deadlines: Deadlines,
        now_tai_ns: Callable[[], int],
        least_tai_ns: Callable[[], int],
        listener: Listener,
    ) -> None:
        self._sessions = sessions
        self._changes = changes
        self._states = states
        self._journal = journal
        self._rollout_id = rollout_id
        self._takes_over = takes_over
        self._deadlines = deadlines
        self._parts = {
            name: taking_part(change, rollout_id.id, deadlines.base_time_ns)
            for name, change in changes.items()
        }
        self._now_tai_ns = now_tai_ns
        self._least_tai_ns = least_tai_ns
        self._listener = listener
        self._window: ConfirmWindow | None = None
        self.times = {name: SwitchTimes(0, 0, 0) for name in changes}
        self.read_back: datetime | None = None

    def run(self) -> None:
        """Change all switches. Raises CncError with the outcome on each switch."""
        with self._rolling_back():
            self._stage()
            window = self._commit()
            self._journal.decide()
            window.refuse_if_late()  # writing the journal took time; no switch is confirmed yet
        with uninterrupted() as interrupts:
            self._confirm()
        if interrupts:
            raise KeyboardInterrupt(_TOO_LATE)

    # --- before the decision -----------------------------------------------------------------

    def _stage(self) -> None:
        self._begin(Step.EDIT)

        def edit(device: Device) -> None:
            its, state = self._parts[device.name], self._states[device.name]
            begun_ns = time.monotonic_ns()
            config = its.config(self._rollout_id, state, takes_over=self._takes_over)
            self.times[device.name].payload_ns = time.monotonic_ns() - begun_ns
            self._timed(device, lambda: its.stage(device, config))

        self._sessions.ask(self._changes, edit)

    def _commit(self) -> ConfirmWindow:
        window = self._window = self._deadlines.window(self._now_tai_ns())
        for names in in_turns(self._parts):
            self._commit_on(names, window)
            window.refuse_if_late()
        self.read_back = datetime.now(UTC)
        return window

    def _commit_on(self, names: Collection[str], window: ConfirmWindow) -> None:
        self._listener(StepBegun(Step.COMMIT, len(names)))

        def commit(device: Device) -> None:
            device.wait_at_most(window.timeout_s)
            its = self._parts[device.name]
            self._timed(device, lambda: its.commit(device, window.timeout_s))

        self._sessions.ask(names, commit)
        if self._deadlines.runs_ns is not None:
            about_now_ns = (self._now_tai_ns() + self._least_tai_ns()) // 2
            time.sleep(max(0, self._deadlines.runs_ns - about_now_ns) / NS_PER_S)
        self._listener(StepBegun(Step.VERIFY, len(names)))
        self._sessions.ask(names, self._verify)

    def _verify(self, device: Device) -> None:
        """Check that the kernel runs the plan, before the confirming commit."""
        desired_ports = self._changes[device.name].after
        state = read_back(device, desired_ports, self._deadlines, self._least_tai_ns)
        if state.agent and state.agent.last_change_us is not None:
            times = self.times[device.name]
            times.apply_ns = state.agent.last_change_us * 1000
            times.netconf_ns = max(0, times.netconf_ns - times.apply_ns)

    @contextmanager
    def _rolling_back(self) -> Iterator[None]:
        """Roll back all switches when the block fails, and add the outcome on each to the error."""
        try:
            yield
        except (Exception, KeyboardInterrupt, SystemExit) as error:  # some may have committed
            with uninterrupted() as interrupts:
                self._begin(Step.ROLLBACK)
                outcomes = self._roll_back()
                with suppress(CncError):  # then the next controller finds it abandoned
                    self._journal.end(Phase.ROLLED_BACK, str(error) or "interrupted")
                self._journal.close()
            message = "\n".join(filter(None, [str(error), *outcomes]))
            if interrupts or isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt(message) from error
            if isinstance(error, CncError):
                raise RolloutError(message, hint=error.hint) from error
            # A fault of this program keeps its traceback; a note tells the operator the network's
            # state.
            error.add_note("\n".join(outcomes))
            raise

    def _roll_back(self) -> list[str]:
        """Lines for the error: that no switch was changed, or which did not confirm its
        rollback."""
        if self._window is None:
            self._sessions.attempt(self._changes, lambda device: device.discard_changes())
            return [UNCHANGED]
        unconfirmed = []
        for name, answer in self._sessions.attempt(self._changes, self._roll_back_one).items():
            if isinstance(answer, DeviceError):
                self._note(name, Outcome.UNKNOWN, str(answer))
                unconfirmed.append(
                    f"{answer}\nrollback of {name} not confirmed; {self._then(name)}"
                )
            else:
                self._note(name, Outcome.ROLLED_BACK)
        return unconfirmed or [UNCHANGED]

    def _then(self, name: str) -> str:
        """What becomes of a switch that could not be rolled back."""
        if self._parts[name].reverts and self._window:
            return (
                "its commit was never confirmed, so it reverts by itself "
                f"{self._window.timeout_s} s after the commit"
            )
        base_s = self._deadlines.base_time_ns / NS_PER_S
        return (
            "its profile says that it does not revert by itself: it may run the new lists from "
            f"{datetime.fromtimestamp(base_s, UTC):%Y-%m-%d %H:%M:%S} TAI on, and all others run "
            "the previous ones; push again when it answers"
        )

    def _roll_back_one(self, device: Device) -> None:
        """Cancel the commit, or wait until the switch has reverted; then check that it runs its
        previous lists."""
        window = self._window
        if window is None:
            return
        give_up_s = window.ends_s + SETTLE_S
        device.wait_at_most(max(RETRY_S, window.remaining_s()))
        while True:
            try:
                self._parts[device.name].cancel(device)
                with suppress(DeviceError):  # the end of the session's lock resets it as well
                    device.discard_changes()
                self._verify_previous(device)
            except Exception as error:
                if time.monotonic() >= give_up_s:
                    if isinstance(error, DeviceError):
                        raise
                    raise DeviceError(device.name, f"rollback failed: {error}") from error
                time.sleep(RETRY_S)
                device = self._renewed(device, give_up_s)
            else:
                return

    def _verify_previous(self, device: Device) -> None:
        change, before = self._changes[device.name], self._states[device.name].ports
        now = device.state(change.before).ports
        for port in change.before:
            difference = difference_between(before.get(port), now.get(port))
            if difference and not _is_as_stored(change, port, now.get(port)):
                raise DeviceError(
                    device.name,
                    f"{kind(change.after[port])} {port} does not run what it ran before: "
                    f"{difference}",
                    hint="`cnc status` shows what it runs; push again to restore the plan",
                )

    # --- after the decision ------------------------------------------------------------------

    def _confirm(self) -> None:
        self._begin(Step.CONFIRM)
        replies = self._sessions.attempt(self._changes, self._confirm_one)
        confirmed_names = [
            name for name, answer in replies.items() if not isinstance(answer, DeviceError)
        ]
        saved = self._sessions.attempt(confirmed_names, self._save)
        failures = [
            answer
            for answer in (*replies.values(), *saved.values())
            if isinstance(answer, DeviceError)
        ]
        if not confirmed_names and all(failure.is_final for failure in failures):
            self._journal.end(Phase.ROLLED_BACK, "no switch received the confirming commit in time")
            raise RolloutError("\n".join([*map(str, failures), UNCHANGED]), hint=SLOWER)
        if failures:
            self._journal.close()
            unsaved = len(confirmed_names) == len(self._changes)
            lines = [*map(str, failures), _UNSAVED if unsaved else _unresolved(replies)]
            hint = "push again: that saves it" if unsaved else CHOICES
            raise RolloutError("\n".join(lines), hint=hint) from failures[0]
        try:
            self._journal.end(Phase.DONE)
        except CncError as error:
            self._journal.close()
            raise RolloutError(
                f"all switches run the new lists, but the history could not be updated: {error}",
                hint="fix that, then `cnc push --resume` ends the rollout",
            ) from error

    def _confirm_one(self, device: Device) -> None:
        """Confirm, over a new session if the old one broke, until the switch's time-out."""
        window = self._window
        assert window is not None  # noqa: S101  there is no decision without a commit
        is_locked = True
        while True:
            device.wait_at_most(max(RETRY_S, window.remaining_s()))
            try:
                if not is_locked:
                    self._lock_candidate(device)
                self._send_confirm(device)
            except DeviceError as error:
                if error.is_final or window.remaining_s() <= 0:
                    raise
                time.sleep(RETRY_S)
                device, is_locked = self._renewed(device, window.ends_s), False
            else:
                self._note(device.name, Outcome.CONFIRMED)
                return

    def _lock_candidate(self, device: Device) -> None:
        """Lock candidate as the lost session had done: the confirming commit commits it again."""
        try:
            device.discard_changes()
        except DeviceError as error:
            if error.tags:
                return  # another session holds the lock, which refuses our commit as well
            raise
        device.lock("candidate")

    def _send_confirm(self, device: Device) -> None:
        """Confirm. If no commit is pending, the reply to an earlier confirming commit was lost."""
        its = self._parts[device.name]
        try:
            self._timed(device, lambda: its.confirm(device))
        except DeviceError as error:
            if "invalid-value" not in error.tags:
                raise
            if not its.has(device):
                raise DeviceError(
                    device.name,
                    "reverted to its previous lists before it received the confirming commit",
                    hint=SLOWER,
                    is_final=True,
                ) from error

    def _save(self, device: Device) -> None:
        device.wait_at_most(self._sessions.timeout_s)
        its = self._parts[device.name]
        try:
            its.save(device)
        except DeviceError as error:
            if error.tags:
                raise
            its.save(self._renewed(device, time.monotonic() + SETTLE_S))
        self._note(device.name, Outcome.SAVED)

    # --- parts -------------------------------------------------------------------------------

    def _begin(self, step: Step) -> None:
        self._listener(StepBegun(step, len(self._changes)))

    def _note(self, name: str, outcome: Outcome, detail: str = "") -> None:
        """Record a result; if it cannot be written, the controller that ends the rollout reads it
        again."""
        with suppress(CncError):
            self._journal.result(name, outcome, detail)

    def _renewed(self, device: Device, until_s: float) -> Device:
        """A new session, with retries until `until_s` on the monotonic clock."""
        while True:
            try:
                return self._sessions.renew(device.name, max(RETRY_S, until_s - time.monotonic()))
            except DeviceError:
                if time.monotonic() >= until_s:
                    raise
                time.sleep(RETRY_S)

    def _timed(self, device: Device, step: Callable[[], None]) -> None:
        begun_ns = time.monotonic_ns()
        step()
        self.times[device.name].netconf_ns += time.monotonic_ns() - begun_ns


def _is_as_stored(change: SwitchChange, port: str, report: PortReport | None) -> bool:
    """Whether the port runs its stored configuration, which a rollback restores after a drift."""
    return difference_from_stored(change.previous(port), change.before[port], report) is None


_UNSAVED = (
    "all switches run the new lists, but not all have saved them: after a reboot those start with "
    "the previous ones"
)


def _unresolved(replies: Mapping[str, object]) -> str:
    """Which switches are confirmed, for an operator who has to choose."""
    outcomes: dict[str, list[str]] = {}
    for name, answer in replies.items():
        verb = "did not confirm" if isinstance(answer, DeviceError) else "confirmed"
        outcomes.setdefault(f"{verb} the new lists", []).append(name)
    switches = "; ".join(f"{', '.join(names)} {outcome}" for outcome, names in outcomes.items())
    return f"the network may run two schedules: {switches}"


_TOO_LATE = "too late to interrupt: all switches run the new lists"
