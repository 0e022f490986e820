"""Run one command over a stream: `python -I client.py STREAM -- COMMAND...`.

STREAM is the path of a Unix socket, or `[ADDRESS]:PORT`, of IPv6 with a scope where it needs one.
Standard input, output and error are those of this process, and so is the exit code; 255: the stream
has ended before the command did.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cnc.testbed.remote.frames import DATA_MAX_OCTETS, Decoder, Frame, Kind

_READ_OCTETS = 4096
LOST = 255  # as ssh's


class Answer(NamedTuple):
    """What a command said, and its exit code."""

    code: int
    output: bytes
    errors: bytes


def connect(stream: str) -> socket.socket:
    """The stream that this text means.

    Raises OSError as the socket does.
    """
    if stream.startswith("["):
        host, _, port = stream.removeprefix("[").rpartition("]:")
        return socket.create_connection((host, int(port)))
    connected = socket.socket(socket.AF_UNIX)
    connected.connect(stream)
    return connected


def run(stream: socket.socket, argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command with this process's standard streams; returns its exit code, LOST without.

    Raises OSError as the socket does.
    """
    # Together, so that whoever reads both does so at one instant.
    first = _request(argv, environment)
    is_at_end = _input_is_at_end()
    if is_at_end:
        first += Frame(Kind.INPUT_END, 0).encoded()
    stream.sendall(first)
    if not is_at_end:
        threading.Thread(target=_copy_input, args=(stream,), daemon=True).start()
    for frame in _frames(stream):
        if frame.kind is Kind.ENDED:
            return frame.exit_code
        descriptor = 2 if frame.kind is Kind.ERRORS else 1
        data = frame.data
        while data:
            data = data[os.write(descriptor, data) :]
    return LOST


def ask(stream: socket.socket, argv: Sequence[str], octets: bytes = b"") -> Answer:
    """Run a command that reads these octets to their end before it writes much.

    Its exit code is LOST if the stream ends first. Raises OSError as the socket does.
    """
    pieces = [
        octets[start : start + DATA_MAX_OCTETS] for start in range(0, len(octets), DATA_MAX_OCTETS)
    ]
    frames = [*(Frame(Kind.INPUT, 0, piece) for piece in pieces), Frame(Kind.INPUT_END, 0)]
    stream.sendall(_request(argv, {}) + b"".join(frame.encoded() for frame in frames))
    said: dict[Kind, list[bytes]] = {Kind.OUTPUT: [], Kind.ERRORS: []}
    code = LOST
    for frame in _frames(stream):
        if frame.kind is Kind.ENDED:
            code = frame.exit_code
            break
        said[frame.kind].append(frame.data)
    return Answer(code, b"".join(said[Kind.OUTPUT]), b"".join(said[Kind.ERRORS]))


def _request(argv: Sequence[str], environment: Mapping[str, str]) -> bytes:
    request = json.dumps(
        {"argv": [*argv], "environment": dict(environment), "directory": str(Path.cwd())}
    )
    if len(request) > DATA_MAX_OCTETS:
        raise SystemExit(f"the command has {len(request)} octets, at most {DATA_MAX_OCTETS} do")
    return Frame(Kind.RUN, 0, request.encode()).encoded()


def _input_is_at_end() -> bool:
    """Whether standard input is /dev/null."""
    return os.fstat(0).st_rdev == os.stat(os.devnull).st_rdev  # noqa: PTH116


def _frames(stream: socket.socket) -> Iterator[Frame]:
    decoder = Decoder()
    while octets := stream.recv(_READ_OCTETS):
        yield from decoder.feed(octets)


def _copy_input(stream: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the command has ended, and this process is about to
        while octets := os.read(0, _READ_OCTETS):
            stream.sendall(Frame(Kind.INPUT, 0, octets).encoded())
        stream.sendall(Frame(Kind.INPUT_END, 0).encoded())


def main(arguments: Sequence[str]) -> int:
    """Run the command of these arguments; see the module."""
    where, _, *argv = arguments
    code = LOST
    with contextlib.suppress(OSError), connect(where) as stream:
        code = run(stream, argv, {})
    if code == LOST:
        sys.stderr.write(f"the stream {where} ended before the command did\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
