"""What both ends of a stream send each other: frames of octets, each for one command.

A frame is a kind, the number of its command (a channel), a length, and so many octets. The client
chooses the number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

_HEADER = struct.Struct("!BHI")
DATA_MAX_OCTETS = 1 << 16
_CODE = struct.Struct("!i")


class FrameError(ValueError):
    """What came is no frame; the text says why."""


class Kind(IntEnum):
    """What a frame says. The first four and the last are the client's, the others the server's.

    CAPTURE is for who looks after the kernels of a lab.
    """

    RUN = 1  # a command: JSON with `argv`, `environment` and `directory`
    INPUT = 2  # octets for its standard input
    INPUT_END = 3
    KILL = 4
    OUTPUT = 5
    ERRORS = 6  # octets of its standard error
    ENDED = 7  # its exit code; the last of a channel
    READY = 8  # the node is up; of no command
    CAPTURE = 9  # JSON: names of ports; answered by OUTPUT, the path of a file, or ERRORS


class Frame(NamedTuple):
    kind: Kind
    channel: int
    data: bytes = b""

    def encoded(self) -> bytes:
        return _HEADER.pack(self.kind, self.channel, len(self.data)) + self.data

    @property
    def exit_code(self) -> int:
        """The exit code that a frame ENDED has; that of a shell where a signal ended the command.

        Raises:
            FrameError: it has none.
        """
        if len(self.data) != _CODE.size:
            raise FrameError(f"an exit code of {len(self.data)} octets")
        (code,) = _CODE.unpack(self.data)
        return 128 - code if code < 0 else int(code)


def ended(channel: int, code: int) -> Frame:
    """The last frame of a command; `code` is below zero where a signal ended it (subprocess)."""
    return Frame(Kind.ENDED, channel, _CODE.pack(code))


class Decoder:
    """Cuts a stream into frames."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, octets: bytes) -> Iterator[Frame]:
        """The frames that are complete with these octets.

        Raises:
            FrameError: a header that no client or server writes.
        """
        self._pending += octets
        while len(self._pending) >= _HEADER.size:
            kind, channel, length = _HEADER.unpack_from(self._pending)
            if kind not in list(Kind) or length > DATA_MAX_OCTETS:
                raise FrameError(f"kind {kind}, {length} octets")
            end = _HEADER.size + length
            if len(self._pending) < end:
                return
            data, self._pending = self._pending[_HEADER.size : end], self._pending[end:]
            yield Frame(Kind(kind), channel, data)
