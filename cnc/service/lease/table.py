"""The lease of a network as a row, and the statements on it.

Each is made in a transaction of the store's `writing`, of which there is one at a time in the whole
database: whoever takes the lease waits for a decision that is under way, and whoever decides after
that finds the new term.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from cnc.service.lease.member import NOBODY, Lease
from cnc.service.store.schema import lease as row


def read(connection: Connection, network: str) -> Lease | None:
    """The row; None before anybody has led."""
    found = connection.execute(select(row).where(row.c.network == network)).one_or_none()
    return _lease(found) if found else None


def take(
    connection: Connection, network: str, wanted: Lease, seen: Lease | None
) -> tuple[Lease | None, bool]:
    """Put `wanted` in the place of the row if that is as it was `seen`; the row then, and whether
    it is the wanted one."""
    now = read(connection, network)
    if now != seen:
        return now, False
    values = {
        "holder": wanted.holder,
        "term": wanted.term,
        "counter": wanted.counter,
        "length_ns": wanted.length_ns,
        "url": wanted.url,
        "certificate": wanted.certificate,
    }
    if now is None:
        connection.execute(insert(row).values(network=network, **values))
    else:
        connection.execute(update(row).where(row.c.network == network).values(**values))
    return wanted, True


def renew(
    connection: Connection, network: str, holder: str, term: int
) -> tuple[Lease | None, bool]:
    """Renew the lease if it is still of this holder and term; the row then, and whether it is."""
    counted = {"counter": row.c.counter + 1}
    changed = _change(connection, network, holder, term, counted)
    return (changed, True) if changed else (read(connection, network), False)


def give_back(connection: Connection, network: str, holder: str, term: int) -> None:
    """Let others take the lease at once, if it is still of this holder and term."""
    counted = {"counter": row.c.counter + 1}
    _change(connection, network, holder, term, {**counted, "holder": NOBODY})


def _change(
    connection: Connection, network: str, holder: str, term: int, values: dict[str, Any]
) -> Lease | None:
    its = row.c.network == network, row.c.holder == holder, row.c.term == term
    statement = update(row).where(*its).values(**values).returning(row)
    changed = connection.execute(statement).one_or_none()
    return _lease(changed) if changed else None


def _lease(found: Row[Any]) -> Lease:
    return Lease(
        found.holder, found.term, found.counter, found.length_ns, found.url, found.certificate
    )
