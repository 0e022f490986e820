"""A worker that has been taken over: in the place of serving it does what a test tells it.

`python -m tests.unit.taken_over_worker WORKER_ARGUMENTS` is the real program of a worker up to the
instant at which it would accept the first connection. Then it reads lines of Python from its input,
and answers each with a line of JSON: the value, or the name of the error.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from cnc.service.web import __main__ as worker
from cnc.service.web.server import Server


def sent(path: str, *frames: bytes) -> list[Any]:
    """What the core answers to octets on a connection of its own: messages, and None if it ends
    the connection."""
    found: list[Any] = []
    with socket.socket(socket.AF_UNIX) as core:
        core.connect(path)
        core.settimeout(20)
        with suppress(OSError):
            core.sendall(b"".join(frames))
            core.shutdown(socket.SHUT_WR)
        octets = b""
        while more := core.recv(1 << 16):
            octets += more
    while octets:
        (length,) = struct.unpack("!I", octets[:4])
        found.append(json.loads(octets[4 : 4 + length]))
        octets = octets[4 + length :]
    return found


def frame(**message: Any) -> bytes:
    octets = json.dumps(message).encode()
    return struct.pack("!I", len(octets)) + octets


def connected(host: str, port: int) -> str:
    """What a connection says that is made of nothing."""
    with socket.create_connection((host, port), 5) as connection:
        return connection.recv(100).decode()


def connected_by_port(descriptor: int, host: str, port: int) -> str:
    """The same, of the port that it was given, which is turned into a connection."""
    with socket.socket(fileno=os.dup(descriptor)) as given:
        nowhere = struct.pack("HH12x", socket.AF_UNSPEC, 0)
        ctypes.CDLL(None).connect(given.fileno(), nowhere, len(nowhere))
        given.connect((host, port))
        return given.recv(100).decode()


def _obey(_: Server) -> None:
    names = {
        **{each.__name__: each for each in (sent, frame, connected, connected_by_port, Path)},
        "os": os,
        "signal": signal,
    }
    for line in sys.stdin:
        try:
            said: Any = eval(line, names)  # noqa: S307  what the test that started it wrote
        except Exception as error:  # noqa: BLE001
            said = type(error).__name__
        sys.stdout.write(json.dumps(said, default=str) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    Server.run = _obey  # type: ignore[method-assign, assignment]
    sys.exit(worker.main())
