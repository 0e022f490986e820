"""A confirmed commit (RFC 6241 section 8.4) from the request to its end, and who may end it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from agent.netconfd.errors import RpcError
from agent.netconfd.session import Session

# The standard's default for <confirm-timeout>.
DEFAULT_TIMEOUT_S = 600


@dataclass(frozen=True)
class Confirmation:
    """The parameters of a <commit> that has <confirmed/>."""

    timeout_s: int = DEFAULT_TIMEOUT_S
    persist: str | None = None


@dataclass(eq=False)
class PendingCommit:
    """A confirmed commit not confirmed yet, and what was running `before` it.

    Without `persist` it dies with `owner`. `obstacle`: it is to be undone, and why it is not yet.
    """

    owner: Session
    persist: str | None
    before: str
    timer: asyncio.TimerHandle | None = None
    obstacle: str | None = None


def check_permitted(
    pending: PendingCommit | None, session: Session, persist_id: str | None
) -> None:
    """Raise RpcError unless the session may commit, or end what is pending, with this id."""
    if pending is not None and pending.obstacle is not None:
        raise RpcError(
            "in-use",
            f"a confirmed commit must be undone first, which is tried again and again, but: "
            f"{pending.obstacle}",
            "protocol",
        )
    expected = pending.persist if pending else None
    if persist_id is not None and persist_id != expected:
        raise RpcError(
            "invalid-value",
            f"no pending confirmed commit has the persist-id {persist_id!r}",
            "protocol",
            info={"bad-element": "persist-id"},
        )
    if pending is None:
        return
    if expected is not None and persist_id is None:
        raise RpcError(
            "in-use", "a confirmed commit with a persist-id is pending; give it", "protocol"
        )
    if expected is None and pending.owner is not session:
        raise RpcError("in-use", f"a confirmed commit of {pending.owner} is pending", "protocol")
