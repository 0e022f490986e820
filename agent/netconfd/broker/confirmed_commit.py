"""Commit, confirmed commit and its revert (RFC 6241, sections 8.3.4 and 8.4).

Before a confirmed commit changes anything, the running configuration is on disk. It stays there
until the commit is confirmed or reverted, so a server that dies in between reverts at its
next start. A confirmation is answered only after the file is removed: a commit that the client
knows to be confirmed is never reverted.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agent import whole_file
from agent.netconfd.broker.events.events import ConfirmEvent, Events
from agent.netconfd.broker.sessions import Session, Sessions
from agent.netconfd.errors import RpcError, RpcErrors

LOG = logging.getLogger(__name__)

# The standard's default for <confirm-timeout>.
DEFAULT_TIMEOUT_S = 600
# A foreign lock or a starting agent is temporary: a revert is retried until it succeeds.
RETRY_S = 2.0


@dataclass(frozen=True)
class Confirmation:
    """The parameters of a <commit> that has <confirmed/>."""

    timeout_s: int = DEFAULT_TIMEOUT_S
    persist: str | None = None


@dataclass(eq=False)
class PendingCommit:
    """A confirmed commit that is not confirmed yet; `before` is the configuration it replaced.

    Without `persist` it is reverted when `owner` ends. `obstacle`: why a revert has failed.
    """

    owner: Session
    persist: str | None
    before: str
    timer: asyncio.TimerHandle | None = None
    obstacle: str | None = None


def check_permitted(
    pending: PendingCommit | None, session: Session, persist_id: str | None
) -> None:
    """Raise RpcError unless the session may commit, confirm or cancel with this persist-id."""
    if pending is not None and pending.obstacle is not None:
        raise RpcError(
            "in-use",
            f"the revert of a confirmed commit has failed and is being retried: {pending.obstacle}",
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
            "in-use",
            "a confirmed commit with a persist-id is pending; send its persist-id",
            "protocol",
        )
    if expected is None and pending.owner is not session:
        raise RpcError("in-use", f"a confirmed commit of {pending.owner} is pending", "protocol")


class Snapshot:
    """The configuration to revert to, in a file. Every call may raise OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, config: str) -> None:
        """Store the configuration; it is on disk when this returns."""
        whole_file.replace(self._path, config.encode())

    def read(self) -> str | None:
        """The stored configuration, None if there is none."""
        try:
            return self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def remove(self) -> None:
        """Remove it; it is gone from disk when this returns."""
        whole_file.remove(self._path)


