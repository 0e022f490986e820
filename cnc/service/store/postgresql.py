"""The PostgreSQL database that several controllers share: how a session is opened, and what holds
there that a file has by itself.

Parameters, environment and password file are those of libpq (postgresql.org, "Database Connection
Control Functions"), which psycopg uses.
"""

from __future__ import annotations

import os
import socket
import time

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Text,
    cast,
    create_engine,
    func,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, DBAPIError

from cnc.errors import CncError, InputError
from cnc.service.store.schema import meta

# A writer that stands still while all others wait for it is given up before they give up.
_IDLE_IN_TRANSACTION_S, _LOCK_S, _STATEMENT_S = 10, 15, 30
_LOCK_NOT_AVAILABLE = "55P03"  # SQLSTATE, as when `lock_timeout` is over
_CALLED = "cnc on "
_SETTINGS = (
    "-c synchronous_commit=on"
    f" -c idle_in_transaction_session_timeout={_IDLE_IN_TRANSACTION_S}s"
    f" -c lock_timeout={_LOCK_S}s -c statement_timeout={_STATEMENT_S}s"
)
# A server that has gone silently is noticed after about as long.
_PARAMETERS = {
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",  # ms
    "target_session_attrs": "read-write",
    "client_encoding": "utf8",
}
_POOL_WAIT_S = 10.0
_OUTCOME_KNOWN_S, _ASK_EVERY_S = 20.0, 0.2
_FSYNC = text("SHOW fsync")
_STATUS = text("SELECT pg_xact_status(CAST(:id AS xid8))")
# Those in which the server waits for more of the statements that psycopg sends at once, such as a
# list of rows: neither `idle_in_transaction_session_timeout` nor `statement_timeout` holds there.
_END_STANDING = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND usename = current_user"
    " AND starts_with(application_name, :called) AND backend_xid IS NOT NULL"
    " AND wait_event = 'ClientRead' AND state_change < clock_timestamp() - :for_s * interval '1 s'"
)
# The first of several controllers makes the tables; any number, of advisory locks.
_MAKING = 0x434E43


def url_of(given: str) -> URL:
    """The URL of a database, for `engine`. Raises InputError where it is none of PostgreSQL, or has
    a password in it."""
    try:
        url = make_url(given)
    except ArgumentError:
        url = None
    if url is None or url.drivername not in {"postgresql", "postgresql+psycopg"}:
        raise InputError(
            f"{given}: not the URL of a PostgreSQL database",
            hint="postgresql://USER@HOST/DATABASE",
        )
    if url.password is not None or url.query.keys() & {"password", "sslpassword"}:
        raise InputError(
            f"{url.set(query={})}: the URL has a password in it, which others can read",
            hint="put it into ~/.pgpass, or into the file that $PGPASSFILE names",
        )
    return url.set(drivername="postgresql+psycopg")


def engine(url: URL) -> Engine:
    """Sessions of this database. Raises CncError without psycopg or libpq."""
    own = {k: value for k, value in _PARAMETERS.items() if k not in url.query}
    options = url.query.get("options", "")
    parameters = {
        **own,
        "options": f"{options if isinstance(options, str) else ' '.join(options)} {_SETTINGS}",
        "application_name": f"{_CALLED}{socket.gethostname()}, process {os.getpid()}",
    }
    try:
        return create_engine(
            url, connect_args=parameters, pool_pre_ping=True, pool_timeout=_POOL_WAIT_S
        )
    except ImportError as error:
        raise CncError(
            f"PostgreSQL cannot be used: {error}",
            hint="pip install 'tsn-control-plane[service,postgresql]', and libpq from the packages "
            "of the system (Debian: libpq5)",
        ) from error


def alone_in_making(connection: Connection) -> None:
    """Until the transaction ends no other controller makes tables."""
    connection.execute(select(func.pg_advisory_xact_lock(_MAKING)))


def require_durable(connection: Connection) -> None:
    """Raise CncError where the server does not write to its disk what it says is written."""
    if connection.execute(_FSYNC).scalar() == "off":
        raise CncError(
            "the PostgreSQL server has fsync off: what is accepted would be lost when its machine "
            "is",
            hint="set it on in postgresql.conf, and have the server read that",
        )


def in_turn(connection: Connection) -> tuple[str, str]:
    """Wait until no other transaction writes, of whichever controller, so that numbers come in the
    order of commits: the version of the schema, and the id of this transaction."""
    version, own_id = connection.execute(
        select(meta.c.value, cast(func.pg_current_xact_id(), Text))
        .where(meta.c.key == "version")
        .with_for_update()
    ).one()
    return version, own_id


def end_standing(engine: Engine, refused: DBAPIError) -> None:
    """Where a writer gave up waiting for its turn, end the sessions of controllers that have stood
    still in a transaction for so long that the server would have ended them between two
    statements."""
    if getattr(refused.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
        return
    with engine.connect() as connection:
        connection.execute(_END_STANDING, {"called": _CALLED, "for_s": _IDLE_IN_TRANSACTION_S})


def has_committed(engine: Engine, transaction_id: str) -> bool | None:
    """Whether a transaction whose session was lost at its end is on the disk; None where that is
    not known in time. Waits for the database."""
    until_s = time.monotonic() + _OUTCOME_KNOWN_S
    while time.monotonic() < until_s:
        try:
            with engine.connect() as connection:
                status = connection.execute(_STATUS, {"id": transaction_id}).scalar()
        except DBAPIError:
            status = None
        if status in {"committed", "aborted"}:
            return bool(status == "committed")
        time.sleep(_ASK_EVERY_S)
    return None
