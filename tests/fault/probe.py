"""A process says before and after each step where it is, and goes on only when it may."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

GO_ON = b"."
LONGEST_PLACE_OCTETS = 256


class Probe:
    """A connection to the director (see there), for all threads of one process."""

    def __init__(self, director: Path, process: str) -> None:
        self._process = process
        self._lock = Lock()
        # Keeps messages apart.
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.connect(str(director))

    def at(self, place: str) -> None:
        """Tell the director, and return when it gives leave. It may kill this process instead."""
        with self._lock:
            self._socket.send(f"{self._process}: {place}".encode()[:LONGEST_PLACE_OCTETS])
            self._socket.recv(len(GO_ON))

    @contextmanager
    def around(self, step: str) -> Iterator[None]:
        """Tell before the block, and after it unless it fails."""
        self.at(f"before {step}")
        yield
        self.at(f"after {step}")
