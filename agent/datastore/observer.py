"""Looks at what frames do, as often as a mechanism asks for, and tells what it finds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from agent.datastore.changes import Changes
from agent.events import Event
from agent.model import NS_PER_S, Clock
from agent.switch import Switch

LOG = logging.getLogger(__name__)

# What was configured meanwhile may have to be looked at; where nothing is, a look costs nothing.
LOOK_S = 1.0


class Observer:
    """Runs in a thread of its own from construction until `close`."""

    def __init__(self, switch: Switch, changes: Changes, notify: Callable[[Event], None]) -> None:
        self._switch, self._changes, self._notify = switch, changes, notify
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End looking."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        wait_s = 0.0
        while not self._stop.wait(wait_s):
            wait_s = LOOK_S
            try:
                wait_s = self._look()
            except Exception:  # a look that fails must not be the last one
                LOG.exception("cannot look at what has become of frames")

    def _look(self) -> float:
        """Tell what is found; how long to wait then, in seconds."""
        with self._changes.lock:
            observed = self._switch.ports.observe()
        for event in observed.events:
            self._notify(event)
        if observed.next_ns is None:
            return LOOK_S
        left_ns = observed.next_ns - self._switch.ports.now_ns(Clock.MONOTONIC)
        return min(LOOK_S, max(0, left_ns) / NS_PER_S)
