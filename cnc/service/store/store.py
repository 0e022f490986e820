"""What has to outlive the process: streams of CUCs, the plan, tokens, the audit log, events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, delete, func, or_, select

from cnc.model import Plan
from cnc.service.calls import Role
from cnc.service.store import plan_rows
from cnc.service.store.database import Database, OutcomeUnknown
from cnc.service.store.decision import Decision, remember
from cnc.service.store.records import Asker, KeyedRequest, Quota, State, StreamRecord, TokenRecord
from cnc.service.store.schema import (
    answered,
    audit,
    event,
    meta,
    plan_row,
    quota,
    ssh_key,
    stream,
    token,
)
from cnc.support import gc_pause

FILE_NAME = "service.sqlite"
_EVENTS_MAX = 100_000
_AUDIT_KEPT = timedelta(days=400)


class Store:
    """The file of a service, or its database. Reads come from any thread, decisions from one at a
    time. Raises CncError where the file cannot be opened, CallRefused (UNAVAILABLE) where it fails
    later."""

    def __init__(self, where: Path | Database) -> None:
        self.database = Database(where) if isinstance(where, Path) else where
        self._unknown: OutcomeUnknown | None = None

    def close(self) -> None:
        self.database.close()

    @contextmanager
    def deciding(
        self, asker: Asker, call: str, subject: str, outcome: str = "done"
    ) -> Iterator[Decision]:
        """A decision: all of it is on the disk when the block ends, nothing if it raises, but where
        that is not known: then there is none after it."""
        with self._writing() as connection:
            yield Decision(connection, asker, call, subject, outcome)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        self.raise_if_unknown()
        try:
            with self.database.writing() as connection:
                yield connection
        except OutcomeUnknown as error:
            self._unknown = error
            raise

    def raise_if_unknown(self) -> None:
        """Raise CallRefused once it is not known whether a decision is on the disk: what is in
        memory may be behind it from then on, and only a start reads it again."""
        if self._unknown:
            raise self._unknown

    def forget_old(self) -> None:
        """Take out what nobody reads any more: at a start."""
        with self.database.writing() as connection:
            newest = connection.execute(select(func.max(event.c.number))).scalar() or 0
            connection.execute(delete(event).where(event.c.number <= newest - _EVENTS_MAX))
            before = (datetime.now(UTC) - _AUDIT_KEPT).isoformat()
            connection.execute(delete(audit).where(audit.c.time < before))

    # --- the plan ----------------------------------------------------------------------------

    def noted(self, key: str) -> str | None:
        """One of the values of `schema.meta`."""
        with self.database.reading() as connection:
            return connection.execute(select(meta.c.value).where(meta.c.key == key)).scalar()

    @gc_pause.paused()
    def plan(self) -> Plan | None:
        """The plan of the last decision; None before the first. Raises CncError where it cannot be
        read."""
        with self.database.reading() as connection:
            rest = connection.execute(select(meta.c.value).where(meta.c.key == "plan")).scalar()
            if rest is None:
                return None
            rows = connection.execute(select(plan_row)).all()
        return plan_rows.plan_of(
            rest, ((r.section, r.key, r.value) for r in rows), self.database.name
        )

    # --- streams of CUCs ---------------------------------------------------------------------

    def stream(self, cuc: str, stream_id: str) -> StreamRecord | None:
        """The stream, also while it is being removed."""
        where = stream.c.cuc == cuc, stream.c.stream_id == stream_id
        with self.database.reading() as connection:
            row = connection.execute(select(stream).where(*where)).one_or_none()
        return _stream(row) if row else None

    def streams(self, cuc: str | None = None) -> list[StreamRecord]:
        """The streams of a CUC, or of all, but for those that are being removed."""
        query = select(stream).where(stream.c.state != str(State.REMOVING))
        if cuc is not None:
            query = query.where(stream.c.cuc == cuc)
        with self.database.reading() as connection:
            rows = connection.execute(query.order_by(stream.c.cuc, stream.c.stream_id)).all()
        return [_stream(row) for row in rows]

    def count(self, cuc: str) -> int:
        """How many streams a CUC has."""
        where = stream.c.cuc == cuc, stream.c.state != str(State.REMOVING)
        with self.database.reading() as connection:
            return (
                connection.execute(select(func.count()).select_from(stream).where(*where)).scalar()
                or 0
            )

    def stream_named(self, name: str) -> StreamRecord | None:
        """The stream of a CUC by its name in the plan; None: it is of the intent file."""
        with self.database.reading() as connection:
            row = connection.execute(select(stream).where(stream.c.name == name)).one_or_none()
        return _stream(row) if row else None

    def waiting(self) -> int:
        """How many streams are on their way: their last decision runs on no switch yet."""
        where = stream.c.state != str(State.CONFIGURED), stream.c.placed
        query = select(func.count()).select_from(stream).where(*where)
        with self.database.reading() as connection:
            return connection.execute(query).scalar() or 0

    def cucs(self) -> list[str]:
        """The CUCs that have streams."""
        query = select(stream.c.cuc).where(stream.c.state != str(State.REMOVING)).distinct()
        with self.database.reading() as connection:
            return sorted(connection.execute(query).scalars())

    # --- who, and what was answered ----------------------------------------------------------

    def tokens(self) -> list[TokenRecord]:
        with self.database.reading() as connection:
            query = select(token, ssh_key.c.key).outerjoin(ssh_key, ssh_key.c.token == token.c.name)
            rows = connection.execute(query.order_by(token.c.name)).all()
        return [
            TokenRecord(
                row.name,
                Role(row.role),
                row.cuc,
                row.digest,
                datetime.fromisoformat(row.created),
                _instant(row.expires),
                _instant(row.revoked),
                row.former_digest,
                _instant(row.former_until),
                row.key,
            )
            for row in rows
        ]

    def quotas(self) -> dict[str, Quota]:
        """Those that were set, by CUC."""
        with self.database.reading() as connection:
            rows = connection.execute(select(quota)).all()
        return {row.cuc: Quota(row.streams, row.requests_per_minute) for row in rows}

    def answered(self, who: str, key: str) -> tuple[str, Any] | None:
        """The digest of the request with this key, and what was answered to it in the last day."""
        now = datetime.now(UTC).isoformat()
        query = select(answered.c.digest, answered.c.answer).where(
            answered.c.who == who, answered.c.key == key, answered.c.expires > now
        )
        with self.database.reading() as connection:
            row = connection.execute(query).one_or_none()
        return (row.digest, json.loads(row.answer)) if row else None

    def remember(self, its: KeyedRequest, answer: Mapping[str, Any]) -> None:
        """What is answered to a request by which nothing was decided, for who repeats it with the
        same key. Raises CallRefused, as `deciding`."""
        with self._writing() as connection:
            remember(connection, datetime.now(UTC), its, answer)

    # --- what has happened -------------------------------------------------------------------

    def events(self, after: int, *, cuc: str | None = None, limit: int) -> list[dict[str, Any]]:
        """Those with a higher number, the oldest first; of a CUC its own, and those about all."""
        query = select(event).where(event.c.number > after)
        if cuc is not None:
            query = query.where(or_(event.c.cuc == cuc, event.c.cuc.is_(None)))
        with self.database.reading() as connection:
            rows = connection.execute(query.order_by(event.c.number).limit(limit)).all()
        return [
            {
                "number": row.number,
                "time": row.time,
                "kind": row.kind,
                **({"cuc": row.cuc} if row.cuc is not None else {}),
                **json.loads(row.more),
            }
            for row in rows
        ]

    def newest_event(self) -> int:
        """The number of the newest event, 0 before the first."""
        with self.database.reading() as connection:
            return connection.execute(select(func.max(event.c.number))).scalar() or 0

    def newest_decision(self) -> int:
        """The number of the newest decision of any kind, 0 before the first."""
        with self.database.reading() as connection:
            return connection.execute(select(func.max(audit.c.number))).scalar() or 0

    def audit(self, after: int, *, limit: int) -> list[dict[str, Any]]:
        """Decisions with a higher number, the oldest first."""
        query = select(audit).where(audit.c.number > after).order_by(audit.c.number).limit(limit)
        with self.database.reading() as connection:
            return [dict(row._mapping) for row in connection.execute(query)]  # noqa: SLF001


def _stream(row: Row[Any]) -> StreamRecord:
    return StreamRecord(
        cuc=row.cuc,
        stream_id=row.stream_id,
        name=row.name,
        body=json.loads(row.body),
        state=State(row.state),
        placed=row.placed,
        decision=row.decision,
        reason=row.reason,
        failure_code=row.failure_code,
        rollout=row.rollout,
    )


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
