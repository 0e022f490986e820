"""One datastore change after another brought to the ports: applied, then kept or taken back.

sysrepo asks first (`change`: applied here and now, so that the kernel's own refusal reaches the
client) and then says how it ended (`done` or `abort`). Sometimes it says nothing: a client that
timed out or died leaves the change open. A timer then looks at the running datastore, and takes the
change back if it did not land.

Nothing here speaks sysrepo; the datastore hands in plain trees.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from agent.datastore.desired import Tree, desired_ports
from agent.datastore.history import GateHistory, LastChange, history_after
from agent.datastore.memory import Memory, MemoryFile
from agent.datastore.switch import Applied, Switch
from agent.model import AgentError

LOG = logging.getLogger(__name__)

# Longer than sysrepo lets the other subscribers of one change take (5 s), so that a slow commit is
# not mistaken for a lost one.
SETTLE_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class _Open:
    """A change that is applied and waits for `done` or `abort`."""

    request_id: int
    tree: Tree
    applied: Applied
    summary: LastChange
    history: Mapping[str, GateHistory]


class Changes:
    """Thread-safe: sysrepo's callbacks, the timer and readers of operational data all come here.

    `lock` is held while ports change; a reader of the switch takes it and never sees half a change.
    """

    def __init__(
        self,
        switch: Switch,
        read_running: Callable[[], Tree],
        settle_timeout_s: float = SETTLE_TIMEOUT_S,
        memory_file: MemoryFile | None = None,
    ) -> None:
        """`read_running` returns what the running datastore holds now.

        Without a `memory_file` nothing outlives the process.
        """
        self._switch = switch
        self._read_running = read_running
        self._settle_timeout_s = settle_timeout_s
        self._open: _Open | None = None
        self._timer: threading.Timer | None = None
        self.lock = threading.RLock()
        self._memory_file = memory_file
        self.memory = memory_file.read() if memory_file else Memory()

    def change(self, request_id: int, tree: Tree) -> None:
        """Apply `tree`, the whole new configuration; raises `AgentError` and changes nothing."""
        with self.lock:
            if self._open:
                self._settle(self._open, self._read_running())
            self._open = self._apply(request_id, tree)
            self._timer = threading.Timer(self._settle_timeout_s, self._on_timeout, [self._open])
            self._timer.daemon = True
            self._timer.start()

    def done(self, request_id: int, read_tree: Callable[[], Tree]) -> None:
        """The change landed in the datastore; `read_tree` is asked for it only if it was undone."""
        with self.lock:
            if self._open and self._open.request_id == request_id:
                self._keep(self._open)
                return
        LOG.warning("change %d landed after it was taken back; applying it", request_id)
        self.reconcile(read_tree())

    def abort(self, request_id: int) -> None:
        """Another subscriber refused the change."""
        with self.lock:
            if self._open and self._open.request_id == request_id:
                self._take_back(self._open, "another subscriber refused it")

    def reconcile(self, tree: Tree) -> None:
        """Make the ports agree with a configuration that is in force already.

        Nobody is left to refuse it to: what a port cannot do is logged, and the agent serves on.
        """
        with self.lock:
            try:
                self._keep(self._apply(0, tree))
            except AgentError as error:
                LOG.error("the running configuration is not what the ports do:\n%s", error)

    def close(self) -> None:
        """Wait for nothing more. The ports stay as they are: schedules outlive the agent."""
        with self.lock:
            self._forget_open()

    def _apply(self, request_id: int, tree: Tree) -> _Open:
        started_ns = time.monotonic_ns()
        before = self._switch.read()
        desired = desired_ports(tree, before)
        applied = self._switch.apply(desired, before)
        duration_us = (time.monotonic_ns() - started_ns) // 1000
        for step in applied.steps:
            LOG.info("%s", step.describe())
        ports = {step.port for step in applied.steps}
        return _Open(
            request_id,
            tree,
            applied,
            LastChange(datetime.now(UTC), duration_us, len(ports)),
            history_after(self.memory.history, before, desired, self._switch.now_ns),
        )

    def _on_timeout(self, change: _Open) -> None:
        # Read first: a callback that waits for our lock must not wait for sysrepo as well.
        running = self._read_running()
        with self.lock:
            if self._open is change:
                self._settle(change, running)

    def _settle(self, change: _Open, running: Tree) -> None:
        """End a change that nobody ended: only the running datastore knows how it went."""
        if running == change.tree:
            self._keep(change)
        else:
            self._take_back(change, "neither done nor abort came")

    def _keep(self, change: _Open) -> None:
        self._forget_open()
        summary = change.summary if change.applied.steps else self.memory.last_change
        memory = Memory(change.history, summary)
        if memory == self.memory:
            return
        self.memory = memory
        if self._memory_file:
            self._memory_file.write(memory)

    def _take_back(self, change: _Open, why: str) -> None:
        self._forget_open()
        LOG.warning("change %d is taken back: %s", change.request_id, why)
        try:
            change.applied.undo()
        except AgentError as error:
            LOG.error("change %d could not be taken back:\n%s", change.request_id, error)

    def _forget_open(self) -> None:
        self._open = None
        if self._timer:
            self._timer.cancel()
            self._timer = None
