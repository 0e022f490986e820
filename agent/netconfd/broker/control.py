"""The broker's end of its connection with the front: logins, sessions, settings."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any

from agent.netconfd import wire
from agent.netconfd.broker.settings import Settings

LOG = logging.getLogger(__name__)

# Opens a session: user, peer and the broker's end of its socket. Returns what answers the front.
Open = Callable[[str, str, socket.socket], Awaitable[Mapping[str, Any]]]


class Control:
    """Answers the front, one task a packet. Create it in the event loop."""

    def __init__(
        self,
        connection: socket.socket,
        settings: Settings,
        open_session: Open,
        modules: Callable[[], bytes],
    ) -> None:
        """`modules` blocks; see `agent.sysrepo.schema_context.export`."""
        connection.setblocking(False)
        self._connection = connection
        self._settings = settings
        self._open_session = open_session
        self._modules = modules
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = self._loop.create_future()
        self._outbox = wire.Outbox(connection, self._lose)
        self._loop.add_reader(connection, self._readable)
        self.send_configuration()

    @property
    def has_ended(self) -> bool:
        """Whether the front has gone."""
        return self._ended.done()

    async def wait_ended(self) -> None:
        """Return when the front has gone."""
        await asyncio.shield(self._ended)

    def send_configuration(self) -> None:
        """Tell the front the limits and the clients to call."""
        settings = self._settings
        clients = [asdict(each) for each in settings.clients]
        self._send({"configuration": {"limits": settings.limits_json, "clients": clients}})

    def end_session(self, number: int) -> None:
        """Have the front end this session's process and connection."""
        self._send({"end": number})

    def modules_changed(self) -> None:
        """Tell the front that the installed modules have changed."""
        self._send({"modules-changed": True})

    def close(self) -> None:
        """End the connection."""
        if not self._ended.done():
            self._loop.remove_reader(self._connection)
            self._outbox.close()
            self._connection.close()
            self._ended.set_result(None)

    def _readable(self) -> None:
        try:
            received = wire.receive_packet(self._connection)
        except BlockingIOError:
            return
        except (OSError, wire.ProtocolError) as error:
            LOG.error("the connection with the front ends: %s", error)
            received = None
        if received is None:
            self.close()
            return
        task = self._loop.create_task(self._answer(*received))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, packet: Mapping[str, Any], descriptors: list[int]) -> None:
        fields = wire.Fields(packet)
        try:
            number = fields.number("id")
            call = fields.choice("call", ("open", "keys", "modules"))
            user, peer = (fields.optional_text(each) or "" for each in ("user", "peer"))
        except wire.ProtocolError as error:
            LOG.error("the connection with the front ends: %s", error)
            wire.close_all(descriptors)
            self.close()
            return
        try:
            if call == "open":
                answer = await self._open(user, peer, descriptors)
                self._outbox.send({"id": number, **answer})
            elif call == "keys":
                self._outbox.send({"id": number, "keys": self._settings.keys_of(user)})
            else:
                await self._send_modules(number)
        except Exception as error:
            # What fails for one login must not end the sessions of others.
            LOG.exception("a request of the front failed: %s", call)
            self._send({"id": number, "failed": f"the broker failed: {error}"})
        finally:
            wire.close_all(descriptors)

    async def _open(self, user: str, peer: str, descriptors: list[int]) -> Mapping[str, Any]:
        """Takes the descriptor out of `descriptors`."""
        if not descriptors:
            return {"failed": "the broker has no descriptor left for a session"}
        return await self._open_session(user, peer, socket.socket(fileno=descriptors.pop()))

    async def _send_modules(self, number: int) -> None:
        """As a file in memory: it is too long for a packet."""
        octets = await asyncio.to_thread(self._modules)
        descriptor = os.memfd_create("modules")
        with os.fdopen(descriptor, "wb") as file:
            file.write(octets)
            file.flush()
            self._outbox.send({"id": number}, [descriptor])

    def _send(self, packet: Mapping[str, Any]) -> None:
        try:
            self._outbox.send(packet)
        except OSError as error:
            LOG.error("the front end was not informed of %s: %s", "".join(packet), error)

    def _lose(self, reason: str) -> None:
        LOG.error("the connection with the front ends: %s", reason)
        self.close()
