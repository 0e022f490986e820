"""NETCONF messages in a byte stream: both framings of RFC 6242, and limits on size and time.

The decoder takes pieces of any size and never holds more than one message of `max_message_octets`
plus the last piece.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

END_OF_MESSAGE = b"]]>]]>"
END_OF_CHUNKS = b"\n##\n"
MAX_CHUNK_OCTETS = 4_294_967_295
# A chunk header is LF, number sign, up to ten digits, LF.
MAX_HEADER_OCTETS = 13


class FramingError(Exception):
    """The peer's bytes are not NETCONF framing, or its message is too long: end the session."""


class Decoder:
    """Collects bytes and returns whole messages. Starts with end-of-message framing."""

    def __init__(self, max_message_octets: int) -> None:
        self._max_message_octets = max_message_octets
        self._buffer = bytearray()
        self._searched_octets = 0
        self._chunked = False
        self._message = bytearray()
        self._chunk_octets_left = 0

    def use_chunks(self) -> None:
        """Read everything after the message returned last as chunked framing (base:1.1)."""
        self._chunked = True

    @property
    def held_octets(self) -> int:
        """Octets of incomplete messages, and of what follows them."""
        return len(self._buffer) + len(self._message)

    def feed(self, data: bytes) -> None:
        """Add the next bytes of the stream."""
        self._buffer += data

    def next_message(self) -> bytes | None:
        """The next whole message, or None until more bytes are fed.

        Raises FramingError; the decoder must not be used after that.
        """
        return self._next_chunked() if self._chunked else self._next_terminated()

    def _next_terminated(self) -> bytes | None:
        end = self._buffer.find(END_OF_MESSAGE, self._searched_octets)
        if end < 0:
            # The marker's first octets may already be here.
            self._searched_octets = max(0, len(self._buffer) - len(END_OF_MESSAGE) + 1)
            self._check_length(self._searched_octets)
            return None
        self._check_length(end)
        message = bytes(self._buffer[:end])
        del self._buffer[: end + len(END_OF_MESSAGE)]
        self._searched_octets = 0
        return message

    def _next_chunked(self) -> bytes | None:
        while True:
            if self._chunk_octets_left:
                taken = self._buffer[: self._chunk_octets_left]
                del self._buffer[: len(taken)]
                self._message += taken
                self._chunk_octets_left -= len(taken)
            if self._chunk_octets_left:
                return None
            header = self._take_header()
            if header is None:
                return None
            if header == END_OF_CHUNKS:
                if not self._message:
                    raise FramingError("a message without a single chunk")
                message = bytes(self._message)
                self._message.clear()
                return message
            self._chunk_octets_left = _chunk_octets(header)
            self._check_length(len(self._message) + self._chunk_octets_left)

    def _take_header(self) -> bytes | None:
        start = bytes(self._buffer[:2])
        if not b"\n#".startswith(start):
            raise FramingError(f"expected the start of a chunk, found {start!r}")
        end = self._buffer.find(b"\n", 2, MAX_HEADER_OCTETS)
        if end < 0:
            if len(self._buffer) >= MAX_HEADER_OCTETS:
                raise FramingError("a chunk header that does not end")
            return None
        header = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        return header

    def _check_length(self, octets: int) -> None:
        if octets > self._max_message_octets:
            raise FramingError(f"a message longer than {self._max_message_octets} octets")


def _chunk_octets(header: bytes) -> int:
    digits = header[2:-1]
    # bytes.isdigit() is true for ASCII digits only, and false for nothing at all.
    if not digits.isdigit() or digits.startswith(b"0") or int(digits) > MAX_CHUNK_OCTETS:
        raise FramingError(f"chunk size {digits!r} is not a number from 1 to {MAX_CHUNK_OCTETS}")
    return int(digits)


def encode(message: bytes, *, chunked: bool) -> bytes:
    """The message as it goes on the wire."""
    if chunked:
        return b"\n#%d\n%b%b" % (len(message), message, END_OF_CHUNKS)
    return message + END_OF_MESSAGE


# Messages up to this size do not count: the number of sessions bounds their sum.
SMALL_OCTETS = 65_536


class Source(Protocol):
    """A byte stream from a client. A closed one reads as b""."""

    async def read(self) -> bytes:
        """The next bytes, b"" at the end."""


class OverBudget(FramingError):
    """The long messages of all clients together take too much memory."""


class MemoryBudget(Protocol):
    """Grants the octets of the long messages that all sessions hold together."""

    async def hold(self, octets: int) -> None:
        """Hold this many, and no longer those granted before. Raises OverBudget."""


class MessageReader:
    """Reads the messages of one session one by one."""

    def __init__(self, source: Source, max_message_octets: int, budget: MemoryBudget) -> None:
        self._source = source
        self._decoder = Decoder(max_message_octets)
        self._budget = budget
        self._held_octets = 0

    def use_chunks(self) -> None:
        """From now on the client uses chunked framing (base:1.1)."""
        self._decoder.use_chunks()

    async def receive(self, timeout_s: float | None) -> bytes | None:
        """The next message, None if the client is gone; it counts until the next call.

        Raises FramingError (OverBudget is one), or TimeoutError: call again to wait on.
        """
        await self._hold(self._decoder.held_octets)
        async with asyncio.timeout(timeout_s):
            while (message := self._decoder.next_message()) is None:
                data = await self._source.read()
                if not data:
                    return None
                self._decoder.feed(data)
                await self._hold(self._decoder.held_octets)
        await self._hold(self._decoder.held_octets + len(message))
        return message

    async def _hold(self, octets: int) -> None:
        held = octets if octets > SMALL_OCTETS else 0
        if held != self._held_octets:
            await self._budget.hold(held)
            self._held_octets = held
