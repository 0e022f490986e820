"""The NETCONF server from its command line to the end of the last session."""

from __future__ import annotations

import asyncio
import logging
import signal
import sqlite3
from pathlib import Path

import asyncssh

from agent import journal
from agent.netconfd.broker import access
from agent.netconfd.broker.confirmed_commit import Commits, Snapshot
from agent.netconfd.broker.current_library import CurrentLibrary
from agent.netconfd.broker.datastore import Datastores, Unreadable, check_stored
from agent.netconfd.broker.events.sources import Notifications
from agent.netconfd.broker.monitoring import Monitoring
from agent.netconfd.broker.sessions import Session, Sessions
from agent.netconfd.broker.settings import NotInstalled, Settings
from agent.netconfd.front import options
from agent.netconfd.front.call_home import CallHome
from agent.netconfd.front.logins import Logins, NoPam, Pam, UnsafeFile
from agent.netconfd.front.ssh import Endpoint, Refused, SshTransport
from agent.netconfd.session.framing import MemoryBudget
from agent.netconfd.session.netconf_session import NetconfSession
from agent.netconfd.session.operations import CAPABILITIES, NAMES, Services
from agent.service_manager import notify, watchdog_interval_s
from agent.sysrepo import SysrepoConnection, SysrepoError

LOG = logging.getLogger(__name__)

# The last of `max-sessions`, at most half of them, are for users who may commit: sessions of
# readers must not prevent a commit, a confirmation or a cancellation.
RESERVED_SESSIONS = 16


