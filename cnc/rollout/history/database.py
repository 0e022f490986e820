"""The SQLite file of the history: opened, upgraded and locked; its errors as CncError.

Every write is on the disk when it returns (WAL with synchronous=FULL, sqlite.org/pragma.html).
Several processes and threads may use the file at once.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Any

from cnc.errors import CncError, RolloutError
from cnc.rollout.history.lock import ControllerLock, holder, is_held
from cnc.rollout.history.schema import SQLITE, VERSION

_BUSY_TIMEOUT_S = 10.0
_ELSEWHERE = "or keep the history in another directory with --state-dir"
_HINTS = {
    sqlite3.SQLITE_FULL: f"free some space, {_ELSEWHERE}",
    sqlite3.SQLITE_IOERR: f"is the disk full or failing? Free some space, {_ELSEWHERE}",
    sqlite3.SQLITE_READONLY: f"make the file and its directory writable, {_ELSEWHERE}",
    sqlite3.SQLITE_CANTOPEN: f"make the file and its directory writable, {_ELSEWHERE}",
    sqlite3.SQLITE_BUSY: f"another process has kept it locked for {_BUSY_TIMEOUT_S:g} s",
}
DAMAGED_HINT = (
    "move the file and its -wal and -shm files away; the next command creates a new history; "
    "`sqlite3 FILE .recover` can save much of the old one, and `cnc status` shows what runs now"
)


class Statements:
    """The statements of one transaction, as `place.Rows`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, /, **values: object) -> Sequence[Mapping[str, Any]]:
        return [dict(row) for row in self._connection.execute(statement, values)]

    def changed(self, statement: str, /, **values: object) -> int:
        return self._connection.execute(statement, values).rowcount

    def clock_ahead(self) -> timedelta:
        return timedelta()


class Database:
    """An open history file, as `place.Place`.

    Directory and file are accessible to their owner alone (0700, 0600). Raises CncError
    with the reason if the file cannot be opened or written, is damaged, or is of a newer `cnc`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        try:
            with self._explained():
                if not path.exists():
                    _create(path)
                self._connection = sqlite3.connect(
                    path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
                )
        except OSError as error:
            raise CncError(
                f"{path}: cannot create the history: {error.strerror}",
                hint=_HINTS[sqlite3.SQLITE_CANTOPEN],
            ) from error
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @property
    def name(self) -> str:
        return str(self._path)

    @contextmanager
    def reading(self) -> Iterator[Statements]:
        with self._transaction("BEGIN") as connection:
            yield Statements(connection)

    @contextmanager
    def writing(self) -> Iterator[Statements]:
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield Statements(connection)

    def lock(self, number: int) -> ControllerLock:
        path = self._lock_path(number)
        try:
            return ControllerLock(path)
        except BlockingIOError as error:
            raise in_progress(number, f"process {holder(path)}") from error
        except OSError as error:
            raise CncError(
                f"{path}: cannot acquire the lock of a rollout: {error.strerror}",
                hint="make the directory writable, or choose another one with --state-dir",
            ) from error

    def is_held(self, number: int) -> bool:
        return is_held(self._lock_path(number))

    def end_others(self) -> None:
        """Nobody: a file has one service."""

    def _lock_path(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}-rollout-{number}.lock")

    def _prepare(self) -> None:
        with self._explained():
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA foreign_keys = ON")
        self._connection.row_factory = sqlite3.Row
        if version > VERSION:
            raise CncError(
                f"{self._path}: a newer cnc wrote this history (version {version}, this cnc knows "
                f"{VERSION})",
                hint=f"use that cnc, {_ELSEWHERE}",
            )
        if version < VERSION:
            raise CncError(f"{self._path}: not a rollout history", hint=DAMAGED_HINT)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock, self._explained():
            self._connection.execute(begin)
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raises SQLite's errors as CncError: the file, SQLite's own reason, what to do."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            damaged = code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
            raise CncError(
                f"{self._path}: the history {'is damaged' if damaged else 'failed'}: {error}",
                hint=DAMAGED_HINT if damaged else _HINTS.get(code),
            ) from error


def in_progress(number: int, controller: str) -> RolloutError:
    """Why a rollout cannot be ended by another controller than the one that runs it."""
    return RolloutError(
        f"rollout {number} is in progress: its controller, {controller}, runs",
        hint="wait until it has ended, or stop that process and try again",
    )


def _create(path: Path) -> None:
    """Create an empty history atomically: another process may be creating it, too."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        with closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            for statement in (*SQLITE, f"PRAGMA user_version = {VERSION}"):
                connection.execute(statement)
        with suppress(FileExistsError):
            path.hardlink_to(temporary)
    finally:
        temporary.unlink()
