"""Follows one switch for the whole watch: receives what it sends, looks at it, reconnects."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from cnc.switch.device import ConnectOptions, DeviceError, ManagedNode
from cnc.switch.push import Change, Stopped, Update
from cnc.switch.subscription import Notification, Received, Subscription
from cnc.watch.messages import requires_poll
from cnc.watch.observation import Neighbors, Observation, Poll, SwitchNotification, Unreachable
from cnc.watch.sources import Source, open_source

FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 30.0
# A neighbour speaks every 30 s, and is remembered for 120 s (IEEE 802.1AB, recommended values).
NEIGHBORS_INTERVAL_S = 60.0
# A switch with a hundred ports whose links all go down at once sends a hundred.
NOTIFICATIONS_MAX = 1000
NOTIFICATIONS_WITHIN_S = 10.0
# The state of a switch with a hundred ports is 700,000 characters long.
NOTIFIED_MAX_CHARACTERS = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Ended:
    """The session has ended."""

    reason: str


class _Stop:
    """`stop` was called."""


class _Inbox:
    """What a session received, in its order. Of its updates the newest alone is kept: a switch may
    send large ones faster than they are read."""

    def __init__(self) -> None:
        self._messages: queue.SimpleQueue[Received | _Ended | _Stop | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._update: Update | None = None

    def put(self, message: Received | _Ended | _Stop) -> None:
        if not isinstance(message, Update):
            self._messages.put(message)
            return
        with self._lock:
            is_first, self._update = self._update is None, message
        if is_first:
            self._messages.put(None)  # its place

    def get(self, timeout_s: float) -> Received | _Ended | _Stop:
        """Raises queue.Empty if nothing arrives in time."""
        if message := self._messages.get(timeout=timeout_s):
            return message
        with self._lock:
            update, self._update = self._update, None
        if update is None:
            raise queue.Empty
        return update


class _Rate:
    """Counts the notifications of a session, and their characters."""

    def __init__(self) -> None:
        self._since_s = 0.0
        self._count = 0
        self._characters = 0

    @property
    def is_exceeded(self) -> bool:
        """Whether the last one was one too many."""
        return self._count > NOTIFICATIONS_MAX or self._characters > NOTIFIED_MAX_CHARACTERS

    def refuse_flood(self, characters: int) -> None:
        """Count one. Raises OverflowError if it is one too many, which ends the session."""
        now_s = time.monotonic()
        if now_s - self._since_s >= NOTIFICATIONS_WITHIN_S:
            self._since_s, self._count, self._characters = now_s, 0, 0
        self._count += 1
        self._characters += characters
        if self.is_exceeded:
            raise OverflowError(
                f"it sent more than {NOTIFICATIONS_MAX} notifications, or "
                f"{NOTIFIED_MAX_CHARACTERS} characters in them, within {NOTIFICATIONS_WITHIN_S:g} s"
            )


class Follower(threading.Thread):
    """Reports the observations of a switch, in a thread of its own, until `stop`.

    It asks the switch for everything when a session begins, and after each notification that may
    have changed the state. Every `interval_s` the switch pushes its state, or is asked; after that,
    where the last time was `NEIGHBORS_INTERVAL_S` ago, it is asked whom it hears over LLDP. A lost
    session is opened again, with a backoff that doubles up to `LONGEST_RETRY_S`.
    """

    def __init__(
        self,
        node: ManagedNode,
        ports: Collection[str],
        *,
        connect: ConnectOptions,
        interval_s: float,
        report: Callable[[Observation], None],
    ) -> None:
        super().__init__(name=f"watch {node.name}", daemon=True)
        self._node = node
        self._ports = ports
        self._connect = connect
        self._interval_s = interval_s
        self._report = report
        self._inbox = _Inbox()
        self._stopping = threading.Event()
        self._retry_s = FIRST_RETRY_S
        self._neighbors_due_s = 0.0  # monotonic

    def stop(self) -> None:
        """End soon; from any thread. A request in progress is completed first."""
        self._stopping.set()
        self._inbox.put(_Stop())

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._attend()
            except DeviceError as error:
                self._report(Unreachable(self._node.name, _now(), str(error)))
                self._stopping.wait(self._retry_s)
                self._retry_s = min(2 * self._retry_s, LONGEST_RETRY_S)

    def _attend(self) -> None:
        """One session, until `stop`. Raises DeviceError if it cannot be opened, or ends."""
        inbox = self._inbox = _Inbox()
        rate = _Rate()

        def on_received(received: Received, characters: int) -> None:
            rate.refuse_flood(characters)
            inbox.put(received)

        session = Subscription(
            self._node,
            self._connect,
            on_received=on_received,
            on_end=lambda reason: inbox.put(_Ended(reason)),
        )
        try:
            # Subscribed first: what changes after the first look is told.
            source = open_source(session, self._ports, self._interval_s, self._connect.timeout_s)
            self._report_look(session, source.look())
            self._retry_s = FIRST_RETRY_S
            self._follow(session, source)
        except DeviceError:
            session.abandon()
            if rate.is_exceeded:
                self._retry_s = LONGEST_RETRY_S
            raise
        session.close()

    def _follow(self, session: Subscription, source: Source) -> None:
        """Until `stop`. Raises DeviceError when the session ends."""
        while not self._stopping.is_set():
            try:
                message = self._inbox.get(timeout_s=max(0.0, source.due_s - time.monotonic()))
            except queue.Empty:  # several changes at once cause one look
                self._report_look(session, source.look())
                continue
            match message:
                case _Stop():
                    return
                case _Ended(reason):
                    raise DeviceError(self._node.name, f"the session ended: {reason}")
                case Notification():
                    self._report(SwitchNotification(self._node.name, _now(), message))
                    if requires_poll(message):
                        source.look_now()
                case Update() | Change():
                    if poll := source.take(message):
                        self._report_look(session, poll)
                case Stopped():
                    session.refuse_end_of_events(message)
                    source = source.after(message)

    def _report_look(self, session: Subscription, poll: Poll) -> None:
        """Raises DeviceError when the session ends."""
        self._report(poll)
        if session.is_end_station or time.monotonic() < self._neighbors_due_s:
            return
        self._neighbors_due_s = time.monotonic() + NEIGHBORS_INTERVAL_S
        if topology := session.topology_if_told():
            self._report(Neighbors(self._node.name, _now(), topology))


def _now() -> datetime:
    return datetime.now(UTC)
