"""The two phases in which all switches change, or none.

    stage      the new configuration into every candidate datastore, validated
    commit     confirmed commit everywhere; every kernel is read back
    ---------- the decision, written to the journal
    confirm    everywhere; then each switch saves what it runs for its next start

Before the decision any failure rolls back all switches, and one that cannot be reached reverts by
itself. After it the only way is forward: what cannot be confirmed is left to an operator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from cnc.errors import CncError, RolloutError
from cnc.model import StoredPort
from cnc.rollout.compare import difference_between, difference_of
from cnc.rollout.events import Listener, Step, StepBegun
from cnc.rollout.history import Journal, Outcome, Phase, SwitchChange
from cnc.rollout.parallel import UNCHANGED, uninterrupted
from cnc.rollout.sessions import Sessions
from cnc.rollout.timing import SLOWER, ConfirmWindow
from cnc.switch.device import Device, DeviceError, SwitchState
from cnc.switch.payload import edit_config
from cnc.switch.rollout_id import RolloutId
from cnc.switch.tree import PortReport

CHOICES = (
    "`cnc push --resume` brings all switches to the new lists, `cnc push --rollback` to the "
    "former ones"
)

RETRY_S = 0.2
# How long a switch may take to go back once its wait is over, and a reply to its last question.
SETTLE_S = 2.0


@dataclass(slots=True)
class SwitchTimes:
    """Where the time of a push went on one switch, in nanoseconds.

    `netconf_ns` holds every RPC from edit-config to the confirming commit without `apply_ns`, the
    agent's own time from the configuration to the kernel.
    """

    payload_ns: int
    netconf_ns: int
    apply_ns: int


class Transaction:
    """One change of several switches, whose sessions are open and whose locks are held.

    `changes` and `states`, which their kernels ran before, are by switch.
    """

    def __init__(
        self,
        sessions: Sessions,
        changes: Mapping[str, SwitchChange],
        states: Mapping[str, SwitchState],
        journal: Journal,
        *,
        rollout_id: RolloutId,
        base_time_ns: int,
        margin_ns: int,
        now_tai_ns: Callable[[], int],
        listener: Listener,
    ) -> None:
        self._sessions = sessions
        self._changes = changes
        self._states = states
        self._journal = journal
        self._rollout_id = rollout_id
        self._base_time_ns = base_time_ns
        self._margin_ns = margin_ns
        self._now_tai_ns = now_tai_ns
        self._listener = listener
        self._window: ConfirmWindow | None = None
        self.times = {name: SwitchTimes(0, 0, 0) for name in changes}

    def run(self) -> None:
        """Change all switches. Raises CncError; it says what became of each."""
        with self._taking_back():
            self._stage()
            window = self._commit()
            self._journal.decide()
            window.refuse_if_late()  # a disk may take its time, and nobody was told yet
        with uninterrupted() as asked:
            self._confirm()
        if asked:
            raise KeyboardInterrupt(_TOO_LATE)

    # --- before the decision -----------------------------------------------------------------

    def _stage(self) -> None:
        self._begin(Step.EDIT)

        def edit(device: Device) -> None:
            change, times = self._changes[device.name], self.times[device.name]
            begun_ns = time.monotonic_ns()
            config = edit_config(change.after, self._base_time_ns, change.before, self._rollout_id)
            times.payload_ns = time.monotonic_ns() - begun_ns
            self._timed(device, lambda: device.edit(config))

        self._sessions.ask(self._changes, edit)

    def _commit(self) -> ConfirmWindow:
        self._begin(Step.COMMIT)
        window = self._window = ConfirmWindow.before(
            self._base_time_ns, self._now_tai_ns(), self._margin_ns
        )

        def commit(device: Device) -> None:
            device.wait_at_most(window.timeout_s)
            self._timed(
                device, lambda: device.commit_confirmed(window.timeout_s, self._rollout_id.id)
            )

        self._sessions.ask(self._changes, commit)
        self._begin(Step.VERIFY)
        self._sessions.ask(self._changes, self._verify)
        window.refuse_if_late()
        return window

    def _verify(self, device: Device) -> None:
        """The kernel's dump must equal the plan before anyone confirms."""
        desired_ports = self._changes[device.name].after
        state = device.state(desired_ports)
        if state.agent and state.agent.last_change_us is not None:
            times = self.times[device.name]
            times.apply_ns = state.agent.last_change_us * 1000
            times.netconf_ns = max(0, times.netconf_ns - times.apply_ns)
        for port, desired in desired_ports.items():
            if difference := difference_of(desired, state.ports.get(port), self._base_time_ns):
                raise DeviceError(
                    device.name,
                    f"port {port} does not run what was committed: {difference}",
                    hint=f"the journal of tsn-agent on {device.name} says what the kernel answered",
                )

    @contextmanager
    def _taking_back(self) -> Iterator[None]:
        """Take all switches back when the block fails, and tell what became of each."""
        try:
            yield
        except (Exception, KeyboardInterrupt, SystemExit) as error:  # others may have committed
            with uninterrupted() as asked:
                self._begin(Step.ROLLBACK)
                told = self._take_back()
                with suppress(CncError):  # then the next controller finds that it was abandoned
                    self._journal.end(Phase.TAKEN_BACK, str(error) or "interrupted")
                self._journal.close()
            words = "\n".join(filter(None, [str(error), *told]))
            if asked or isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt(words) from error
            if isinstance(error, CncError):
                raise RolloutError(words, hint=error.hint) from error
            # A fault of this program keeps its traceback, and the operator the word on the network.
            error.add_note("\n".join(told))
            raise

    def _take_back(self) -> list[str]:
        """Lines to add to the error: that nothing has changed, or which switch did not say so."""
        if self._window is None:
            self._sessions.attempt(self._changes, lambda device: device.discard_changes())
            return [UNCHANGED]
        silent = []
        for name, answer in self._sessions.attempt(self._changes, self._bring_back).items():
            if isinstance(answer, DeviceError):
                self._note(name, Outcome.UNKNOWN, str(answer))
                silent.append(
                    f"{answer}\n{name} was not seen to go back; nobody told it to keep the change, "
                    f"so it does that by itself, {self._window.timeout_s} s after the commit"
                )
            else:
                self._note(name, Outcome.TAKEN_BACK)
        return silent or [UNCHANGED]

    def _bring_back(self, device: Device) -> None:
        """Cancel the commit, or wait until the switch has; then see that it runs what it ran."""
        window = self._window
        if window is None:
            return
        give_up_s = window.ends_s + SETTLE_S
        device.wait_at_most(max(RETRY_S, window.left_s()))
        while True:
            try:
                self._cancel(device)
                self._see_former(device)
            except Exception as error:
                if time.monotonic() >= give_up_s:
                    if isinstance(error, DeviceError):
                        raise
                    raise DeviceError(device.name, f"taking it back failed: {error}") from error
                time.sleep(RETRY_S)
                device = self._renewed(device, give_up_s)
            else:
                return

    def _cancel(self, device: Device) -> None:
        """Only a switch that says it has our change is asked to go back: others have done so."""
        if self._has_rollout_id(device):
            device.cancel_commit(self._rollout_id.id)
        with suppress(DeviceError):  # with its session's lock the candidate is reset as well
            device.discard_changes()

    def _see_former(self, device: Device) -> None:
        stored, before = self._changes[device.name].before, self._states[device.name].ports
        now = device.state(stored).ports
        for port in stored:
            difference = difference_between(before.get(port), now.get(port))
            if difference and not self._is_as_stored(now.get(port), stored[port]):
                raise DeviceError(
                    device.name,
                    f"port {port} does not run what it ran before: {difference}",
                    hint="`cnc status` tells what it runs; push again to bring it to the plan",
                )

    def _is_as_stored(self, report: PortReport | None, stored: StoredPort | None) -> bool:
        """A port that had drifted from its configuration is mended when that is set again."""
        if stored is None:
            return difference_of(None, report, None) is None
        return (
            difference_of(stored.configuration, report, stored.base_time_ns, stored.extras) is None
        )

    # --- after the decision ------------------------------------------------------------------

    def _confirm(self) -> None:
        self._begin(Step.CONFIRM)
        confirmed = self._sessions.attempt(self._changes, self._keep)
        kept = [name for name, answer in confirmed.items() if not isinstance(answer, DeviceError)]
        saved = self._sessions.attempt(kept, self._save)
        failures = [
            answer
            for answer in (*confirmed.values(), *saved.values())
            if isinstance(answer, DeviceError)
        ]
        if not kept and all(failure.is_final for failure in failures):
            self._journal.end(Phase.TAKEN_BACK, "no switch was told in time to keep it")
            raise RolloutError("\n".join([*map(str, failures), UNCHANGED]), hint=SLOWER)
        if failures:
            self._journal.close()
            unsaved = len(kept) == len(self._changes)
            told = [*map(str, failures), _UNSAVED if unsaved else _unresolved(confirmed)]
            hint = "push again: that saves it" if unsaved else CHOICES
            raise RolloutError("\n".join(told), hint=hint) from failures[0]
        try:
            self._journal.end(Phase.DONE)
        except CncError as error:
            self._journal.close()
            raise RolloutError(
                f"all switches run the new lists, but the history does not say so: {error}",
                hint="mend that, then `cnc push --resume` ends the rollout",
            ) from error

    def _keep(self, device: Device) -> None:
        """Confirm, over a new session if the old one broke, as long as the switch waits."""
        window = self._window
        assert window is not None  # noqa: S101  there is no decision without a commit
        is_locked = True
        while True:
            device.wait_at_most(max(RETRY_S, window.left_s()))
            try:
                if not is_locked:
                    self._take_candidate(device)
                self._confirm_or_see(device)
            except DeviceError as error:
                if error.is_final or window.left_s() <= 0:
                    raise
                time.sleep(RETRY_S)
                device, is_locked = self._renewed(device, window.ends_s), False
            else:
                self._note(device.name, Outcome.CONFIRMED)
                return

    def _take_candidate(self, device: Device) -> None:
        """Lock candidate as the lost session had it: to confirm is to commit it once more."""
        try:
            device.discard_changes()
        except DeviceError as error:
            if error.tags:
                return  # somebody else has the lock, which keeps our commit out as well
            raise
        device.lock("candidate")

    def _confirm_or_see(self, device: Device) -> None:
        """Confirm. Where nothing waits for it, the reply to an earlier one was lost."""
        try:
            self._timed(device, lambda: device.confirm(self._rollout_id.id))
        except DeviceError as error:
            if "invalid-value" not in error.tags:
                raise
            if not self._has_rollout_id(device):
                raise DeviceError(
                    device.name,
                    "went back to its former lists before it was told to keep the new ones",
                    hint=SLOWER,
                    is_final=True,
                ) from error

    def _save(self, device: Device) -> None:
        device.wait_at_most(self._sessions.timeout_s)
        try:
            device.save_startup()
        except DeviceError as error:
            if error.tags:
                raise
            self._renewed(device, time.monotonic() + SETTLE_S).save_startup()
        self._note(device.name, Outcome.SAVED)

    # --- parts -------------------------------------------------------------------------------

    def _begin(self, step: Step) -> None:
        self._listener(StepBegun(step, len(self._changes)))

    def _note(self, name: str, outcome: Outcome, detail: str = "") -> None:
        """A result that cannot be kept is one that whoever finishes the rollout asks for."""
        with suppress(CncError):
            self._journal.result(name, outcome, detail)

    def _has_rollout_id(self, device: Device) -> bool:
        rollout_id = device.rollout_id()
        return rollout_id is not None and rollout_id.id == self._rollout_id.id

    def _renewed(self, device: Device, until_s: float) -> Device:
        """A new session, tried for until the moment `until_s` of the monotonic clock."""
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


_UNSAVED = (
    "all switches run the new lists, but not all have saved them: those would start with the "
    "former ones"
)


def _unresolved(confirmed: Mapping[str, object]) -> str:
    """Which switch is where, for an operator who has to choose."""
    told: dict[str, list[str]] = {}
    for name, answer in confirmed.items():
        was_seen = "was not seen to" if isinstance(answer, DeviceError) else "does"
        told.setdefault(f"{was_seen} keep the new lists", []).append(name)
    which = "; ".join(f"{', '.join(names)} {what}" for what, names in told.items())
    return f"the network may run two schedules: {which}"


_TOO_LATE = "it was too late to stop: all switches run the new lists"
