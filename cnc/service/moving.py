"""The way of a service from its files to a database: its store, and its rollouts."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, func, insert, select, text

from cnc.errors import InputError
from cnc.rollout.history import database as history
from cnc.rollout.history.place import Rows
from cnc.service.lease.member import NOBODY, Lease
from cnc.service.lease.table import take
from cnc.service.store.database import Database
from cnc.service.store.schema import TERM, audit, event, lease, meta, tables

_ROWS = 500
_COUNTS = [text(f"SELECT count(*) FROM {name}") for name in (audit.name, lease.name, "rollout")]  # noqa: S608  our tables
_NUMBERED = (audit.name, event.name, "rollout")
_OF_ROLLOUT = {
    "rollout": "SELECT * FROM rollout WHERE number = :number",
    "switch_change": "SELECT * FROM switch_change WHERE rollout = :number",
}


def move(store: Path, rollouts: Path, database: Database) -> None:
    """Put what both files have into the database, whose state it is from then on. They stay as
    they are. Raises InputError where the database has a state already, CncError as both do."""
    with (
        closing(Database(store)) as files,
        closing(history.Database(rollouts)) as of_rollouts,
        files.reading() as found,
        of_rollouts.reading() as recorded,
        database.writing() as connection,
    ):
        _require_empty(connection, database.name)
        _copy_store(found, connection)
        _copy_rollouts(recorded, connection)
        for name in _NUMBERED:
            _go_on_counting(connection, name)


def _require_empty(connection: Connection, name: str) -> None:
    if any(connection.execute(each).scalar() for each in _COUNTS):
        raise InputError(
            f"{name}: a controller has its state there already",
            hint="make an empty database, or start without --move-state in another --state-dir",
        )


def _copy_store(found: Connection, connection: Connection) -> None:
    for table in tables.sorted_tables:
        query = select(table)
        if table is meta:
            query = query.where(meta.c.key != "version")  # which each has
        for rows in found.execute(query).mappings().partitions(_ROWS):
            connection.execute(insert(table), [dict(row) for row in rows])
    noted = {row.key: row.value for row in found.execute(select(meta))}
    if TERM in noted:  # the next leader's is above it
        led = Lease(NOBODY, int(noted[TERM]), 0, 0, "", "")
        take(connection, noted["network"], led, None)


def _copy_rollouts(recorded: Rows, connection: Connection) -> None:
    """One by one: the plan of each may be long."""
    for number in recorded.rows("SELECT number FROM rollout ORDER BY number"):
        for name, query in _OF_ROLLOUT.items():
            for row in recorded.rows(query, **number):
                columns, values = ", ".join(row), ", ".join(f":{each}" for each in row)
                put = f"INSERT INTO {name} ({columns}) OVERRIDING SYSTEM VALUE VALUES ({values})"  # noqa: S608  names of our tables
                connection.execute(text(put), dict(row))


def _go_on_counting(connection: Connection, name: str) -> None:
    """The next number of a table is above all that it has."""
    newest = connection.execute(text(f"SELECT max(number) FROM {name}")).scalar()  # noqa: S608
    if newest is not None:
        connection.execute(select(func.setval(func.pg_get_serial_sequence(name, "number"), newest)))
