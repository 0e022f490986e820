"""NETCONF sessions that all work at the same time, over bare SSH channels and base:1.0."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
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


@asynccontextmanager
async def busy_session(server: FrontEnd, number: int = 0) -> AsyncIterator[BusySession]:
    """One that is open in this block."""
    connection, reader, writer = await server.connect_raw()
    try:
        session = BusySession(number, reader, writer)
        await session.greet()
        yield session
    finally:
        connection.close()
        await connection.wait_closed()


async def busy_sessions(
    server: FrontEnd, count: int, work: Callable[[BusySession], Awaitable[None]]
) -> int:
    """Open `count` sessions, have them work at once, and close them; their errors in all."""
    async with AsyncExitStack() as stack:
        sessions = [
            await stack.enter_async_context(busy_session(server, number)) for number in range(count)
        ]
        await asyncio.gather(*map(work, sessions))
        return sum(session.errors for session in sessions)
