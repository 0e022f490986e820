"""The event stream NETCONF: everything that is logged, and who waits for more of it.

A subscription keeps no queue: it is a position in the log. However slow its client is, it costs
nothing but its place, and it never makes anybody wait; when the log forgets what it has not
delivered yet, its session is ended.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from typing import Protocol

from agent.netconfd.events.log import EventLog

log = logging.getLogger(__name__)

NETCONF = "NETCONF"


class Listener(Protocol):
    """Somebody to wake up when there is more to deliver. Called in the event loop."""

    def more(self) -> None:
        """There are new notifications in the log."""


class Stream:
    """The log with its listeners. Made in a running event loop."""

    def __init__(self, log_: EventLog) -> None:
        self.log = log_
        self._loop = asyncio.get_running_loop()
        self._listeners: set[Listener] = set()
        self._started_ns = time.time_ns()

    def publish(self, notification: str, time_ns: int | None = None) -> None:
        """Log a notification's element and tell the listeners. From any thread but the loop's."""
        try:
            self.log.append(time.time_ns() if time_ns is None else time_ns, notification)
        except (sqlite3.Error, ValueError) as error:
            log.error("a notification is lost, it cannot be logged: %s", error)
            return
        self._loop.call_soon_threadsafe(self._wake)

    def created_ns(self) -> int:
        """No notification from before this time can be replayed."""
        return self.log.start_ns() or self._started_ns

    def add(self, listener: Listener) -> None:
        """Wake this one from now on."""
        self._listeners.add(listener)

    def remove(self, listener: Listener) -> None:
        """Wake it no more."""
        self._listeners.discard(listener)

    def _wake(self) -> None:
        for listener in list(self._listeners):
            listener.more()
