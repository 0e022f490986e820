"""The SQLite file of the service, on SQLAlchemy: opened, created, its errors explained.

Every decision is on the disk when its transaction ends (WAL with synchronous=FULL,
sqlite.org/pragma.html). One process has the file: `cnc serve` holds a lock beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, event, insert, inspect, select
from sqlalchemy.exc import DBAPIError

from cnc.errors import CncError
from cnc.service.refused import CallRefused, Code
from cnc.service.store.schema import VERSION, meta, tables

_BUSY_TIMEOUT_MS = 10_000


class Database:
    """The open file, accessible to its owner alone. Raises CncError where it cannot be opened, is
    none of ours, or is of a newer `cnc`, which is refused by name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise CncError(
                f"{path}: cannot be opened: {error.strerror}",
                hint="make it writable, or name another directory with --state-dir",
            ) from error
        self._engine = create_engine(f"sqlite:///{path}")
        event.listen(self._engine, "connect", _prepare)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """From any thread. Raises CallRefused (UNAVAILABLE) with the reason of SQLite."""
        with self._explained(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction: on the disk when the block ends, undone if it raises. From one thread at
        a time. Raises as `reading`, as where the disk is full."""
        with self._explained(), self._engine.begin() as connection:
            yield connection

    def _open(self) -> None:
        try:
            with self._engine.begin() as connection:
                version = _version(connection)
                if version is None:
                    tables.create_all(connection)
                    connection.execute(insert(meta).values(key="version", value=str(VERSION)))
        except DBAPIError as error:
            raise CncError(
                f"{self._path}: cannot be read as a store of the service: {error.orig}",
                hint="move it away if it is damaged: the service then starts without the streams "
                "of CUCs, and a backup of it brings them back",
            ) from error
        if version is not None and version > VERSION:
            raise CncError(
                f"{self._path}: a newer cnc wrote this store (version {version}, this cnc knows "
                f"{VERSION})",
                hint="use that cnc, or put back the store from before the upgrade",
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise CallRefused(
                Code.UNAVAILABLE,
                f"the store of the service failed: {error.orig}",
                hint="is the disk full or failing? Nothing was accepted; try again later",
            ) from error


def _prepare(connection: Any, _record: object) -> None:
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        f"busy_timeout = {_BUSY_TIMEOUT_MS}",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _version(connection: Connection) -> int | None:
    """None of an empty file, and of one whose creation was interrupted."""
    if not inspect(connection).has_table(meta.name):
        return None
    found = connection.execute(select(meta.c.value).where(meta.c.key == "version")).scalar()
    return None if found is None else int(found)
