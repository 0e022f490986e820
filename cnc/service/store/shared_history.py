"""The rollouts in the database that several controllers share, as `cnc.rollout.history.Place`.

A rollout's controller holds a session's advisory lock, which the server releases when the session
ends. That of a controller which stands still does not end by itself: a new leader ends it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    Connection,
    Integer,
    bindparam,
    cast,
    column,
    func,
    literal,
    select,
    table,
    text,
)
from sqlalchemy.dialects import postgresql

from cnc.rollout.history import in_progress
from cnc.service.refused import CallRefused
from cnc.service.store.database import Database

_END_MS = 5000
# The first number of a lock is that of the table, so that two networks in schemas of one database
# do not share locks.
_CLASS = cast(cast(literal("rollout"), postgresql.REGCLASS), postgresql.OID)
_LOCK = select(func.pg_try_advisory_lock(cast(_CLASS, Integer), bindparam("number")))
_NOW = select(func.clock_timestamp())
_UNLOCK = select(func.pg_advisory_unlock_all())
_locks = table("pg_locks", *map(column, ("pid", "locktype", "classid", "objid", "granted")))
_sessions = table("pg_stat_activity", *map(column, ("pid", "datname", "application_name")))
_HELD = (
    select(_sessions.c.pid, _sessions.c.application_name, _locks.c.objid)
    .join_from(_locks, _sessions, _locks.c.pid == _sessions.c.pid)
    .where(_locks.c.locktype == "advisory", _locks.c.classid == _CLASS, _locks.c.granted)
    .where(_sessions.c.datname == func.current_database())
    .subquery()
)
_HOLDER = select(_HELD.c.application_name).where(_HELD.c.objid == bindparam("number"))
_END_HOLDERS = select(func.pg_terminate_backend(_HELD.c.pid, _END_MS))


class Statements:
    """The statements of one transaction, as `place.Rows`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, /, **values: object) -> Sequence[Mapping[str, Any]]:
        found = self._connection.execute(text(statement), values).mappings()
        return [dict(row) for row in found]

    def changed(self, statement: str, /, **values: object) -> int:
        return self._connection.execute(text(statement), values).rowcount

    def clock_ahead(self) -> timedelta:
        """The server's, for the machines of several controllers have other ones."""
        now: datetime = self._connection.execute(_NOW).scalar_one()
        return now - datetime.now(UTC)


class SessionLock:
    """An advisory lock, held by a session of its own, as `place.Held`."""

    def __init__(self, database: Database, number: int) -> None:
        with ExitStack() as stack:
            self._connection = stack.enter_context(database.apart())
            if not self._connection.execute(_LOCK, {"number": number}).scalar():
                raise in_progress(number, holder(self._connection, number) or "another one")
            stack.callback(self._unlock)
            self._held = stack.pop_all()

    def release(self) -> None:
        with suppress(CallRefused):  # a session that is lost holds nothing
            self._held.close()

    remove = release

    def _unlock(self) -> None:
        self._connection.execute(_UNLOCK)


class SharedHistory:
    """Of a database that is open until `close`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def name(self) -> str:
        return self._database.name

    @contextmanager
    def reading(self) -> Iterator[Statements]:
        with self._database.reading() as connection:
            yield Statements(connection)

    @contextmanager
    def writing(self) -> Iterator[Statements]:
        with self._database.writing() as connection:
            yield Statements(connection)

    def lock(self, number: int) -> SessionLock:
        return SessionLock(self._database, number)

    def is_held(self, number: int) -> bool:
        with self._database.apart() as connection:
            return holder(connection, number) is not None

    def end_others(self) -> None:
        """End the sessions of controllers whose rollouts are in progress: of a new leader, whose
        term makes theirs worth nothing."""
        with self._database.apart() as connection:
            connection.execute(_END_HOLDERS)

    def close(self) -> None:
        self._database.close()


def holder(connection: Connection, number: int) -> str | None:
    """The controller that holds the lock of a rollout, as it calls itself."""
    found: str | None = connection.execute(_HOLDER, {"number": number}).scalar()
    return found
