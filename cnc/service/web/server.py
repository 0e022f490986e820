"""The process of a worker: uvicorn on a socket that all workers accept from, with limits that it
does not have itself: connections of one host, time for a TLS handshake and for a request's head.
"""

from __future__ import annotations

import asyncio
import resource
import ssl
from contextlib import suppress
from pathlib import Path
from socket import socket
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from cnc.service.web.guard import HEAD_MAX_OCTETS
from cnc.service.web.guests import CONNECTIONS_MAX_OF_HOST, Guest, Guests, host_of
from cnc.service.web.pace import Pace
from cnc.watch import service_manager

HEAD_WITHIN_S = 10.0  # from the connection, or the first octet of another request, to its head
HANDSHAKE_WITHIN_S = 10.0
KEEP_ALIVE_S = 15
# TLS has a buffer of 256 KiB for each. What comes before takes next to nothing, so that more may
# stay: to close one, and to accept what is made in its place, takes more.
_SILENT_MAX, _GUESTS_MAX = 2048, 512
# Of a host: to end a TLS handshake takes a worker a millisecond or two.
_CONNECTIONS_PER_S, _TURN_S = 50, 1.0
_END_WITHIN_S = 3
_WITHOUT_DESCRIPTORS_S = 0.1  # a pause when the process has no more of them


class _Protocol(H11Protocol):
    """A connection that is closed when no head of a request comes in time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline: asyncio.TimerHandle | None = None
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.app_state["guest"].leave()
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
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)  # of which some wait for their turn
        self._silent = Guests(min(_SILENT_MAX, (files - _GUESTS_MAX) // 2))
        self._guests = Guests(_GUESTS_MAX)
        self._pace = Pace(_CONNECTIONS_PER_S, at_once=CONNECTIONS_MAX_OF_HOST, wait_max_s=_TURN_S)
        self._accepting: asyncio.Task[None] | None = None
        super().__init__(
            uvicorn.Config(
                cast("Any", app),
                http=_Protocol,
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
        """In uvicorn's place, which counts no connection before its handshake has ended."""
        assert sockets is None  # noqa: S101  it is given one when it is made
        await self.lifespan.startup()
        self._listening.setblocking(False)
        self._accepting = asyncio.create_task(self._accept())
        self.servers = []
        self.started = True
        service_manager.notify("READY=1")  # where a unit runs it, and not `cnc serve`

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        if self._accepting:
            self._accepting.cancel()
        await super().shutdown(sockets)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        shaking_hands: set[asyncio.Task[None]] = set()
        while True:
            # Where many wait, `sock_accept` returns at once: nobody else would have a turn.
            await asyncio.sleep(0)
            try:
                connection, address = await loop.sock_accept(self._listening)
            except OSError:
                await asyncio.sleep(_WITHOUT_DESCRIPTORS_S)
                continue
            wait_s = self._pace.wait_s(host_of(address[0]))
            if wait_s is None:
                connection.close()
                continue
            task = asyncio.create_task(self._admit(connection, address[0], wait_s))
            shaking_hands.add(task)
            task.add_done_callback(shaking_hands.discard)

    async def _admit(self, connection: socket, address: str, wait_s: float) -> None:
        """In its turn, and where there is room; until the handshake has ended."""
        if wait_s:
            await asyncio.sleep(wait_s)
        for guests, until in ((self._silent, _spoken), (self._guests, self._welcome)):
            guest = guests.enter(address)
            if guest is None:
                connection.close()
                return
            task = asyncio.current_task()
            assert task is not None  # noqa: S101  `_accept` makes one of it
            guest.end = task.cancel
            try:
                await until(connection, guest)
            except BaseException:
                connection.close()
                guest.leave()
                with suppress(OSError, ssl.SSLError):
                    raise
                return

    async def _welcome(self, connection: socket, guest: Guest) -> None:
        """Until the handshake has ended; then the protocol has the guest."""

        def protocol() -> asyncio.Protocol:
            make = cast("Any", self.config.http_protocol_class)
            made: asyncio.Protocol = make(
                config=self.config, server_state=self.server_state, app_state={"guest": guest}
            )
            return made

        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
            protocol, connection, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_WITHIN_S
        )
        guest.end = transport.abort

    async def on_tick(self, counter: int) -> bool:
        self._watchdog.alive()
        return await super().on_tick(counter)


async def _spoken(connection: socket, silent: Guest) -> None:
    """Until its peer has said something. Raises TimeoutError."""
    loop, spoke = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(connection, spoke.set)
    try:
        await asyncio.wait_for(spoke.wait(), HANDSHAKE_WITHIN_S)
    finally:
        loop.remove_reader(connection)
    silent.leave()


def tls(certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS 1.2 and up. Raises OSError, ssl.SSLError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["http/1.1"])
    return context
