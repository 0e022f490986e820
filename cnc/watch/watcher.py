"""The complete watch: a follower for each switch, and one place that judges and reports."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime

from cnc.errors import CncError
from cnc.model import Forwarding, Plan
from cnc.rollout import Report, left_over, unresolved
from cnc.rollout.history import History
from cnc.switch import ConnectOptions
from cnc.switch.device import Managed
from cnc.switch.payload import desired_nodes
from cnc.watch import healing
from cnc.watch.condition import WHOLE, Event, Note, What
from cnc.watch.following import Follower
from cnc.watch.observation import Observation, Poll, SwitchNotification
from cnc.watch.observer import Observer, Snapshot

TICK_S = 0.5
# Further observations wait at their switch, which ends a session that sends too many.
OBSERVATIONS_MAX = 1000
STOP_S = 2.0  # how long an unresponsive switch may delay the end


class Watcher:
    """Watches the switches of `plan`; `run` passes every event to `tell` until `stop` is called.

    With `heal`, a function that pushes the plan, drifted ports are restored.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        connect: ConnectOptions,
        history: History,
        interval_s: float,
        tell: Callable[[Event], None],
        heal: Callable[[], Report] | None = None,
    ) -> None:
        self._nodes = list(plan.intent.network.managed.values())
        self._is_bridged = plan.intent.network.forwarding is Forwarding.BRIDGED
        self._network = plan.intent.name
        self._completed = 0
        self._history = history
        self._interval_s = interval_s
        self._tell = tell
        self._observer = Observer(plan, history.knows)
        self._lock = threading.Lock()
        self._seen: queue.Queue[Observation] = queue.Queue(OBSERVATIONS_MAX)
        self._stopping = threading.Event()
        self._healer = _Healer(heal, tell) if heal else None
        desired = desired_nodes(plan)
        self._followers = [
            Follower(
                Managed.of(node, desired[node.name]),
                desired[node.name],
                connect=connect,
                interval_s=interval_s,
                report=self._seen.put,
            )
            for node in self._nodes
        ]

    def snapshot(self) -> Snapshot:
        """The current state; from any thread."""
        with self._lock:
            return self._observer.snapshot()

    def hold(self) -> int:
        """Another plan is on its way to the switches; from any thread, as what ends it. Returns the
        number of this hold: a later one goes on."""
        with self._lock:
            return self._observer.hold()

    def release(self, held: int) -> None:
        """It did not get there: they run what they ran before."""
        with self._lock:
            self._observer.release(datetime.now(UTC), held)

    def follow(self, plan: Plan, held: int) -> None:
        """It is there. Its network is the one that is watched."""
        with self._lock:
            self._observer.follow(plan, datetime.now(UTC), held)

    def stop(self) -> None:
        """Let `run` return soon. It may be called in a signal handler."""
        self._stopping.set()

    def run(
        self,
        *,
        on_first_round: Callable[[], None] = lambda: None,
        on_turn: Callable[[], None] = lambda: None,
        on_poll: Callable[[Poll], None] = lambda _: None,
    ) -> None:
        """Watch until `stop`.

        `on_first_round` is called when every switch has answered or failed once, `on_turn` at least
        every few seconds, `on_poll` with what a switch has said. Raises CncError when the history
        cannot be read.
        """
        for follower in self._followers:
            follower.start()
        try:
            self._turn_until_stopped(on_first_round, on_turn, on_poll)
        finally:
            for follower in self._followers:
                follower.stop()
            if self._healer:
                self._healer.close()
            give_up_s = time.monotonic() + STOP_S
            for follower in self._followers:
                follower.join(max(0.0, give_up_s - time.monotonic()))

    def _turn_until_stopped(
        self,
        on_first_round: Callable[[], None],
        on_turn: Callable[[], None],
        on_poll: Callable[[Poll], None],
    ) -> None:
        missing = {node.name for node in self._nodes}
        history_due_s = 0.0
        while not self._stopping.is_set():
            self._check_followers()
            if time.monotonic() >= history_due_s:
                self._read_history()
                history_due_s = time.monotonic() + self._interval_s
            observation = self._next()
            if observation:
                with self._lock:
                    events = self._observer.take(observation)
                self._tell_all(events)
            if isinstance(observation, Poll):
                on_poll(observation)
            if observation and not isinstance(observation, SwitchNotification) and missing:
                missing.discard(observation.switch)
                if not missing:
                    on_first_round()
            if self._healer:
                self._healer.turn(self.snapshot())
            on_turn()

    def _check_followers(self) -> None:
        """Raise if the thread of a switch has ended: silence must not look like health."""
        if dead := [follower.name for follower in self._followers if not follower.is_alive()]:
            raise RuntimeError(f"the threads of {', '.join(dead)} failed; see the errors above")

    def _next(self) -> Observation | None:
        try:
            return self._seen.get(timeout=TICK_S)
        except queue.Empty:
            return None

    def _read_history(self) -> None:
        rollouts = unresolved(self._nodes, self._history)
        with self._lock:
            events = self._observer.unresolved(rollouts, datetime.now(UTC))
        self._tell_all(events)
        if self._is_bridged:
            self._note_left()

    def _note_left(self) -> None:
        """Look for former ways of streams that are left, when a rollout has been completed."""
        completed = self._history.completed(self._network)
        if completed == self._completed:
            return
        left = left_over(self._history, self._network)
        with self._lock:
            self._observer.note_left(left)
        self._completed = completed

    def _tell_all(self, events: list[Event]) -> None:
        for event in events:
            self._tell(event)


class _Healer:
    """Pushes the plan again when it is due, in a thread of its own, and reports the result."""

    def __init__(self, heal: Callable[[], Report], tell: Callable[[Event], None]) -> None:
        self._heal = heal
        self._tell = tell
        self._backoff = healing.Backoff()
        self._thread = ThreadPoolExecutor(1, "heal")
        self._attempt: Future[Report] | None = None
        self._last_text: str | None = None

    def turn(self, now: Snapshot) -> None:
        """Start an attempt if it is due, or report the result of the last one."""
        if self._attempt:
            if self._attempt.done():
                self._ended(self._attempt)
                self._attempt = None
            return
        is_due = self._backoff.is_due(now.drifted, time.monotonic())
        if not now.drifted:
            self._last_text = None
        if not is_due:
            return
        if waits_for := healing.hindrance(now.conditions):
            self._report_once(healing.postponed(waits_for))
            return
        self._report_once(f"restoring {', '.join(str(port) for port in sorted(now.drifted))}")
        self._attempt = self._thread.submit(self._heal)

    def close(self) -> None:
        """Wait for an attempt in progress: it ends with all switches changed or none."""
        self._thread.shutdown()
        if self._attempt:
            self._ended(self._attempt)

    def _ended(self, attempt: Future[Report]) -> None:
        waits_s = self._backoff.tried(time.monotonic())
        self._last_text = None
        try:
            report = attempt.result()
        except CncError as error:
            self._report_once(f"failed, next attempt in {waits_s:g} s at the earliest: {error}")
            return
        changed = ", ".join(str(change.port) for change in report.changes)
        self._report_once(f"restored {changed}" if changed else "nothing to restore")

    def _report_once(self, text: str) -> None:
        if text != self._last_text:
            self._last_text = text
            self._tell(Event(What.NOTED, Note.HEAL, WHOLE, WHOLE, text, datetime.now(UTC)))
