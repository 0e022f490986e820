"""NETCONF sessions that all work at the same time, over bare SSH channels and base:1.0."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.stack.front_end import BASE, FrontEnd

END = b"]]>]]>"
HELLO = (
    f'<hello xmlns="{BASE}"><capabilities>'
    "<capability>urn:ietf:params:netconf:base:1.0</capability></capabilities></hello>"
).encode() + END


class BusySession:
    """One of these sessions, counted from 0; `errors` are the requests that were refused."""

    def __init__(self, number: int, reader: Any, writer: Any) -> None:
        self.number = number
        self.errors = 0
        self._reader, self._writer = reader, writer

    async def greet(self) -> None:
        """Exchange the hellos."""
        await self._reader.readuntil(END)
        self._writer.write(HELLO)

    async def ask(self, operation: str) -> bytes:
        """The reply to an operation."""
        rpc = f'<rpc message-id="1" xmlns="{BASE}">{operation}</rpc>'
        self._writer.write(rpc.encode() + END)
        reply = bytes(await self._reader.readuntil(END))
        self.errors += b"<rpc-error" in reply
        return reply


async def busy_sessions(
    server: FrontEnd, count: int, work: Callable[[BusySession], Awaitable[None]]
) -> int:
    """Open `count` sessions, have them work at once, and close them; their errors in all."""
    connections = []
    try:
        sessions = []
        for number in range(count):
            connection, reader, writer = await server.connect_raw()
            connections.append(connection)
            sessions.append(BusySession(number, reader, writer))
            await sessions[-1].greet()
        await asyncio.gather(*map(work, sessions))
        return sum(session.errors for session in sessions)
    finally:
        for connection in connections:
            connection.close()