class Server:
    """All sessions over one sysrepo connection."""

    def __init__(self, connection: SysrepoConnection, state_dir: Path) -> None:
        """Raises NotInstalled or SysrepoError."""
        self.settings = Settings(connection)
        self._access = access.AccessControl(connection)
        self._budget = MemoryBudget(lambda: self.settings.limits.max_held_octets)
        self._sessions = Sessions(connection)
        # Session id 0 stands for the server itself.
        self._own = Session(
            0, access.Account("server"), "localhost", Datastores(connection), lambda: None
        )
        self._library = CurrentLibrary(connection)
        self._notifications = Notifications(connection, self._library, state_dir)
        self._monitoring = Monitoring(connection, self._sessions, CAPABILITIES, self._library)
        self._commits = Commits(
            Snapshot(state_dir / "confirmed-commit.xml"),
            self._sessions,
            self._own,
            self._notifications.events,
        )
        self._services = Services(self._sessions, self._commits, self._access, self._library)
        self._session_tasks: set[asyncio.Task[None] | None] = set()
        self._is_closing = False

    async def recover(self) -> None:
        """Revert an earlier server's pending confirmed commit, or keep trying. Raises OSError."""
        await self._commits.recover()

    async def serve(self, transport: SshTransport) -> None:
        """Run one session over this transport until it ends. Raises Refused."""
        # Blocks: the name service may ask a directory server.
        account = await asyncio.to_thread(access.look_up, transport.user)
        may_commit = self._access.policy.permits(account, "ietf-netconf", "commit")
        refusal = self._refusal(account, may_commit=may_commit)
        if refusal:
            LOG.warning("%s@%s refused: %s", transport.user, transport.peer, refusal)
            raise Refused(refusal)
        session = self._sessions.open(
            account, transport.peer, transport.close, may_commit=may_commit
        )
        transport.accept()
        task = asyncio.current_task()
        self._session_tasks.add(task)
        LOG.info("%s opened", session)
        try:
            modules = await session.call(lambda: self._library.get().capabilities())
            netconf_session = NetconfSession(
                transport,
                session,
                self._services,
                self._notifications,
                limits=self.settings.limits,
                budget=self._budget,
            )
            ending = await netconf_session.run([*CAPABILITIES, *modules])
            LOG.info("%s ends: %s", session, ending.text)
            self._notifications.events.session_ended(session, ending.reason)
            self._monitoring.session_ended(session, ending.reason)
        finally:
            await self._end(session)
            self._session_tasks.discard(task)

    async def close(self) -> None:
        """End every session, then revert the pending confirmed commit."""
        self._is_closing = True
        self._sessions.disconnect_all()
        await asyncio.gather(*filter(None, self._session_tasks), return_exceptions=True)
        await self._commits.close()
        await self._notifications.close()
        await asyncio.to_thread(self._monitoring.close)
        await self._own.close()
        await asyncio.to_thread(self._access.close)
        await asyncio.to_thread(self.settings.close)

    def _refusal(self, account: access.Account, *, may_commit: bool) -> str | None:
        if self._is_closing:
            # A session opened now would outlive the connection to sysrepo.
            return "the server ends"
        if not self._access.policy.permits_any(account, NAMES):
            return f"access control (NACM) does not let {account.name} execute anything"
        limits = self.settings.limits
        reserved = 0 if may_commit else min(RESERVED_SESSIONS, limits.max_sessions // 2)
        if len(self._sessions) >= limits.max_sessions - reserved:
            reason = f"; {reserved} reserved for users who may commit" if reserved else ""
            return f"{len(self._sessions)} of {limits.max_sessions} sessions are open{reason}"
        user_sessions = sum(each.user == account.name for each in self._sessions.all())
        if user_sessions >= limits.max_sessions_per_user:
            return f"user {account.name} has {user_sessions} sessions open"
        return None

    async def _end(self, session: Session) -> None:
        try:
            await self._commits.release(session)
        finally:
            await self._sessions.close(session)


async def run(arguments: options.Options) -> None:
    """Serve until SIGTERM or SIGINT.

    At the start, raises OSError, asyncssh.Error or one of this package's own exceptions.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    pam = None if arguments.pam_service is None else Pam(arguments.pam_service)
    with SysrepoConnection(cache_running=True) as connection:
        check_stored(connection)
        server = Server(connection, arguments.state_dir)
        settings = server.settings
        try:
            await server.recover()
            logins = Logins(arguments.authorized_keys, settings, pam)
            endpoint = Endpoint(
                arguments.host_key,
                logins,
                settings,
                server.serve,
                peer_timeout_s=arguments.peer_timeout_s,
            )
            listener = await endpoint.listen(arguments.host, arguments.port)
            LOG.info("listening on %s port %d", arguments.host, listener.get_port())
            call_home = CallHome(endpoint.call)

            def set_call_home_clients() -> None:
                call_home.set_clients(arguments.clients | settings.clients)

            set_call_home_clients()
            settings.call_on_change(lambda: loop.call_soon_threadsafe(set_call_home_clients))
            notify("READY=1")
            await _stay_alive_until(stop)
            notify("STOPPING=1")
            listener.close()
            settings.call_on_change(lambda: None)
            await call_home.close()
        finally:
            # sysrepo crashes if the connection is closed before its sessions.
            await server.close()


async def _stay_alive_until(stop: asyncio.Event) -> None:
    """Notify the service manager's watchdog until `stop` is set."""
    interval_s = watchdog_interval_s()
    while True:
        try:
            await asyncio.wait_for(stop.wait(), interval_s)
        except TimeoutError:
            notify("WATCHDOG=1")
        else:
            return


def main() -> int:
    """The command `tsn-netconfd`."""
    arguments = options.parse()
    journal.configure(logging.INFO, "tsn-netconfd")
    logging.getLogger("asyncssh").setLevel(logging.WARNING)
    try:
        arguments.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        asyncio.run(run(arguments))
    except (
        OSError,
        asyncssh.Error,
        asyncssh.KeyImportError,
        sqlite3.Error,
        SysrepoError,
        NoPam,
        NotInstalled,
        Unreadable,
        UnsafeFile,
    ) as error:
        LOG.error("cannot serve: %s", error)
        return 1
    return 0
