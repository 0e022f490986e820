"""Copies octets between the client's channel and the process of its session, and no more."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from enum import Enum
from typing import Protocol

READ_OCTETS = 65_536


class Channel(Protocol):
    """A byte stream to one client."""

    @property
    def is_gone(self) -> bool:
        """Whether the client can neither be read nor written to any more."""

    async def read(self) -> bytes:
        """The next octets, b"" when the client sends no more."""

    async def write(self, data: bytes) -> None:
        """Send; returns when the client is ready for more. To a client that is gone: nothing."""

    async def wait_gone(self) -> None:
        """Return when the client is gone: its connection is lost, or was closed here."""


class Left(Enum):
    """Who has left."""

    SESSION = "the session has ended, and the client has been sent all of it"
    CLIENT = "the client is gone: what it has asked for must not be executed"


async def relay(channel: Channel, session: socket.socket) -> Left:
    """Copy in both directions until one side has left.

    Each direction holds at most `READ_OCTETS`, and waits for the reader beyond that. A client that
    sends no more is still answered: the session reads the end of its requests.

    `session` does not block, and stays open.
    """
    requests = asyncio.create_task(_copy_requests(channel, session))
    replies = asyncio.create_task(_copy_replies(channel, session))
    gone = asyncio.create_task(channel.wait_gone())
    tasks = (requests, replies, gone)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not (replies.done() or gone.done() or requests.exception()):
            # The client sends no more, and waits for its answers.
            await asyncio.wait((replies, gone), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    return Left.CLIENT if channel.is_gone else Left.SESSION


async def _copy_requests(channel: Channel, session: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    # A session that reads no more may still have something to say.
    with suppress(OSError):
        while data := await channel.read():
            await loop.sock_sendall(session, data)
        if not channel.is_gone:
            session.shutdown(socket.SHUT_WR)


async def _copy_replies(channel: Channel, session: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    # A reset is what its end looks like when it has not read everything.
    with suppress(ConnectionResetError):
        while not channel.is_gone and (data := await loop.sock_recv(session, READ_OCTETS)):
            await channel.write(data)
