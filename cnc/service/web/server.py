"""The process of a worker: uvicorn on a socket that all workers accept from, with limits that it
does not have itself: connections of one address, time for a TLS handshake and for a request's head.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from pathlib import Path
from socket import socket
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from cnc.service.web.guard import HEAD_MAX_OCTETS
from cnc.watch import service_manager

HEAD_WITHIN_S = 10.0  # from the connection, or the first octet of another request, to its head
HANDSHAKE_WITHIN_S = 10.0
KEEP_ALIVE_S = 15
CONNECTIONS_MAX = 512  # of one worker
CONNECTIONS_MAX_OF_ADDRESS = 64
_BACKLOG = 256
_END_WITHIN_S = 3


class Connections:
    """How many connections each address has, of this worker."""

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Whether one more may be there."""
        has_room = (
            self._of[address] < CONNECTIONS_MAX_OF_ADDRESS and self._of.total() < CONNECTIONS_MAX
        )
        if has_room:
            self._of[address] += 1
        return has_room

    def leave(self, address: str) -> None:
        self._of[address] -= 1
        if not self._of[address]:
            del self._of[address]


class _Protocol(H11Protocol):
    """A connection that is closed when no head of a request comes in time."""

    connections_of_addresses: Connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address: str | None = None
        self._deadline: asyncio.TimerHandle | None = None
        address = self.client[0] if self.client else ""
        if not self.connections_of_addresses.enter(address):
            transport.abort()
            return
        self._address = address
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._address is not None:
            self.connections_of_addresses.leave(self._address)
            self._address = None
        self._forget_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        if self._deadline is None and (before is None or before.response_complete):
            self._await_head()
        super().data_received(data)
        if self.cycle is not before:
            self._forget_deadline()

    def _await_head(self) -> None:
        self._deadline = self.loop.call_later(HEAD_WITHIN_S, self.transport.abort)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Server(uvicorn.Server):
    """Accepts from one socket; who does not end a TLS handshake in time is cut off."""

    def __init__(self, app: ASGIApp, listening: socket, context: ssl.SSLContext) -> None:
        self._listening, self._context = listening, context
        self._watchdog = service_manager.Watchdog()
        protocol = type("Protocol", (_Protocol,), {"connections_of_addresses": Connections()})
        super().__init__(
            uvicorn.Config(
                cast("Any", app),
                http=protocol,
                ws="none",
                lifespan="off",
                loop="asyncio",
                interface="asgi3",
                access_log=False,
                log_level="error",  # it warns of what strangers send, as often as they do
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=_END_WITHIN_S,
                h11_max_incomplete_event_size=HEAD_MAX_OCTETS,
            )
        )

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """In uvicorn's place, which does not limit the handshake."""
        assert sockets is None  # noqa: S101  it is given one when it is made

        def protocol() -> asyncio.Protocol:
            make = cast("Any", self.config.http_protocol_class)
            made: asyncio.Protocol = make(
                config=self.config, server_state=self.server_state, app_state={}
            )
            return made

        await self.lifespan.startup()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            protocol,
            sock=self._listening,
            ssl=self._context,
            ssl_handshake_timeout=HANDSHAKE_WITHIN_S,
            backlog=_BACKLOG,
        )
        self.servers = [server]
        self.started = True
        service_manager.notify("READY=1")  # where a unit runs it, and not `cnc serve`

    async def on_tick(self, counter: int) -> bool:
        self._watchdog.alive()
        return await super().on_tick(counter)


def tls(certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS 1.2 and up. Raises OSError, ssl.SSLError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["http/1.1"])
    return context
