"""The broker from its first connection to sysrepo to the end of the last session.

It keeps the promise of a confirmed commit, so nothing here parses or evaluates what clients send.
"""

from __future__ import annotations

import asyncio
import fcntl
import functools
import logging
import os
import signal
import socket
import sqlite3
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from agent.netconfd.broker import access
from agent.netconfd.broker.calls import MODULES, Services
from agent.netconfd.broker.confirmed_commit import Commits, Snapshot
from agent.netconfd.broker.connection import SessionConnection
from agent.netconfd.broker.control import Control
from agent.netconfd.broker.current_library import CurrentLibrary
from agent.netconfd.broker.datastore import Datastores
from agent.netconfd.broker.events.sources import Notifications
from agent.netconfd.broker.memory_budget import MemoryBudget
from agent.netconfd.broker.monitoring import Monitoring
from agent.netconfd.broker.sessions import Session, Sessions
from agent.netconfd.broker.settings import NotInstalled, Settings
from agent.netconfd.broker.startup_state import StartupState
from agent.netconfd.broker.subscription_state import SubscriptionState
from agent.netconfd.broker.subscriptions import Subscriptions
from agent.netconfd.capabilities import CAPABILITIES
from agent.netconfd.data_model import export
from agent.netconfd.garbage import Garbage
from agent.service_manager import notify, stay_alive_until
from agent.sysrepo import SysrepoConnection, SysrepoError, schema_context
from agent.sysrepo.library import content_id
from agent.sysrepo.startup import Startup, Unreadable, check_stored, mend

LOG = logging.getLogger(__name__)

# What a message becomes when libyang prints it again: prefixes are declared where they are used.
BODY_PER_MESSAGE = 4
# How much less processor time session processes get than front and broker (sched(7)). Each step is
# a fifth of what is left: at 19 it is what nobody else wants.
MAX_NICE = 19
NICE_PER_SESSION = 5


class _Refusal(NamedTuple):
    """Why a user gets no session; `is_offence` if no client of that user's ever will."""

    text: str
    is_offence: bool = False


