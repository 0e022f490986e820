"""Polls the switch whenever its kernel reports a change.

Drift is reported and left in place: it was made on purpose, or by a mistake that an operator wants
to see. What keeps the configuration from being in force is repaired: a late interface, a clock
that had not settled, and stalled schedules.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.datastore.changes import Changes
from agent.events import ClockStep, Event, PortDrift, PortRestored, PortStateChange
from agent.mechanisms.gates.model import GateState
from agent.model import Clock, OperStatus, PortState
from agent.run_context import RunContext, run_context, stalled_ports
from agent.switch import Switch, differences

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Link:
    oper_status: OperStatus = OperStatus.NOT_PRESENT
    speed_bps: int | None = None


class Watch:
    """Polls once in its constructor, so that the configuration is in force afterwards."""

    def __init__(self, switch: Switch, changes: Changes, notify: Callable[[Event], None]) -> None:
        self._switch = switch
        self._changes = changes
        self._notify = notify
        self._links: Mapping[str, _Link] = {}
        self._drifts: Mapping[str, str] = {}
        self._monitor = switch.ports.change_monitor()
        self._poll()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End polling."""
        self._monitor.stop()
        self._thread.join()
        self._monitor.close()

    def _run(self) -> None:
        while self._monitor.wait():
            try:
                self._poll()
            except Exception:  # a poll that fails must not be the last one
                LOG.exception("cannot compare the ports with their configuration")

    def _poll(self) -> None:
        with self._changes.lock:
            states = self._switch.read()
            if self._changes.apply_to_new_ports(states):
                states = self._switch.read()
            if self._changes.end_wait(states):
                states = self._switch.read()
            before = self._changes.memory.run_context
            # Ports that are not configured as well: one that will be may lose its link right after.
            ports = states.keys() | self._changes.desired.keys()
            now = run_context(ports, states, self._switch.ports.clock_offsets_ns(), before)
            if stalled := stalled_ports(states, before, now):
                refused = self._restart([states[name] for name in stalled])
                states = self._switch.read()
                self._changes.retry(refused)
                now = now.stopped(name for name in refused if _has_gates(states.get(name)))
            self._changes.remember(now)
            events = [
                *self._clock_steps(before, now),
                *self._link_changes(states),
                *self._drift_changes(states),
            ]
        for event in events:
            self._notify(event)

    def _restart(self, states: Sequence[PortState]) -> Collection[str]:
        """Start these schedules again; returns the ports where that was refused."""
        names = ", ".join(state.name for state in states)
        LOG.info("restarting stalled schedules: %s", names)
        refused = self._switch.restart(states)
        for name, reason in refused.items():
            LOG.error(
                "a stalled schedule could not be restarted:\n%s",
                reason,
                extra={"fields": {"TSN_PORT": name}},
            )
        return refused.keys()

    def _clock_steps(self, before: RunContext, now: RunContext) -> Iterator[Event]:
        if steps_ns := before.steps_ns(now):
            yield ClockStep(self._switch.ports.tai_offset_s(), steps_ns.get(Clock.TAI, 0))

    def _link_changes(self, states: Mapping[str, PortState]) -> Iterator[Event]:
        desired = self._changes.desired
        links = dict.fromkeys(desired, _Link()) | {
            name: _Link(state.oper_status, state.link_speed_bps) for name, state in states.items()
        }
        for name in desired:
            link = links[name]
            if self._links.get(name, link) != link:
                yield PortStateChange(name, link.oper_status, link.speed_bps)
        self._links = links

    def _drift_changes(self, states: Mapping[str, PortState]) -> Iterator[Event]:
        drifts = differences(self._switch.ports.mechanisms, self._changes.desired, states)
        for name, difference in drifts.items():
            if self._drifts.get(name) != difference:
                yield PortDrift(name, difference)
        for name in self._drifts:
            if name in states and name not in drifts:
                yield PortRestored(name)
        # Whether a port that is gone will do what is configured is not known yet.
        gone = {name: words for name, words in self._drifts.items() if name not in states}
        self._drifts = gone | drifts


def _has_gates(state: PortState | None) -> bool:
    return state is not None and state[GateState].taprio is not None
