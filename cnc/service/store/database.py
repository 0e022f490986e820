"""The database of the service, on SQLAlchemy: opened, created, its errors explained.

A file of SQLite (WAL with synchronous=FULL, sqlite.org/pragma.html), which one process has: `cnc
serve` holds a lock beside it. Or a database of PostgreSQL (synchronous_commit=on) that several
controllers share. Every decision is on the disk when its transaction ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, insert, inspect, select
from sqlalchemy.dialects import postgresql as of_postgresql
from sqlalchemy.dialects import sqlite as of_sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from cnc.errors import CncError
from cnc.rollout.history import schema as history
from cnc.service.refused import CallRefused, Code
from cnc.service.store import postgresql
from cnc.service.store.schema import VERSION, meta, ssh_key, tables

Fence = Callable[[Connection], None]

_BUSY_TIMEOUT_MS = 10_000


class OutcomeUnknown(CallRefused):
    """The database was lost at the end of a transaction, and for too long to know of it."""

    def __init__(self) -> None:
        super().__init__(
            Code.UNAVAILABLE,
            "the database was lost while a decision was written: whether it is there is not known",
            hint="start the service again; then ask what is there, or repeat the request with the "
            "same Idempotency-Key",
        )


class Database:
    """Open, its file accessible to its owner alone. `fence` is called first in each transaction
    that writes, and may refuse it.

    Raises CncError where it cannot be opened, is none of ours, or is of a newer `cnc`, which is
    refused by name.
    """

    def __init__(self, where: Path | URL, fence: Fence | None = None) -> None:
        self.name = str(where if isinstance(where, Path) else where.set(drivername="postgresql"))
        self._fence, self.is_shared = fence, isinstance(where, URL)
        self._engine = _file(where) if isinstance(where, Path) else postgresql.engine(where)
        self._snapshots = (
            self._engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
            if self.is_shared
            else self._engine
        )
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """From any thread. Raises CallRefused (UNAVAILABLE) with the reason of the database."""
        with self._explained(), self._snapshots.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction: on the disk when the block ends, undone if it raises. From one thread at
        a time with a file. Raises as `reading`, as where the disk is full, what the fence raises,
        and OutcomeUnknown."""
        own_id, is_written = "", False
        with self._explained():
            try:
                with self._engine.begin() as connection:
                    if self.is_shared:
                        version, own_id = postgresql.in_turn(connection)
                        self._refuse_newer(int(version), VERSION)
                    if self._fence:
                        self._fence(connection)
                    yield connection
                    is_written = True
            except DBAPIError as error:
                if self.is_shared:
                    postgresql.end_standing(self._engine, error)
                is_lost = is_written and own_id and error.connection_invalidated
                if not is_lost or not self._has_committed(own_id):
                    raise

    @contextmanager
    def apart(self) -> Iterator[Connection]:
        """A session of its own, each statement of which is a transaction. Raises as `reading`."""
        with self._explained(), self._engine.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")

    def _has_committed(self, transaction_id: str) -> bool:
        """Whether what was to be written is there, although nobody said so."""
        found = postgresql.has_committed(self._engine, transaction_id)
        if found is None:
            raise OutcomeUnknown
        return found

    def _open(self) -> None:
        try:
            with self._engine.begin() as connection:
                if self.is_shared:
                    postgresql.require_durable(connection)
                    postgresql.alone_in_making(connection)
                found = _versions(connection)
                if not found:
                    _make(connection, with_history=self.is_shared)
                elif found.get("version") == VERSION:
                    ssh_key.create(connection, checkfirst=True)  # it has come since
        except DBAPIError as error:
            raise self._not_opened(error) from error
        self._refuse_newer(found.get("version", VERSION), VERSION)
        self._refuse_newer(found.get(_HISTORY, history.VERSION), history.VERSION)

    def _not_opened(self, error: DBAPIError) -> CncError:
        if self.is_shared:
            return CncError(
                f"{self.name}: cannot be opened: {_reason(error)}",
                hint="is PostgreSQL running there, and may the user make tables in that database?",
            )
        return CncError(
            f"{self.name}: cannot be read as a store of the service: {error.orig}",
            hint="move it away if it is damaged: the service then starts without the streams "
            "of CUCs, and a backup of it brings them back",
        )

    def _refuse_newer(self, found: int, known: int) -> None:
        if found > known:
            raise CallRefused(
                Code.UNAVAILABLE,
                f"{self.name}: a newer cnc wrote this store (version {found}, this cnc knows "
                f"{known})",
                hint="use that cnc, or restore the store from before the upgrade",
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (DBAPIError, PoolTimeout) as error:
            if not self.is_shared:
                raise CallRefused(
                    Code.UNAVAILABLE,
                    f"the store of the service failed: {_reason(error)}",
                    hint="is the disk full or failing? Nothing was accepted; try again later",
                ) from error
            raise CallRefused(
                Code.UNAVAILABLE,
                f"the database of the service failed: {_reason(error)}",
                hint="is PostgreSQL running and reachable? Nothing was accepted; try again later",
            ) from error


_HISTORY = "history-version"


def upsert(connection: Connection, table: Table) -> Any:
    """An INSERT into a table that may have the row already: both databases' own, which are
    alike."""
    of = of_postgresql if connection.dialect.name == "postgresql" else of_sqlite
    return of.insert(table)


def _file(path: Path) -> Engine:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise CncError(
            f"{path}: cannot be opened: {error.strerror}",
            hint="make it writable, or name another directory with --state-dir",
        ) from error
    engine = create_engine(f"sqlite:///{path}")
    event.listen(engine, "connect", _prepare)
    return engine


def _prepare(connection: Any, _record: object) -> None:
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        f"busy_timeout = {_BUSY_TIMEOUT_MS}",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _versions(connection: Connection) -> dict[str, int]:
    """None of an empty database, nor of one whose creation was interrupted."""
    if not inspect(connection).has_table(meta.name):
        return {}
    asked = select(meta).where(meta.c.key.in_(["version", _HISTORY]))
    return {row.key: int(row.value) for row in connection.execute(asked)}


def _make(connection: Connection, *, with_history: bool) -> None:
    """The tables; in a shared database those of the rollouts, too, which have a file else."""
    tables.create_all(connection)
    versions = {"version": VERSION}
    if with_history:
        for statement in history.POSTGRESQL:
            connection.exec_driver_sql(statement)
        versions[_HISTORY] = history.VERSION
    for key, value in versions.items():
        connection.execute(insert(meta).values(key=key, value=str(value)))


def _reason(error: DBAPIError | PoolTimeout) -> str:
    """The reason of the database, in one line."""
    text = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    return " ".join(text.split())