class Commits:
    """Serialises commits and reverts those that are not confirmed in time."""

    def __init__(
        self, snapshot: Snapshot, sessions: Sessions, own: Session, events: Events
    ) -> None:
        self._events = events
        self._snapshot = snapshot
        self._sessions = sessions
        # Reverts when the owner's session has ended.
        self._own = own
        self._pending: PendingCommit | None = None
        self._lock = asyncio.Lock()
        # How many commits without <confirmed/> have begun to copy candidate, and which of these
        # copies was the newest that succeeded.
        self._copies_begun = 0
        self._newest_copy = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pending_owner(self) -> Session | None:
        """The session whose confirmed commit is pending."""
        return self._pending.owner if self._pending else None

    async def recover(self) -> None:
        """Revert the pending commit of an earlier server, and discard changes of its candidate.

        A revert that fails is retried. Raises OSError.
        """
        async with self._lock:
            before = await self._own.call(self._snapshot.read)
            if before is not None:
                reason = "the server ended before it was confirmed"
                self._pending = PendingCommit(self._own, None, before)
                await self._restore_or_retry(self._pending, reason, self._own)
            try:
                # Candidate outlives the server in sysrepo, and a changed one cannot be locked.
                await self._own.call(self._own.datastores.copy, "running", "candidate")
            except RpcErrors as errors:
                LOG.error("candidate may hold changes of ended sessions: %s", errors)

    async def commit(
        self, session: Session, confirmation: Confirmation | None, persist_id: str | None
    ) -> None:
        """Make candidate running.

        The confirm timeout starts with this call, before any wait: the client starts to count when
        it sends the request, and an abandoned change must be reverted when its count ends.

        Candidate is shared by all sessions (RFC 6241, section 8.3.1), and one copy of it takes as
        long as any other: commits that wait for the same one are all answered by the first copy
        that begins after they were received. Each is then a commit with nothing left to change.

        Raises RpcError or RpcErrors; then running and a pending commit are unchanged.
        """
        received_s = asyncio.get_running_loop().time()
        copies_begun = self._copies_begun
        async with self._lock:
            check_permitted(self._pending, session, persist_id)
            self._check_unlocked(session)
            if confirmation is None:
                if self._pending is None and self._newest_copy > copies_begun:
                    LOG.info("%s committed, together with others", session)
                    return
                await self._copy_and_confirm(session)
            elif self._pending is None:
                before = await session.call(session.datastores.snapshot)
                await self._commit_with_snapshot(session, before)
                self._await_confirmation("start", session, confirmation, before, received_s)
            else:
                await session.call(session.datastores.copy, "candidate", "running")
                self._stop_timer()
                self._await_confirmation(
                    "extend", session, confirmation, self._pending.before, received_s
                )

    async def cancel(self, session: Session, persist_id: str | None) -> None:
        """Revert the pending confirmed commit now. Raises RpcError or RpcErrors."""
        async with self._lock:
            if self._pending is None:
                raise RpcError("operation-failed", "no confirmed commit is pending", "protocol")
            check_permitted(self._pending, session, persist_id)
            try:
                await self._restore(self._pending, f"cancelled by {session}", session)
            except OSError as error:
                raise RpcError("operation-failed", f"not cancelled yet: {error}") from None

    @asynccontextmanager
    async def none_pending(self) -> AsyncIterator[None]:
        """Nothing is committed or reverted within. Raises RpcError if a confirmed commit is
        pending: running may be reverted."""
        async with self._lock:
            if self._pending is not None:
                raise RpcError(
                    "in-use",
                    f"a confirmed commit of {self._pending.owner} is pending, and running may "
                    "be reverted: confirm or cancel it first",
                    "protocol",
                )
            yield

    async def release(self, session: Session) -> None:
        """Revert the session's pending commit, discard its changes, and release its locks."""
        # Within the lock: no other revert uses the session while it ends.
        async with self._lock:
            pending = self._pending
            if pending is not None and pending.owner is session and pending.persist is None:
                reason = f"{session} ended before it confirmed"
                await self._restore_or_retry(pending, reason, session)
            try:
                if "candidate" in session.locks:
                    # Changes made under a lock are discarded with it (RFC 6241, section 8.3.5.2).
                    await session.call(session.datastores.copy, "running", "candidate")
                for datastore in list(session.locks):
                    await session.call(session.datastores.unlock, datastore)
                    del session.locks[datastore]
            except RpcErrors as errors:
                LOG.error("%s did not end cleanly: %s", session, errors)

    async def close(self) -> None:
        """Revert the pending commit, which cannot be confirmed any more."""
        async with self._lock:
            if self._pending is not None:
                try:
                    await self._restore(self._pending, "the server ends", self._own)
                except Exception as error:  # noqa: BLE001  the server ends all the same
                    LOG.error("cannot revert the confirmed commit, the next start will: %s", error)
                self._forget_pending()

    async def _commit_with_snapshot(self, session: Session, before: str) -> None:
        """Commit with the snapshot on disk, or do neither. Raises RpcError or RpcErrors."""
        try:
            await session.call(self._snapshot.write, before)
            await session.call(session.datastores.copy, "candidate", "running")
        except (RpcErrors, OSError) as error:
            try:
                await session.call(self._snapshot.remove)
            except OSError as obstacle:
                # A later start would restore it, and lose all commits until then.
                self._pending = PendingCommit(session, None, before)
                self._retry_later(self._pending, str(obstacle), "it was refused", session)
            if isinstance(error, OSError):
                raise RpcError(
                    "resource-denied",
                    f"cannot store the running configuration to revert to it: {error}",
                ) from None
            raise
        except Exception:
            # The state of running is unknown; without a timer only the next start would revert it.
            self._pending = PendingCommit(session, None, before)
            await self._restore_or_retry(self._pending, "it failed inside the server", session)
            raise

    async def _copy_and_confirm(self, session: Session) -> None:
        """Commit for good. Raises RpcError or RpcErrors."""
        self._copies_begun += 1
        copy = self._copies_begun
        await session.call(session.datastores.copy, "candidate", "running")
        await self._confirm(session)
        self._newest_copy = copy

    def _check_unlocked(self, session: Session) -> None:
        for datastore in ("running", "candidate"):
            holder = self._sessions.holder(datastore)
            if holder is not None and holder is not session:
                raise RpcError("in-use", f"{datastore} is locked by {holder}", "protocol")

    def _await_confirmation(
        self,
        event: ConfirmEvent,
        session: Session,
        confirmation: Confirmation,
        before: str,
        received_s: float,
    ) -> None:
        persist = confirmation.persist
        if self._pending is not None and persist is None:
            persist = self._pending.persist
        self._pending = PendingCommit(session, persist, before)
        # The commit itself counts; the timer expires at once if it took longer.
        spent_s = asyncio.get_running_loop().time() - received_s
        self._start_timer(confirmation.timeout_s - spent_s)
        self._events.confirmed_commit(event, session, confirmation.timeout_s)
        LOG.info("%s committed, to be confirmed within %d s", session, confirmation.timeout_s)

    async def _confirm(self, session: Session) -> None:
        if self._pending is None:
            LOG.info("%s committed", session)
            return
        try:
            await session.call(self._snapshot.remove)
        except OSError as error:
            raise RpcError("operation-failed", f"not confirmed yet: {error}") from None
        self._forget_pending()
        self._events.confirmed_commit("complete", session)
        LOG.info("%s committed and confirmed", session)

    def _forget_pending(self) -> None:
        self._stop_timer()
        self._pending = None

    def _start_timer(
        self, delay_s: float, reason: str = "not confirmed in time", by: Session | None = None
    ) -> None:
        if self._pending is not None:
            expire = functools.partial(self._on_timer, self._pending, reason, by)
            self._pending.timer = asyncio.get_running_loop().call_later(delay_s, expire)

    def _stop_timer(self) -> None:
        if self._pending is not None and self._pending.timer is not None:
            self._pending.timer.cancel()

    def _on_timer(self, pending: PendingCommit, reason: str, by: Session | None) -> None:
        task = asyncio.get_running_loop().create_task(self._expire(pending, reason, by))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _expire(self, pending: PendingCommit, reason: str, by: Session | None) -> None:
        async with self._lock:
            # A confirmation may have taken the lock first.
            if self._pending is pending:
                await self._restore_or_retry(pending, reason, by)

    async def _restore_or_retry(
        self, pending: PendingCommit, reason: str, by: Session | None
    ) -> None:
        try:
            await self._restore(pending, reason, by)
        except Exception as error:  # noqa: BLE001  the revert is retried
            self._retry_later(pending, str(error), reason, by)

    def _retry_later(
        self, pending: PendingCommit, obstacle: str, reason: str, by: Session | None
    ) -> None:
        if obstacle != pending.obstacle:
            LOG.error("cannot revert the confirmed commit yet: %s", obstacle)
        pending.obstacle = obstacle
        self._stop_timer()
        self._start_timer(RETRY_S, reason, by)

    async def _restore(self, pending: PendingCommit, reason: str, by: Session | None) -> None:
        """Restore running; `by` is the session that causes it, None for the timer."""
        # sysrepo lets only the lock's holder write.
        worker = self._sessions.holder("running") or self._own
        await worker.call(worker.datastores.restore, pending.before)
        await worker.call(self._snapshot.remove)
        self._forget_pending()
        if by is None:
            self._events.confirmed_commit("timeout", self._own)
        else:
            self._events.confirmed_commit("cancel", by)
        LOG.warning("confirmed commit reverted: %s", reason)
