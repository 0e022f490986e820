"""Follows one switch for the whole watch: receives notifications, polls, reconnects."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from cnc.model import Bridge
from cnc.switch.device import ConnectOptions, DeviceError
from cnc.switch.subscription import Notification, Subscription
from cnc.watch.messages import requires_poll
from cnc.watch.observation import Observation, Poll, SwitchNotification, Unreachable

FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 30.0
# A switch with a hundred ports whose links all go down at once sends a hundred.
NOTIFICATIONS_MAX = 1000
NOTIFICATIONS_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class _Ended:
    """The session has ended."""

    reason: str


class _Stop:
    """`stop` was called."""


class _Rate:
    """Counts the notifications of a session."""

    def __init__(self) -> None:
        self._since_s = 0.0
        self._count = 0

    @property
    def is_exceeded(self) -> bool:
        """Whether the last one was one too many."""
        return self._count > NOTIFICATIONS_MAX

    def refuse_flood(self) -> None:
        """Count one. Raises OverflowError if it is one too many, which ends the session."""
        now_s = time.monotonic()
        if now_s - self._since_s >= NOTIFICATIONS_WITHIN_S:
            self._since_s, self._count = now_s, 0
        self._count += 1
        if self.is_exceeded:
            raise OverflowError(
                f"it sent more than {NOTIFICATIONS_MAX} notifications within "
                f"{NOTIFICATIONS_WITHIN_S:g} s"
            )


class Follower(threading.Thread):
    """Reports the observations of a switch, in a thread of its own, until `stop`.

    It polls when a session begins, after each notification that may have changed the state, and
    every `interval_s`. A lost session is opened again, with a backoff that doubles up to
    `LONGEST_RETRY_S`.
    """

    def __init__(
        self,
        bridge: Bridge,
        ports: Collection[str],
        *,
        connect: ConnectOptions,
        interval_s: float,
        report: Callable[[Observation], None],
    ) -> None:
        super().__init__(name=f"watch {bridge.name}", daemon=True)
        self._bridge = bridge
        self._ports = ports
        self._connect = connect
        self._interval_s = interval_s
        self._report = report
        self._inbox: queue.SimpleQueue[Notification | _Ended | _Stop] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._retry_s = FIRST_RETRY_S

    def stop(self) -> None:
        """End soon; from any thread. A request in progress is completed first."""
        self._stopping.set()
        self._inbox.put(_Stop())

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._attend()
            except DeviceError as error:
                self._report(Unreachable(self._bridge.name, _now(), str(error)))
                self._stopping.wait(self._retry_s)
                self._retry_s = min(2 * self._retry_s, LONGEST_RETRY_S)

    def _attend(self) -> None:
        """One session, until `stop`. Raises DeviceError if it cannot be opened, or ends."""
        inbox = self._inbox = queue.SimpleQueue()
        rate = _Rate()

        def on_notification(notification: Notification) -> None:
            rate.refuse_flood()
            inbox.put(notification)

        session = Subscription(
            self._bridge,
            self._connect,
            on_notification=on_notification,
            on_end=lambda reason: inbox.put(_Ended(reason)),
        )
        try:
            self._poll(session)
            self._retry_s = FIRST_RETRY_S
            self._follow(session)
        except DeviceError:
            session.abandon()
            if rate.is_exceeded:
                self._retry_s = LONGEST_RETRY_S
            raise
        session.close()

    def _follow(self, session: Subscription) -> None:
        """Until `stop`. Raises DeviceError when the session ends."""
        due_s = time.monotonic() + self._interval_s
        while not self._stopping.is_set():
            changed = self._listen(until_s=due_s)
            if self._stopping.is_set():
                return
            if changed or time.monotonic() >= due_s:
                self._poll(session)
                due_s = time.monotonic() + self._interval_s

    def _listen(self, until_s: float) -> bool:
        """Report notifications; whether to poll now. Several at once cause one poll."""
        changed = False
        while True:
            wait_s = 0.0 if changed else max(0.0, until_s - time.monotonic())
            try:
                message = self._inbox.get(timeout=wait_s)
            except queue.Empty:
                return changed
            match message:
                case _Stop():
                    return False
                case _Ended(reason):
                    raise DeviceError(self._bridge.name, f"the session ended: {reason}")
                case Notification():
                    self._report(SwitchNotification(self._bridge.name, _now(), message))
                    changed = changed or requires_poll(message)

    def _poll(self, session: Subscription) -> None:
        state = session.state(self._ports)
        self._report(
            Poll(
                switch=self._bridge.name,
                at=_now(),
                state=state,
                stored=session.stored(self._ports),
                counters=session.counters(self._ports),
            )
        )


def _now() -> datetime:
    return datetime.now(UTC)
