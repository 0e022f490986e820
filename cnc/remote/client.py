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
from collections.abc import Mapping, Sequence
from pathlib import Path

from cnc.remote.frames import DATA_MAX_OCTETS, Decoder, Frame, Kind

_READ_OCTETS = 4096
LOST = 255  # as ssh's


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
    request = json.dumps(
        {"argv": [*argv], "environment": dict(environment), "directory": str(Path.cwd())}
    )
    if len(request) > DATA_MAX_OCTETS:
        raise SystemExit(f"the command has {len(request)} octets, at most {DATA_MAX_OCTETS} do")
    # Together, so that whoever reads both does so at one instant.
    first = Frame(Kind.RUN, 0, request.encode()).encoded()
    is_at_end = _input_is_at_end()
    if is_at_end:
        first += Frame(Kind.INPUT_END, 0).encoded()
    stream.sendall(first)
    if not is_at_end:
        threading.Thread(target=_copy_input, args=(stream,), daemon=True).start()
    return _follow(stream)


def _input_is_at_end() -> bool:
    """Whether standard input is /dev/null."""
    return os.fstat(0).st_rdev == os.stat(os.devnull).st_rdev  # noqa: PTH116


def _follow(stream: socket.socket) -> int:
    decoder = Decoder()
    while octets := stream.recv(_READ_OCTETS):
        for frame in decoder.feed(octets):
            if frame.kind is Kind.ENDED:
                return frame.exit_code
            descriptor = 2 if frame.kind is Kind.ERRORS else 1
            data = frame.data
            while data:
                data = data[os.write(descriptor, data) :]
    return LOST


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
