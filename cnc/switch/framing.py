"""Decodes NETCONF messages from the octets of a session: RFC 6242 4, both framings.

ncclient's own parser scans everything received of a message again with each piece of it.
"""

from __future__ import annotations

import re

from ncclient.transport.errors import NetconfFramingError

END_OF_MESSAGE = b"]]>]]>"  # 4.3
END_OF_CHUNKS = b"\n##\n"  # 4.2
# Much more than the reply of a switch with a thousand ports; a message needs about ten times as
# much memory.
MESSAGE_MAX_OCTETS = 32 * 1024 * 1024
_HEADER = re.compile(rb"\n#([1-9][0-9]{0,9})\n")
_HEADER_MAX_OCTETS = 13


class Decoder:
    """Collects octets and returns whole messages."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._searched_octets = 0
        self._message = bytearray()
        self._chunk_remaining_octets = 0

    def feed(self, octets: bytes) -> None:
        """Add received octets. Raises NetconfFramingError for a message that is too long."""
        self._received += octets
        if len(self._received) + len(self._message) > MESSAGE_MAX_OCTETS:
            raise NetconfFramingError(f"a message of more than {MESSAGE_MAX_OCTETS} octets")

    def next_message(self, *, chunked: bool) -> str | None:
        """The next whole message, or None until more octets are fed.

        Raises NetconfFramingError, and ValueError for one that is not UTF-8.
        """
        message = self._next_chunked() if chunked else self._next_terminated()
        return None if message is None else message.decode().strip()

    def _next_terminated(self) -> bytes | None:
        end = self._received.find(END_OF_MESSAGE, self._searched_octets)
        if end < 0:
            # The first octets of the marker may be here already.
            self._searched_octets = max(0, len(self._received) - len(END_OF_MESSAGE) + 1)
            return None
        message = bytes(self._received[:end])
        del self._received[: end + len(END_OF_MESSAGE)]
        self._searched_octets = 0
        return message

    def _next_chunked(self) -> bytes | None:
        while True:
            chunk = self._received[: self._chunk_remaining_octets]
            del self._received[: len(chunk)]
            self._message += chunk
            self._chunk_remaining_octets -= len(chunk)
            if self._chunk_remaining_octets:
                return None
            if self._received.startswith(END_OF_CHUNKS):
                del self._received[: len(END_OF_CHUNKS)]
                message = bytes(self._message)
                self._message.clear()
                return message
            header = _HEADER.match(self._received)
            if header is None:
                self._refuse_no_header()
                return None
            self._chunk_remaining_octets = int(header[1])
            del self._received[: header.end()]

    def _refuse_no_header(self) -> None:
        """Raise NetconfFramingError unless the octets may be the beginning of a chunk header."""
        start = bytes(self._received[:_HEADER_MAX_OCTETS])
        if len(start) == _HEADER_MAX_OCTETS or not re.fullmatch(rb"(\n(#(#|[1-9]\d*)?)?)?", start):
            raise NetconfFramingError(f"expected the start of a chunk, found {start!r}")
