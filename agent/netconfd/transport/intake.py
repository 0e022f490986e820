"""What a client sends, as whole messages, within the limits on their size and time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from agent.netconfd.transport.framing import Decoder, FramingError

# Messages up to this size need no room: sessions are few enough.
SMALL_OCTETS = 65_536


class Source(Protocol):
    """A byte stream from a client. A closed one reads as b""."""

    async def read(self) -> bytes:
        """The next bytes, b"" at the end."""


class NoRoom(FramingError):
    """The long messages of all clients together take too much memory."""


class Room:
    """The octets that the long messages of all sessions may take together."""

    def __init__(self, limit_octets: Callable[[], int]) -> None:
        self._limit_octets = limit_octets
        self._taken_octets = 0

    def change(self, before_octets: int, after_octets: int) -> None:
        """One session holds more or less than before. Raises NoRoom, then nothing has changed."""
        before, after = (
            octets if octets > SMALL_OCTETS else 0 for octets in (before_octets, after_octets)
        )
        taken_octets = self._taken_octets - before + after
        limit_octets = self._limit_octets()
        if after > before and taken_octets > limit_octets:
            raise NoRoom(f"the long messages of all sessions exceed {limit_octets} octets")
        self._taken_octets = taken_octets


class Intake:
    """The messages of one session, one by one."""

    def __init__(self, source: Source, max_message_octets: int, room: Room) -> None:
        self._source = source
        self._decoder = Decoder(max_message_octets)
        self._room = room
        self._held_octets = 0

    def use_chunks(self) -> None:
        """From now on the client uses chunked framing (base:1.1)."""
        self._decoder.use_chunks()

    async def receive(self, timeout_s: float | None) -> bytes | None:
        """The next message, None if the client is gone; it counts until the next call.

        Raises FramingError (NoRoom is one), or TimeoutError: call again to wait on.
        """
        self._hold(self._decoder.held_octets)
        async with asyncio.timeout(timeout_s):
            while (message := self._decoder.next_message()) is None:
                data = await self._source.read()
                if not data:
                    return None
                self._decoder.feed(data)
                self._hold(self._decoder.held_octets)
        self._hold(self._decoder.held_octets + len(message))
        return message

    def close(self) -> None:
        """Give the room back."""
        self._hold(0)

    def _hold(self, octets: int) -> None:
        self._room.change(self._held_octets, octets)
        self._held_octets = octets
