"""The NETCONF server's life: from the command line to the last session's end."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import sysrepo

from agent.netconfd import ssh
from agent.netconfd.confirmed_commit import Commits
from agent.netconfd.conversation import Conversation
from agent.netconfd.datastore import Datastores
from agent.netconfd.errors import RpcErrors
from agent.netconfd.operations import CAPABILITIES, Services
from agent.netconfd.session import Session, Sessions
from agent.netconfd.snapshot import Snapshot

log = logging.getLogger(__name__)

MAX_SESSIONS = 128
YANG_LIBRARY = "urn:ietf:params:netconf:capability:yang-library:1.1?revision=2019-01-04&content-id="


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    host: str
    port: int
    host_key: Path
    authorized_keys: Path
    state_dir: Path


class Server:
    """All conversations over one sysrepo connection."""

    def __init__(self, connection: sysrepo.SysrepoConnection, state_dir: Path) -> None:
        self._sessions = Sessions(connection)
        # Number 0 is no NETCONF session: it belongs to the server itself.
        self._own = Session(0, "server", "localhost", Datastores(connection), lambda: None)
        self._commits = Commits(
            Snapshot(state_dir / "confirmed-commit.xml"), self._sessions, self._own
        )
        self._services = Services(self._sessions, self._commits)
        self._conversations: set[asyncio.Task[None] | None] = set()

    async def recover(self) -> None:
        """Undo a confirmed commit that an earlier server left. Raises RpcErrors."""
        await self._commits.recover()

    async def serve(self, transport: ssh.SshTransport) -> None:
        """Hold one session over this transport, to its end."""
        if len(self._sessions) >= MAX_SESSIONS:
            log.warning(
                "%s@%s refused: %d sessions are open", transport.user, transport.peer, MAX_SESSIONS
            )
            return
        session = self._sessions.open(transport.user, transport.peer, transport.close)
        task = asyncio.current_task()
        self._conversations.add(task)
        log.info("%s opened", session)
        try:
            content_id = await session.call(session.datastores.content_id)
            conversation = Conversation(transport, session, self._services)
            reason = await conversation.run([*CAPABILITIES, YANG_LIBRARY + content_id])
            log.info("%s ends: %s", session, reason)
        finally:
            await self._end(session)
            self._conversations.discard(task)

    async def close(self) -> None:
        """End every session, then undo what none of them can confirm any more."""
        self._sessions.disconnect_all()
        await asyncio.gather(*filter(None, self._conversations), return_exceptions=True)
        await self._commits.close()
        await self._own.close()

    async def _end(self, session: Session) -> None:
        try:
            await self._commits.session_ended(session)
            if "candidate" in session.locks:
                # Changes made under a lock belong to its holder and go with it.
                await session.call(session.datastores.copy, "running", "candidate")
        except RpcErrors as errors:
            log.error("%s did not end cleanly: %s", session, errors)
        finally:
            await self._sessions.close(session)


async def run(options: Options) -> None:
    """Serve until SIGTERM or SIGINT. Raises RpcErrors, OSError or asyncssh.Error at the start."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with sysrepo.SysrepoConnection() as connection:
        server = Server(connection, options.state_dir)
        try:
            await server.recover()
            listener = await ssh.listen(
                options.host,
                options.port,
                host_key=options.host_key,
                authorized_keys=options.authorized_keys,
                serve=server.serve,
            )
            log.info("listening on %s port %d", options.host, listener.get_port())
            _notify("READY=1")
            await stop.wait()
            _notify("STOPPING=1")
            listener.close()
        finally:
            # sysrepo crashes if its connection goes before the sessions on it.
            await server.close()


def main() -> int:
    """The command `tsn-netconfd`."""
    options = _options()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("asyncssh").setLevel(logging.WARNING)
    try:
        options.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        asyncio.run(run(options))
    except (OSError, asyncssh.Error, asyncssh.KeyImportError, sysrepo.SysrepoError) as error:
        log.error("cannot serve: %s", error)
        return 1
    except RpcErrors as errors:
        log.error("cannot undo the confirmed commit left by an earlier server: %s", errors)
        return 1
    return 0


def _options() -> Options:
    parser = argparse.ArgumentParser(
        prog="tsn-netconfd", description="NETCONF over SSH for the sysrepo datastores of this host"
    )
    parser.add_argument(
        "--listen",
        metavar="ADDRESS:PORT",
        default="0.0.0.0:830",
        help="an IPv6 address goes in brackets; port 0 takes a free one (default: %(default)s)",
    )
    parser.add_argument(
        "--host-key",
        type=Path,
        default=Path("/etc/tsn/netconf_host_key"),
        help="this server's private key, made at the first start (default: %(default)s)",
    )
    parser.add_argument(
        "--authorized-keys",
        type=Path,
        default=Path("/etc/tsn/authorized_keys"),
        help="public keys of those who may log in, as OpenSSH writes them (default: %(default)s)",
    )
    parser.add_argument(
        "--state-dir",
        type=Path,
        default=Path("/var/lib/tsn-netconfd"),
        help="keeps what a pending confirmed commit goes back to (default: %(default)s)",
    )
    arguments = parser.parse_args()
    host, colon, port = arguments.listen.rpartition(":")
    if not colon or not port.isdecimal():
        parser.error(f"--listen {arguments.listen!r}: expected ADDRESS:PORT")
    return Options(
        host=host.removeprefix("[").removesuffix("]"),
        port=int(port),
        host_key=arguments.host_key,
        authorized_keys=arguments.authorized_keys,
        state_dir=arguments.state_dir,
    )


def _notify(state: str) -> None:
    """Tell the service manager, if one asked to be told."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        # A leading @ stands for the zero octet of an abstract socket.
        try:
            notify.sendto(state.encode(), "\0" + address[1:] if address[0] == "@" else address)
        except OSError as error:
            log.warning("cannot notify %s: %s", address, error)
