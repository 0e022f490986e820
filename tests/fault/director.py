"""Gives every probed process leave to go on; at one chosen step it strikes first."""

from __future__ import annotations

import selectors
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import Self

from tests.fault.probe import GO_ON, LONGEST_PLACE_OCTETS


class Direction:
    """What is to happen during one rollout, and what did.

    `steps` are the places that were passed, in order; the second time at one place is a step of its
    own. At the step `target` it calls `strike`, before the process may go on.
    """

    def __init__(self, target: str | None = None, strike: Callable[[], None] | None = None) -> None:
        self.steps: list[str] = []
        self._target = target
        self._strike = strike
        self._struck: Future[None] = Future()
        self._visits: Counter[str] = Counter()

    @property
    def has_struck(self) -> bool:
        """Whether the target was reached. Raises what the strike raised."""
        return self._struck.done() and self._struck.result() is None

    def arrive(self, place: str) -> None:
        """A process is at this place, and stays there until this returns."""
        self._visits[place] += 1
        visit = self._visits[place]
        step = place if visit == 1 else f"{place} ({visit})"
        self.steps.append(step)
        if step == self._target and self._strike:
            try:
                self._struck.set_result(self._strike())
            except Exception as error:  # noqa: BLE001  it is raised where somebody can hear it
                self._struck.set_exception(error)


class Director:
    """Listens on the socket `path` for probes, in a thread of its own, from `with` to its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._direction: Direction | None = None
        self._lock = Lock()
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ended, self._end = socket.socketpair()
        self._thread = Thread(target=self._serve, name="director")

    def __enter__(self) -> Self:
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._selector.register(self._listener, selectors.EVENT_READ, self._admit)
        self._selector.register(self._ended, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.close()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    @contextmanager
    def directing(self, direction: Direction) -> Iterator[None]:
        """Follow `direction` for the time of the block; before and after every step is free."""
        with self._lock:
            self._direction = direction
        yield
        with self._lock:
            self._direction = None

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    return
                key.data()

    def _admit(self) -> None:
        probe, _ = self._listener.accept()
        self._selector.register(probe, selectors.EVENT_READ, partial(self._hear, probe))

    def _hear(self, probe: socket.socket) -> None:
        try:
            place = probe.recv(LONGEST_PLACE_OCTETS).decode()
        except ConnectionResetError:
            place = ""
        if not place:
            self._selector.unregister(probe)
            probe.close()
            return
        with self._lock:
            if self._direction:
                self._direction.arrive(place)
        with suppress(BrokenPipeError, ConnectionResetError):  # it may have been the one struck
            probe.send(GO_ON)
