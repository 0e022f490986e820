"""The broker as a service of its own, which outlives the fronts that it serves.

When a front ends, its sessions end, as after a lost connection: a confirmed commit without a
persist-id is reverted, one that has a persist-id stays pending, and its deadline is kept.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import socket
import struct
from pathlib import Path

from agent import journal
from agent.netconfd import confinement
from agent.netconfd.broker import options
from agent.netconfd.broker.server import Broker, run
from agent.service_manager import notify

LOG = logging.getLogger(__name__)

# struct ucred in unix(7): process, user, group.
_CREDENTIALS = struct.Struct("3i")
# When there are no descriptors left, say, some time later there may be.
_ACCEPT_PAUSE_S = 1.0


class Occupied(Exception):
    """Another broker listens where this one was to; the text names the place."""


class Service:
    """Serves one front after another."""

    def __init__(self, listener: socket.socket, front_user: pwd.struct_passwd) -> None:
        """`listener` as `bind` returns it."""
        listener.setblocking(False)
        self._listener = listener
        self._front_user = front_user

    async def serve(self, broker: Broker) -> None:
        """Accept fronts, until it is cancelled."""
        self._listener.listen()
        notify("READY=1")
        LOG.info("listening at %s", self._listener.getsockname())
        serving: asyncio.Task[None] | None = None
        try:
            while True:
                front, pid = await self._accept(broker)
                if serving is not None:
                    # The sessions of the former front are ending still.
                    await serving
                LOG.info("process %d is the front", pid)
                serving = asyncio.create_task(broker.serve(front))
                # So that the next one finds it connected.
                await asyncio.sleep(0)
        finally:
            if serving is not None:
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)

    async def _accept(self, broker: Broker) -> tuple[socket.socket, int]:
        """The next front that may be served, and its process."""
        while True:
            try:
                front, _ = await asyncio.get_running_loop().sock_accept(self._listener)
            except OSError as error:
                LOG.error("cannot accept a front: %s", error)
                await asyncio.sleep(_ACCEPT_PAUSE_S)
                continue
            pid, uid = _credentials(front)
            if uid != self._front_user.pw_uid:
                refusal = f"it is of user {uid}, not of {self._front_user.pw_name} (--front-user)"
            elif broker.has_front:
                refusal = "another front is connected"
            else:
                return front, pid
            LOG.warning("process %d refused: %s", pid, refusal)
            front.close()


def bind(path: Path, front_user: pwd.struct_passwd) -> socket.socket:
    """A socket at `path` that only the group of the front's user can reach, not listening yet.

    It takes the place of one that nobody listens at any more. Raises Occupied or OSError.
    """
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    _remove_left(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind(str(path))
        # Until it listens, nobody can connect.
        os.chown(path, -1, front_user.pw_gid)
        path.chmod(0o660)
    except OSError:
        listener.close()
        raise
    return listener


def main() -> int:
    """The command `tsn-netconf-broker`."""
    arguments = options.parse()
    journal.configure(logging.INFO, "tsn-netconf-broker")
    confinement.set_name("netconf-broker")
    try:
        listener = bind(arguments.socket, arguments.front_user)
    except (OSError, Occupied) as error:
        LOG.error("cannot listen at %s: %s", arguments.socket, error)
        return 1
    with listener:
        code = run(arguments.state_dir, Service(listener, arguments.front_user).serve)
    arguments.socket.unlink(missing_ok=True)
    return code


def _remove_left(path: Path) -> None:
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
        else:
            raise Occupied("another broker listens there; end it first")


def _credentials(peer: socket.socket) -> tuple[int, int]:
    """Process and user at the other end, as the kernel knew them when it connected."""
    octets = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(octets)
    return pid, uid
