"""The notifications that can still be delivered, on disk: they outlive the server that logged them.

sysrepo can keep notifications for replay too, but its files grow until another daemon rotates
them, each notification waits for the disk, and with replay on for `ietf-netconf-notifications`
every commit lists each changed leaf while the client waits (five times slower at 6,000 leaves, and
refused after the fact where two such lists meet in a second).
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

LOG = logging.getLogger(__name__)

# Some thousand notifications of usual length.
MAX_OCTETS = 4 * 1024 * 1024
# Of the log, for notifications of sessions that begin and end.
SESSIONS_PART = 4

_SCHEMA = """
CREATE TABLE IF NOT EXISTS event (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    time_ns INTEGER NOT NULL,
    notification TEXT NOT NULL
)
"""
# A file of an earlier version has no such column, and that version writes without it.
_OF_SESSIONS = "ALTER TABLE event ADD COLUMN of_sessions INTEGER NOT NULL DEFAULT 0"


class Event(NamedTuple):
    """One logged notification. Numbers grow by one; `notification` is its element as XML."""

    number: int
    time_ns: int
    notification: str


@dataclass
class _Ring:
    """What displaces its own oldest notifications and no others."""

    of_sessions: bool
    max_octets: int
    octets: int
    # The number of the newest one that was displaced since the start.
    forgotten: int = 0


class EventLog:
    """Two rings of notifications in an SQLite file. Thread-safe; each call may raise sqlite3.Error.

    A user who may do nothing but open sessions causes two notifications with each of them. Those of
    sessions have a ring of their own, so that they displace no others.

    `first` and `last` are the numbers of the oldest and newest ones; an empty log's first is
    the next one's. Where the file cannot be used, notifications are kept in memory: the server runs
    without a replay log then.
    """

    def __init__(self, path: Path, max_octets: int = MAX_OCTETS) -> None:
        self._max_notification_octets = max_octets // 8
        self._lock = threading.Lock()
        self._database = _open_anyhow(path)
        sessions_octets = max_octets // SESSIONS_PART
        self._rings = [
            _Ring(
                of_sessions,
                ring_octets,
                self._number(
                    "SELECT total(length(notification)) FROM event WHERE of_sessions = ?",
                    of_sessions,
                ),
            )
            for of_sessions, ring_octets in (
                (False, max_octets - sessions_octets),
                (True, sessions_octets),
            )
        ]
        self.last = self._number("SELECT seq FROM sqlite_sequence")
        self.first = self._number("SELECT min(number) FROM event") or self.last + 1

    @property
    def forgotten(self) -> tuple[int, ...]:
        """Of each ring the number of the newest notification that it has displaced since the start.

        Between two of these numbers some are missing and some are not.
        """
        return tuple(ring.forgotten for ring in self._rings)

    def append(self, time_ns: int, notification: str, *, of_sessions: bool = False) -> None:
        """Log a notification, and delete the oldest ones of its ring if it does not fit.

        Raises ValueError for one that would displace too many others.
        """
        most = self._max_notification_octets
        if len(notification) > most:
            raise ValueError(f"{len(notification)} octets are more than {most}")
        ring = self._rings[of_sessions]
        with self._lock:
            octets, forgotten, first = ring.octets + len(notification), ring.forgotten, self.first
            with self._database:
                cursor = self._database.execute(
                    "INSERT INTO event (time_ns, notification, of_sessions) VALUES (?, ?, ?)",
                    (time_ns, notification, of_sessions),
                )
                last = int(cursor.lastrowid or 0)
                if octets > ring.max_octets:
                    octets, forgotten = self._forget(ring, octets)
                    first = self._number("SELECT min(number) FROM event") or last + 1
            # Now it is in the file: what cannot be logged must not count.
            ring.octets, ring.forgotten, self.first, self.last = octets, forgotten, first, last

    def after(self, number: int, limit: int) -> list[Event]:
        """The next notifications after this one, oldest first."""
        with self._lock:
            rows = self._database.execute(
                "SELECT number, time_ns, notification FROM event WHERE number > ? "
                "ORDER BY number LIMIT ?",
                (number, limit),
            ).fetchall()
        return [Event(*row) for row in rows]

    def start_ns(self) -> int | None:
        """The time of the oldest notification in the log."""
        with self._lock:
            return self._number("SELECT time_ns FROM event ORDER BY number LIMIT 1") or None

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _forget(self, ring: _Ring, octets: int) -> tuple[int, int]:
        """Delete the oldest ones; returns the octets that remain, and the newest one's number."""
        # More than needed, so that few notifications delete older ones.
        excess = octets - ring.max_octets + ring.max_octets // 8
        freed, newest = 0, 0
        for number, length in self._database.execute(
            "SELECT number, length(notification) FROM event WHERE of_sessions = ? ORDER BY number",
            (ring.of_sessions,),
        ):
            freed, newest = freed + length, number
            if freed >= excess:
                break
        self._database.execute(
            "DELETE FROM event WHERE number <= ? AND of_sessions = ?", (newest, ring.of_sessions)
        )
        return octets - freed, newest

    def _number(self, query: str, *values: object) -> int:
        row = self._database.execute(query, values).fetchone()
        return int(row[0] or 0) if row else 0


def _open_anyhow(path: Path) -> sqlite3.Connection:
    """An unusable log must not prevent the server from starting."""
    try:
        return _open(path)
    except sqlite3.OperationalError as error:
        # The fault of the disk, not of what is in the file.
        LOG.error("%s: %s; notifications are kept in memory until the server ends", path, error)
        return _open(None)
    except sqlite3.DatabaseError as error:
        LOG.error("%s: %s; starting a new log of notifications", path, error)
        for file in path.parent.glob(f"{path.name}*"):
            file.unlink()
        return _open(path)


def _open(path: Path | None) -> sqlite3.Connection:
    """The database at `path`; None: in memory."""
    database = sqlite3.connect(path or ":memory:", check_same_thread=False)
    # A power cut may take the last notifications, never the file's consistency.
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=NORMAL")
    database.execute(_SCHEMA)
    if "of_sessions" not in {name for _, name, *_ in database.execute("PRAGMA table_info(event)")}:
        database.execute(_OF_SESSIONS)
    database.commit()
    if path:
        path.chmod(0o600)
    return database


class Listener(Protocol):
    """A subscription that waits for new notifications. Called in the event loop."""

    def more(self) -> None:
        """The log has new notifications."""


class Stream:
    """The log and its listeners. Create it in a running event loop."""

    def __init__(self, log_: EventLog) -> None:
        self.log = log_
        self._loop = asyncio.get_running_loop()
        self._listeners: set[Listener] = set()
        self._started_ns = time.time_ns()

    def publish(
        self, notification: str, time_ns: int | None = None, *, of_sessions: bool = False
    ) -> None:
        """Log a notification's element and wake the listeners; from any thread but the loop's."""
        at_ns = time.time_ns() if time_ns is None else time_ns
        try:
            self.log.append(at_ns, notification, of_sessions=of_sessions)
        except (sqlite3.Error, ValueError) as error:
            LOG.error("a notification is lost, it cannot be logged: %s", error)
            return
        self._loop.call_soon_threadsafe(self._wake)

    def created_ns(self) -> int:
        """Replay starts at this time at the earliest (ns since 1970)."""
        return self.log.start_ns() or self._started_ns

    def add(self, listener: Listener) -> None:
        """Wake this listener from now on."""
        self._listeners.add(listener)

    def remove(self, listener: Listener) -> None:
        """Stop waking this listener."""
        self._listeners.discard(listener)

    def _wake(self) -> None:
        for listener in list(self._listeners):
            listener.more()
