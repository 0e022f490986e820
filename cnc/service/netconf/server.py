"""The backend's end of its connection with the server: who may log in, and their sessions.

Packets of JSON on a Unix socket (SOCK_SEQPACKET), some with a descriptor:

    {"id", "call": "keys", "user"}           answer {"id", "keys": lines of authorized_keys}
    {"id", "call": "open", "user", "peer"}   with the end of a session's socket; answer {"id",
                                             "opened": number, ...} or {"id", "refused": text, ...}
    {"id", "call": "modules"}                answer {"id"} with a file of `modules.exported`

and, without being asked, {"configuration": {"limits", "clients"}} first and {"end": number}.
"""

from __future__ import annotations

import array
import asyncio
import json
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cnc.service import unix_socket
from cnc.service.netconf import messages, modules
from cnc.service.netconf.asker import Asker
from cnc.service.netconf.limits import LIMITS
from cnc.service.netconf.messages import Broken
from cnc.service.netconf.session import Session
from cnc.service.refused import CallRefused
from cnc.service.web.asking import Asking

LOG = logging.getLogger(__name__)

_PACKET_MAX_OCTETS = 131_072
# Of a session among the processes of its machine; see setpriority(2).
_NICE = 5


def listening(path: Path, group: int | None) -> socket.socket:
    """A socket at `path` for the server: its owner's alone, or a group's, too. Raises OSError."""
    listener = unix_socket.bound(path, group, socket.SOCK_SEQPACKET)
    listener.listen()
    return listener


async def serve(listener: socket.socket, asking: Asking) -> None:
    """Answer one server after the other, until it is cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        connection, _ = await loop.sock_accept(listener)
        connection.setblocking(False)
        with connection:
            try:
                await _Server(connection, asking).run()
            except (Broken, OSError) as error:
                LOG.warning("the connection with the NETCONF server ends: %s", error)


class _Server:
    """One `tsn-netconfd`, and its sessions, which end with it."""

    def __init__(self, connection: socket.socket, asking: Asking) -> None:
        self._connection, self._asking = connection, asking
        self._opened = 0
        self._users: dict[int, str] = {}  # by the number of their session
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Until it is gone. Raises Broken, OSError."""
        await self._send({"configuration": {"limits": LIMITS, "clients": []}})
        try:
            while (received := await self._receive()) is not None:
                packet, descriptors = received
                self._keep(self._answer(packet, descriptors))
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _answer(self, packet: Mapping[str, Any], descriptors: list[int]) -> None:
        number, call = packet.get("id"), packet.get("call")
        try:
            if call == "keys":
                key = (await self._key_of(str(packet.get("user"))))["key"]
                await self._send({"id": number, "keys": f"{key}\n" if key else ""})
            elif call == "open" and descriptors:
                end = socket.socket(fileno=descriptors.pop())
                await self._open(number, str(packet.get("user")), str(packet.get("peer")), end)
            elif call == "modules":
                await self._send_modules(number)
            else:
                await self._send({"id": number, "failed": f"there is no call {call!r}"})
        finally:
            for each in descriptors:
                os.close(each)

    async def _key_of(self, user: str) -> Mapping[str, str | None]:
        """The line of an authorized_keys file and its fingerprint, None of who has none."""
        try:
            found = await self._asking.call("ssh-key.get", {"name": user}, token="", source="")
        except CallRefused as refused:
            LOG.warning("no key of %s: %s", user, refused)
            return dict.fromkeys(("key", "fingerprint"))
        return dict(found)

    async def _open(self, number: Any, user: str, peer: str, end: socket.socket) -> None:
        seen = (await self._key_of(user))["fingerprint"]
        asker = Asker(self._asking, f"{user} {seen}", peer)
        if refused := await self._refusal(asker, user):
            LOG.warning("%s@%s refused: %s", user, peer, refused)
            end.close()
            await self._send({"id": number, "refused": refused, "is_offence": False})
            return
        self._opened += 1
        self._users[self._opened] = user
        self._keep(self._run(self._opened, asker, end))
        await self._send(
            {
                "id": number,
                "opened": self._opened,
                "name": f"session {self._opened} {user}@{peer}",
                "may_commit": True,
                "nice": _NICE,
                "limits": LIMITS,
                "takes_json": True,
            }
        )

    async def _refusal(self, asker: Asker, user: str) -> str:
        """Why a user gets no session, "" for one who does."""
        try:
            await asker.call("who")
        except CallRefused as refused:
            return str(refused)
        most, of_user = LIMITS["max-sessions"], LIMITS["max-sessions-per-user"]
        if len(self._users) >= most:
            return f"{most} sessions are open, which is the most"
        if list(self._users.values()).count(user) >= of_user:
            return f"user {user} has {of_user} sessions open, which is the most"
        return ""

    async def _run(self, number: int, asker: Asker, end: socket.socket) -> None:
        try:
            await Session(asker, lambda its: self._keep(self._send({"end": its}))).run(end)
        finally:
            del self._users[number]

    async def _send_modules(self, number: Any) -> None:
        descriptor = os.memfd_create("modules")
        with os.fdopen(descriptor, "wb") as file:
            file.write(modules.exported())
            file.flush()
            await self._send({"id": number}, [descriptor])

    def _keep(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, packet: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
        octets = json.dumps(packet, separators=(",", ":")).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        while True:
            try:
                self._connection.sendmsg([octets], rights if descriptors else [])
            except BlockingIOError:
                await _ready(self._loop.add_writer, self._loop.remove_writer, self._connection)
            else:
                return

    async def _receive(self) -> tuple[dict[str, Any], list[int]] | None:
        """The next packet, None at the end. Raises Broken, OSError."""
        while True:
            try:
                octets, descriptors, flags, _ = socket.recv_fds(
                    self._connection, _PACKET_MAX_OCTETS, 1, socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                await _ready(self._loop.add_reader, self._loop.remove_reader, self._connection)
                continue
            if not octets:
                return None
            if flags & socket.MSG_TRUNC:
                raise Broken("a packet that is too long")
            return messages.object_of(octets), descriptors


async def _ready(add: Any, remove: Any, connection: socket.socket) -> None:
    ready = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    add(connection, wake)
    try:
        await ready
    finally:
        remove(connection)
