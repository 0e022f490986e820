"""Commit and confirmed commit (RFC 6241 sections 8.3.4 and 8.4) and the way back.

Before a confirmed commit changes anything, the running configuration is on disk. It stays there
until the commit is confirmed or undone, so a server that dies inside the window undoes it at its
next start.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from agent.netconfd.errors import RpcError, RpcErrors
from agent.netconfd.events import ConfirmEvent, Events
from agent.netconfd.session import Session, Sessions
from agent.netconfd.snapshot import Snapshot

log = logging.getLogger(__name__)

# The standard's default for <confirm-timeout>.
DEFAULT_TIMEOUT_S = 600
# A foreign lock or an agent that is just starting goes away; the way back must not be lost.
RETRY_S = 2.0


@dataclass(frozen=True)
class Confirmation:
    """The parameters of a <commit> that has <confirmed/>."""

    timeout_s: int = DEFAULT_TIMEOUT_S
    persist: str | None = None


@dataclass(eq=False)
class _Pending:
    """A confirmed commit not confirmed yet. Without `persist` it dies with `owner`."""

    owner: Session
    persist: str | None
    timer: asyncio.TimerHandle | None = None
    expired: bool = False


class Commits:
    """Serialises commits and undoes those that are not confirmed in time."""

    def __init__(
        self, snapshot: Snapshot, sessions: Sessions, own: Session, events: Events
    ) -> None:
        self._events = events
        self._snapshot = snapshot
        self._sessions = sessions
        # Undoes what no session is there to undo.
        self._own = own
        self._pending: _Pending | None = None
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pending_owner(self) -> Session | None:
        """The session whose confirmed commit is pending."""
        return self._pending.owner if self._pending else None

    async def recover(self) -> None:
        """Undo what an earlier server left unconfirmed. Raises RpcErrors if that is refused."""
        if await self._own.call(self._snapshot.read) is not None:
            await self._restore("the server ended before it was confirmed", self._own)

    async def commit(
        self, session: Session, confirmation: Confirmation | None, persist_id: str | None
    ) -> None:
        """Make candidate running. Raises RpcError or RpcErrors; then running is as it was."""
        async with self._lock:
            self._check_permitted(session, persist_id)
            self._check_unlocked(session)
            is_first = confirmation is not None and self._pending is None
            if is_first:
                await session.call(self._keep_running, session)
            try:
                await session.call(session.datastores.copy, "candidate", "running")
            except RpcErrors:
                if is_first:
                    await session.call(self._snapshot.remove)
                raise
            if confirmation is None:
                await self._confirm(session)
            else:
                self._await_confirmation(session, confirmation)

    async def cancel(self, session: Session, persist_id: str | None) -> None:
        """Undo the pending confirmed commit now."""
        async with self._lock:
            if self._pending is None:
                raise RpcError("operation-failed", "no confirmed commit is pending", "protocol")
            self._check_permitted(session, persist_id)
            await self._restore(f"cancelled by {session}", session)

    async def release(self, session: Session) -> None:
        """Take back what must not outlive the session: its commit, its changes, its locks."""
        try:
            await self._undo_of(session)
            if "candidate" in session.locks:
                # Changes made under a lock belong to its holder and go with it.
                await session.call(session.datastores.copy, "running", "candidate")
            for datastore in list(session.locks):
                await session.call(session.datastores.unlock, datastore)
                del session.locks[datastore]
        except RpcErrors as errors:
            log.error("%s did not end cleanly: %s", session, errors)

    async def _undo_of(self, session: Session) -> None:
        """Undo the session's confirmed commit, unless it may outlive the session."""
        async with self._lock:
            pending = self._pending
            if pending is not None and pending.owner is session and pending.persist is None:
                await self._restore_or_retry(f"{session} ended before it confirmed", session)

    async def close(self) -> None:
        """Undo what is pending: nobody can confirm it any more."""
        async with self._lock:
            if self._pending is not None:
                try:
                    await self._restore("the server ends", self._own)
                except RpcErrors as errors:
                    log.error("cannot undo the confirmed commit, next start will: %s", errors)
                self._stop_timer()

    def _keep_running(self, session: Session) -> None:
        self._snapshot.write(session.datastores.snapshot())

    def _check_permitted(self, session: Session, persist_id: str | None) -> None:
        pending = self._pending
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
        if pending.expired:
            raise RpcError("in-use", "an expired confirmed commit is being undone", "protocol")
        if expected is not None and persist_id is None:
            raise RpcError(
                "in-use", "a confirmed commit with a persist-id is pending; give it", "protocol"
            )
        if expected is None and pending.owner is not session:
            raise RpcError(
                "in-use",
                f"a confirmed commit of {pending.owner} is pending",
                "protocol",
            )

    def _check_unlocked(self, session: Session) -> None:
        for datastore in ("running", "candidate"):
            holder = self._sessions.holder(datastore)
            if holder is not None and holder is not session:
                raise RpcError("in-use", f"{datastore} is locked by {holder}", "protocol")

    def _await_confirmation(self, session: Session, confirmation: Confirmation) -> None:
        persist = confirmation.persist
        event: ConfirmEvent = "start" if self._pending is None else "extend"
        if self._pending is not None and persist is None:
            persist = self._pending.persist
        self._stop_timer()
        self._pending = _Pending(session, persist)
        self._start_timer(confirmation.timeout_s)
        self._events.confirmed_commit(event, session, confirmation.timeout_s)
        log.info("%s committed, to be confirmed within %d s", session, confirmation.timeout_s)

    async def _confirm(self, session: Session) -> None:
        if self._pending is not None:
            self._stop_timer()
            await session.call(self._snapshot.remove)
            self._pending = None
            self._events.confirmed_commit("complete", session)
            log.info("%s committed and confirmed", session)
        else:
            log.info("%s committed", session)

    def _start_timer(self, delay_s: float) -> None:
        if self._pending is not None:
            loop = asyncio.get_running_loop()
            self._pending.timer = loop.call_later(delay_s, self._on_timer, self._pending)

    def _stop_timer(self) -> None:
        if self._pending is not None and self._pending.timer is not None:
            self._pending.timer.cancel()

    def _on_timer(self, pending: _Pending) -> None:
        task = asyncio.get_running_loop().create_task(self._expire(pending))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _expire(self, pending: _Pending) -> None:
        async with self._lock:
            # The confirmation may have been faster to the lock.
            if self._pending is pending:
                await self._restore_or_retry("not confirmed in time")

    async def _restore_or_retry(self, reason: str, by: Session | None = None) -> None:
        try:
            await self._restore(reason, by)
        except RpcErrors as errors:
            log.error("cannot undo the confirmed commit (%s) yet: %s", reason, errors)
            if self._pending is not None:
                self._pending.expired = True
                self._stop_timer()
                self._start_timer(RETRY_S)

    async def _restore(self, reason: str, by: Session | None) -> None:
        """Go back; `by` is the session that wants it, None if it is the timer."""
        # sysrepo lets nobody but the lock's holder write.
        worker = self._sessions.holder("running") or self._own
        config = await worker.call(self._snapshot.read)
        if config is not None:
            await worker.call(worker.datastores.restore, config)
            await worker.call(self._snapshot.remove)
        self._stop_timer()
        self._pending = None
        if by is None:
            self._events.confirmed_commit("timeout", self._own)
        else:
            self._events.confirmed_commit("cancel", by)
        log.warning("confirmed commit undone: %s", reason)
