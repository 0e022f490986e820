"""Ends what takes too long, whatever it waits for: one thread for all deadlines.

A thread for each deadline would cost as much as a short request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush


@dataclass(order=True, slots=True)
class Deadline:
    """`expire` is called at `at_s` (monotonic) unless `is_over` by then."""

    at_s: float
    expire: Callable[[], None] = field(compare=False)
    is_over: bool = field(default=False, compare=False)
    has_expired: bool = field(default=False, compare=False)


class _Deadlines:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pending: list[Deadline] = []
        self._thread: threading.Thread | None = None

    def add(self, deadline: Deadline) -> None:
        with self._changed:
            heappush(self._pending, deadline)
            # A fork has the pending deadlines, and no thread.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="deadlines", daemon=True)
                self._thread.start()
            elif self._pending[0] is deadline:
                self._changed.notify()

    def end(self, deadline: Deadline) -> None:
        """After this `expire` is not called."""
        with self._changed:
            deadline.is_over = True

    def _run(self) -> None:
        with self._changed:
            while True:
                while self._pending and self._pending[0].is_over:
                    heappop(self._pending)
                if not self._pending:
                    self._changed.wait()
                    continue
                wait_s = self._pending[0].at_s - time.monotonic()
                if wait_s > 0:
                    self._changed.wait(wait_s)
                    continue
                expired = heappop(self._pending)
                expired.has_expired = True
                expired.expire()


_DEADLINES = _Deadlines()


@contextmanager
def expires_after(timeout_s: float, expire: Callable[[], None]) -> Iterator[Deadline]:
    """Call `expire`, in another thread, if the block takes longer than `timeout_s`.

    It must be short, and raise nothing: all deadlines wait for it. It makes the block end, for
    instance by closing what the block reads from; `has_expired` tells afterwards.
    """
    deadline = Deadline(time.monotonic() + timeout_s, expire)
    _DEADLINES.add(deadline)
    try:
        yield deadline
    finally:
        _DEADLINES.end(deadline)
