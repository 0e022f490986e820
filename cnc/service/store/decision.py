"""What one decision writes, in its one transaction."""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update

from cnc.model import Plan
from cnc.service.store import plan_rows
from cnc.service.store.database import upsert
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

ANSWERS_KEPT = timedelta(hours=24)


class Decision:
    """A decision as it is written; `number` is that of its row in the audit log, by which streams
    know the last one about them."""

    def __init__(
        self, connection: Connection, asker: Asker, call: str, subject: str, outcome: str = "done"
    ) -> None:
        self._connection = connection
        self.at = datetime.now(UTC)
        self.number: int = connection.execute(
            insert(audit)
            .values(
                time=self.at.isoformat(),
                who=asker.name,
                role=str(asker.role),
                source=asker.source,
                call=call,
                subject=subject,
                outcome=outcome,
            )
            .returning(audit.c.number)
        ).scalar_one()

    # --- the plan ----------------------------------------------------------------------------

    def take_plan(
        self, before: Plan | None, after: Plan, touched: Collection[Hashable] | None = None
    ) -> None:
        """The plan is another one: what differs from the one before, in these streams and ports."""
        rows = [*plan_rows.changed(before, after, touched)]
        if rows and before:
            its = plan_row.c.section == bindparam("of"), plan_row.c.key == bindparam("name")
            keys = [{"of": section, "name": name} for (section, name), _ in rows]
            self._connection.execute(delete(plan_row).where(*its), keys)
        values = [
            {"section": section, "key": name, "value": value}
            for (section, name), value in rows
            if value is not None
        ]
        if values:
            self._connection.execute(insert(plan_row), values)
        self.note("decided", str(self.number))

    def replace_plan(self, plan: Plan) -> None:
        """The plan is another one altogether."""
        self._connection.execute(delete(plan_row))
        self.take_plan(None, plan)
        self.note("plan", plan_rows.rest(plan))

    def note(self, key: str, value: str) -> None:
        """One of the values of `schema.meta`."""
        self._connection.execute(
            upsert(self._connection, meta)
            .values(key=key, value=value)
            .on_conflict_do_update(index_elements=["key"], set_={"value": value})
        )

    # --- streams of CUCs ---------------------------------------------------------------------

    def put_stream(self, its: StreamRecord) -> None:
        """One that is new, or in the place of what was there."""
        values = {
            "name": its.name,
            "body": json.dumps(its.body, ensure_ascii=False),
            "state": str(its.state),
            "placed": its.placed,
            "reason": its.reason,
            "failure_code": its.failure_code,
            "decision": its.decision,
            "rollout": its.rollout,
        }
        self._connection.execute(
            upsert(self._connection, stream)
            .values(cuc=its.cuc, stream_id=its.stream_id, **values)
            .on_conflict_do_update(index_elements=["cuc", "stream_id"], set_=values)
        )

    def forget_stream(self, its: StreamRecord) -> None:
        """One that no switch ever had."""
        self._connection.execute(delete(stream).where(stream.c.name == its.name))

    def configured(self, upto: int, rollout: int | None) -> list[tuple[str, str, bool]]:
        """Switches run what was decided up to the decision `upto`: cuc, stream-id and whether it is
        gone, of each stream of which that is news."""
        is_news = stream.c.decision <= upto, stream.c.state != str(State.CONFIGURED)
        is_gone = stream.c.state == str(State.REMOVING)
        news = self._connection.execute(
            select(stream).where(*is_news, or_(is_gone, stream.c.placed))
        ).all()
        self._connection.execute(delete(stream).where(*is_news, is_gone))
        self._connection.execute(
            update(stream)
            .where(*is_news, stream.c.placed)
            .values(state=str(State.CONFIGURED), reason=None, rollout=rollout)
        )
        self._connection.execute(
            update(audit)
            .where(audit.c.number <= upto, audit.c.rollout.is_(None), audit.c.outcome == "placed")
            .values(rollout=rollout)
        )
        self.note("running", str(upto))
        return [(row.cuc, row.stream_id, row.state == State.REMOVING) for row in news]

    def not_configured(self, reason: str) -> None:
        """Switches do not run what was decided, and why."""
        self._connection.execute(
            update(stream)
            .where(stream.c.placed, stream.c.state != str(State.CONFIGURED))
            .values(reason=reason)
        )

    # --- who, and what was answered ----------------------------------------------------------

    def put_token(self, its: TokenRecord) -> None:
        values = {
            "role": str(its.role),
            "cuc": its.cuc,
            "digest": its.digest,
            "created": its.created.isoformat(),
            "expires": _text(its.expires),
            "revoked": _text(its.revoked),
            "former_digest": its.former_digest,
            "former_until": _text(its.former_until),
        }
        self._connection.execute(
            upsert(self._connection, token)
            .values(name=its.name, **values)
            .on_conflict_do_update(index_elements=["name"], set_=values)
        )
        self._connection.execute(delete(ssh_key).where(ssh_key.c.token == its.name))
        if its.ssh_key is not None:
            self._connection.execute(insert(ssh_key).values(token=its.name, key=its.ssh_key))

    def put_quota(self, cuc: str, its: Quota) -> None:
        values = {"streams": its.streams, "requests_per_minute": its.requests_per_minute}
        self._connection.execute(
            upsert(self._connection, quota)
            .values(cuc=cuc, **values)
            .on_conflict_do_update(index_elements=["cuc"], set_=values)
        )

    def tell(self, kind: str, cuc: str | None = None, **more: Any) -> None:
        """An event, which those who follow get when the decision is on the disk."""
        self._connection.execute(
            insert(event).values(
                time=self.at.isoformat(), kind=kind, cuc=cuc, more=json.dumps(more)
            )
        )

    def remember(self, its: KeyedRequest, answer: Mapping[str, Any]) -> None:
        """What is answered to this request, for who repeats it with the same key."""
        remember(self._connection, self.at, its, answer)


def remember(
    connection: Connection, now: datetime, its: KeyedRequest, answer: Mapping[str, Any]
) -> None:
    """As `Decision.remember`, in any transaction."""
    connection.execute(delete(answered).where(answered.c.expires <= now.isoformat()))
    connection.execute(
        insert(answered).values(
            who=its.who,
            key=its.key,
            digest=its.digest,
            answer=json.dumps(answer),
            expires=(now + ANSWERS_KEPT).isoformat(),
        )
    )


def _text(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