class Broker:
    """All sessions over one sysrepo connection."""

    def __init__(self, connection: SysrepoConnection, state_dir: Path, startup: Startup) -> None:
        """Create it in a running event loop. Raises NotInstalled or SysrepoError."""
        self._connection = connection
        self.settings = Settings(connection)
        self._access = access.AccessControl(connection)
        self._sessions = Sessions(connection)
        # Session id 0 stands for the server itself.
        self._own = Session(0, access.Account("server"), "localhost", Datastores(connection))
        self._library = CurrentLibrary(connection)
        self._subscriptions = Subscriptions(
            lambda: self.settings.limits.max_subscriptions_per_session
        )
        self._notifications = Notifications(
            connection,
            self._library,
            state_dir,
            self._modules_changed,
            self._subscriptions.config_changed,
        )
        self._monitoring = Monitoring(connection, self._sessions, CAPABILITIES, self._library)
        self._subscription_state = SubscriptionState(
            connection, self._subscriptions, self._notifications.stream
        )
        self._startup_state = StartupState(connection)
        self._commits = Commits(
            Snapshot(state_dir / "confirmed-commit.xml"),
            self._sessions,
            self._own,
            self._notifications.events,
        )
        self._services = Services(
            self._sessions,
            self._commits,
            self._access,
            self._library,
            MemoryBudget(lambda: self.settings.limits.max_held_octets),
            self._subscriptions,
            startup,
            lambda: self.settings.limits.max_confirm_timeout_s,
            lambda: content_id(connection),
            self._export,
        )
        self._connections: dict[asyncio.Task[None], SessionConnection] = {}
        self._garbage = Garbage()
        self._control: Control | None = None
        self._is_closing = False

    @property
    def has_front(self) -> bool:
        """Whether a front is connected; when it has gone, its sessions may still be ending."""
        return self._control is not None and not self._control.has_ended

    async def recover(self) -> None:
        """Revert an earlier server's pending confirmed commit, or keep trying. Raises OSError."""
        await self._commits.recover()

    async def serve(self, front: socket.socket) -> None:
        """Serve one front until it ends, and its sessions with it."""
        loop = asyncio.get_running_loop()
        control = Control(front, self.settings, self._open, self._export)
        self._control = control
        self.settings.call_on_change(lambda: loop.call_soon_threadsafe(control.send_configuration))
        try:
            await control.wait_ended()
        finally:
            self.settings.call_on_change(lambda: None)
            self._control = None
            control.close()
            await self._end_sessions()

    async def close(self) -> None:
        """End every session, then revert the pending confirmed commit."""
        self._is_closing = True
        await self._end_sessions()
        await self._commits.close()
        await self._notifications.close()
        await asyncio.to_thread(self._subscription_state.close)
        await asyncio.to_thread(self._monitoring.close)
        await asyncio.to_thread(self._startup_state.close)
        await self._own.close()
        await asyncio.to_thread(self._access.close)
        await asyncio.to_thread(self.settings.close)

    async def _end_sessions(self) -> None:
        for connection in self._connections.values():
            connection.end()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _export(self) -> bytes:
        """The modules for `DataModel.build`. Blocks."""
        return export(content_id(self._connection), schema_context.export(self._connection))

    def _modules_changed(self) -> None:
        if self._control is not None:
            self._control.modules_changed()

    async def _open(self, user: str, peer: str, end: socket.socket) -> Mapping[str, Any]:
        # Blocks: the name service may ask a directory server.
        account = await asyncio.to_thread(access.look_up, user)
        may_commit = self._access.policy.permits(account, "ietf-netconf", "commit")
        refusal = self._refusal(account, may_commit=may_commit)
        if refusal:
            LOG.warning("%s@%s refused: %s", user, peer, refusal.text)
            end.close()
            return {"refused": refusal.text, "is_offence": refusal.is_offence}
        nice = _nice(self._sessions.of(account.name), may_commit=may_commit)
        session = self._sessions.open(
            account,
            peer,
            lambda: self._access.policy.data_rights(account),
            may_commit=may_commit,
        )
        connection = SessionConnection(
            session,
            self._services,
            self._notifications,
            lambda: BODY_PER_MESSAGE * self.settings.limits.max_message_octets,
        )
        session.disconnect = functools.partial(self._disconnect, session, connection)
        task = asyncio.create_task(self._run(session, connection, end))
        self._connections[task] = connection
        task.add_done_callback(self._connections.pop)
        LOG.info("%s opened", session)
        return {
            "opened": session.number,
            "name": str(session),
            "may_commit": may_commit,
            "nice": nice,
            "limits": self.settings.limits_json,
        }

    async def _run(
        self, session: Session, connection: SessionConnection, end: socket.socket
    ) -> None:
        try:
            ending = await connection.run(end)
            text = f"killed by session {session.killed_by}" if session.killed_by else ending.text
            LOG.info("%s ends: %s", session, text)
            self._notifications.events.session_ended(session, ending.reason)
            self._monitoring.session_ended(session, ending.reason)
        finally:
            self._services.budget.hold(session, 0)
            try:
                await self._commits.release(session)
            finally:
                await self._sessions.close(session)
                self._garbage.collect_soon()

    def _disconnect(self, session: Session, connection: SessionConnection) -> None:
        if self._control is not None:
            self._control.end_session(session.number)
        # Whatever becomes of its process, its locks are released.
        connection.end()

    def _refusal(self, account: access.Account, *, may_commit: bool) -> _Refusal | None:
        if self._is_closing:
            # A session opened now would outlive the connection to sysrepo.
            return _Refusal("the server ends")
        if not self._access.policy.permits_any(
            account, [(module, operation) for operation, module in MODULES.items()]
        ):
            return _Refusal(
                f"access control (NACM) does not let {account.name} execute anything",
                is_offence=True,
            )
        limits = self.settings.limits
        # Sessions of readers must not prevent a commit, a confirmation or a cancellation.
        reserved = 0 if may_commit else min(limits.reserved_sessions, limits.max_sessions // 2)
        if len(self._sessions) >= limits.max_sessions - reserved:
            reason = f"; {reserved} reserved for users who may commit" if reserved else ""
            return _Refusal(
                f"{len(self._sessions)} of {limits.max_sessions} sessions are open{reason}"
            )
        user_sessions = self._sessions.of(account.name)
        if user_sessions >= limits.max_sessions_per_user:
            return _Refusal(f"user {account.name} has {user_sessions} sessions open")
        return None


def _nice(open_sessions: int, *, may_commit: bool) -> int:
    """For the next session of a user who has so many open.

    A limit on the processor time of each request does not keep a hundred of them from taking all.
    """
    return min(MAX_NICE, NICE_PER_SESSION * open_sessions) if may_commit else MAX_NICE


# What is done with a broker while it serves.
Serve = Callable[[Broker], Coroutine[Any, Any, None]]


async def _run(state_dir: Path, serve: Serve) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with SysrepoConnection(cache_running=True) as connection:
        mend(connection)
        check_stored(connection)
        startup = Startup(connection)
        startup.keep()
        broker = Broker(connection, state_dir, startup)
        try:
            await broker.recover()
            serving = asyncio.ensure_future(serve(broker))
            stopping = asyncio.create_task(stop.wait())
            await stay_alive_until(serving, stopping)
            notify("STOPPING=1")
            has_ended = serving.done()
            for task in (serving, stopping):
                task.cancel()
            await asyncio.gather(serving, stopping, return_exceptions=True)
            if has_ended:
                serving.result()
        finally:
            # sysrepo crashes if the connection is closed before its sessions.
            await broker.close()


@contextmanager
def _held(state_dir: Path) -> Iterator[None]:
    """Be the only broker with this state, from now on. Raises OSError.

    One whose front was killed still undoes what nobody has confirmed, and would undo what is
    committed here meanwhile.
    """
    lock = os.open(state_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            LOG.warning("another server uses %s; waiting for its end", state_dir)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def serve_front(front: socket.socket, state_dir: Path) -> int:
    """Serve one front until it ends or SIGTERM comes; returns the exit code."""
    return run(state_dir, lambda broker: broker.serve(front))


def run(state_dir: Path, serve: Serve) -> int:
    """Have `serve` use a broker until it returns or SIGTERM comes; returns the exit code.

    It is called when an earlier broker's pending confirmed commit is reverted.
    """
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _held(state_dir):
            asyncio.run(_run(state_dir, serve))
    except (OSError, sqlite3.Error, SysrepoError, NotInstalled, Unreadable) as error:
        LOG.error("cannot serve: %s", error)
        return 1
    return 0
