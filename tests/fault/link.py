"""A link to one switch that holds what is sent over it, and delivers it later: a TCP proxy.

The end of a connection waits behind its data, is delivered a second after it, and as an orderly
one: that the controller resets a connection must not be what keeps a held commit from the switch.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from threading import Event, Lock, Thread
from typing import Self

from cnc.model import Management

_CHUNK_OCTETS = 64 * 1024
_END_DELAY_S = 1.0


class Way(StrEnum):
    """What a link holds."""

    # Whatever is sent either way, and new connections: as where the link is down.
    LINK = "link"
    # What the controller sends on the connections that are open, or else on the next one. Answers
    # pass, and so do new connections: as where one of several links of a trunk is down.
    CONNECTION = "connection"


class HoldingLink:
    """Listens at `here` and passes everything on to `there`, from `with` to its end."""

    def __init__(self, here: Management, there: Management) -> None:
        self.here, self._there = here, there
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._lock = Lock()
        # What the controller sends on each connection passes while its event is set.
        self._connections: dict[socket.socket, Event] = {}
        self._passes = _set_event()
        self._holds_next = False
        self._has_held = False

    def __enter__(self) -> Self:
        self._listener.bind((self.here.address, self.here.port))
        self._listener.listen()
        Thread(target=self._accept, name="link", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        _end(self._listener)
        self._listener.close()
        with self._lock:
            clients = list(self._connections)
        for client in clients:
            _end(client)
        self.release()

    def hold(self, way: Way) -> None:
        """From now on hold what `way` says."""
        with self._lock:
            self._has_held = False
            if way is Way.LINK:
                self._passes.clear()
                return
            self._holds_next = not self._connections
            for passes in self._connections.values():
                passes.clear()

    def release(self) -> bool:
        """Deliver what was held, and hold nothing more. Returns whether anything was held."""
        with self._lock:
            self._holds_next = False
            for passes in (self._passes, *self._connections.values()):
                passes.set()
            return self._has_held

    @property
    def has_held(self) -> bool:
        """Whether something has come that is not delivered yet."""
        with self._lock:
            return self._has_held

    @property
    def is_idle(self) -> bool:
        """Whether no connection is open, at either end."""
        with self._lock:
            return not self._connections

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # it is closed
                return
            with self._lock:
                passes = Event() if self._holds_next else _set_event()
                self._holds_next = False
                self._connections[client] = passes
            Thread(target=self._carry, args=(client, passes), name="link", daemon=True).start()

    def _carry(self, client: socket.socket, passes: Event) -> None:
        with suppress(OSError), client, socket.socket() as server:
            self._wait(self._passes)
            server.connect((self._there.address, self._there.port))
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            answering = Thread(target=self._answer, args=(server, client), name="link", daemon=True)
            answering.start()
            was_held = False
            for data in _received(client):
                was_held |= self._wait(self._passes, passes)
                with suppress(OSError):  # the switch has ended it
                    server.sendall(data)
            self._wait(self._passes, passes)
            if was_held:
                time.sleep(_END_DELAY_S)
            with suppress(OSError):
                server.shutdown(socket.SHUT_WR)
            answering.join()
        with self._lock:
            del self._connections[client]

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        for data in _received(server):
            self._passes.wait()
            with suppress(OSError):  # the controller has ended it
                client.sendall(data)
        self._passes.wait()
        _end(client)

    def _wait(self, *passes: Event) -> bool:
        """Wait until the controller's data may pass; returns whether it had to."""
        has_waited = False
        for each in passes:
            if not each.is_set():
                has_waited = True
                with self._lock:
                    self._has_held = True
                each.wait()
        return has_waited


def _received(source: socket.socket) -> Iterator[bytes]:
    """What comes until the connection ends, be it by a reset."""
    with suppress(OSError):
        while data := source.recv(_CHUNK_OCTETS):
            yield data


def _set_event() -> Event:
    event = Event()
    event.set()
    return event


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
