"""The decider: what is to be, what is, and the steps between; all of them are done, or none.

It reads the ports, plans one `Step` for each kernel object that changes, refuses what cannot be,
and executes exactly the planned steps in the planned order. It knows neither sysrepo nor netlink.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from agent.composition import Change, Contribution, KernelObject, Step, compose
from agent.mechanism import Mechanism, Node, Observation, present_objects
from agent.model import (
    AgentError,
    Clock,
    PortConfig,
    PortState,
    PtpStatus,
    Refusal,
    refused,
)
from agent.wake_ups import WakeUps

# What a step that is refused raises.
REFUSALS = (AgentError, OSError)

# What the kernel lacks altogether, or has no more of. EINVAL may be about anything.
_TAG_OF_ERRNO = {
    errno.EOPNOTSUPP: "operation-not-supported",
    524: "operation-not-supported",  # ENOTSUPP, which drivers let through
    errno.ENOMEM: "resource-denied",
    errno.ENOBUFS: "resource-denied",
    errno.ENOSPC: "resource-denied",
}


class ChangeMonitor(Protocol):
    """Notifies when the ports may have changed."""

    def wait(self) -> bool:
        """True when the ports may have changed, or it is time to read them; False once stopped."""

    def stop(self) -> None:
        """End a `wait`, now or later, with False."""

    def close(self) -> None: ...


class Ports(Protocol):
    """The ports of a machine: the kernel's (`agent.kernel.ports`), or some in memory."""

    @property
    def mechanisms(self) -> Sequence[Mechanism]: ...

    def read(self) -> Mapping[str, PortState]:
        """Every port as it is now, by name."""

    def execute(self, step: Step) -> None:
        """Replace one kernel object; what is raised leaves it as it was."""

    def problems(self, config: PortConfig) -> Iterable[str]:
        """Why the kernel cannot do what a port is asked, whatever the port."""

    def repairs(self) -> Iterable[Change]:
        """Changes for what the newest `read` found disturbed but no port shows."""

    def observe(self) -> Observation:
        """What has become of frames that only who looks again and again finds out."""

    def restart(
        self, states: Sequence[PortState], present: Mapping[KernelObject, Sequence[Contribution]]
    ) -> Mapping[str, str]:
        """See `Switch.restart`; `present` is what these ports have in kernel objects."""

    def capabilities(self) -> Mapping[str, str]:
        """The mechanisms that the kernel cannot run, with the reason."""

    def leaves(self) -> Node:
        """What mechanisms fill of `/tsn-linux:agent`."""

    def change_monitor(self) -> ChangeMonitor: ...
    def now_ns(self, clock: Clock) -> int: ...

    def clock_offsets_ns(self) -> Mapping[Clock, int]:
        """How far each clock that can be set is ahead of CLOCK_MONOTONIC, which cannot."""

    def tai_offset_s(self) -> int:
        """TAI - UTC as the kernel knows it."""

    def ptp_status(self) -> PtpStatus | None:
        """What the PTP daemon says; None if there is none. Takes a tenth of a second at most."""

    def unsettled(self, clock_error_ns: int) -> str | None:
        """What the clock lacks to run a plan that allows two clocks to differ by so much; None: it
        counts as settled. As the newest `read` found the daemon that keeps it."""

    def measure_wake_ups(self, path: Path) -> None:
        """Measure from now on how late timers wake up; `path` is the file that outlives it."""

    def remove_probe(self) -> None:
        """Remove what an agent that was killed measured wake-ups with."""

    def wake_ups(self) -> WakeUps | None:
        """How late the timers woke up that open gates in software; None: not measured."""

    def close(self) -> None: ...


class Applied:
    """What was done. Empty `steps`: the ports agreed already."""

    def __init__(self, ports: Ports, steps: Sequence[Step], done: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        self._ports = ports
        self._done = list(done)

    @property
    def changes(self) -> tuple[Change, ...]:
        """What the mechanisms changed, in the order in which it was done."""
        return tuple(change for step in self.steps for change in step.changes)

    @property
    def ports(self) -> frozenset[str]:
        """The names of the ports that changed."""
        return frozenset(change.port for change in self.changes if change.port is not None)

    def undo(self) -> None:
        """Undo the steps in reverse. AgentError names those that could not be undone."""
        failures = []
        while self._done:
            try:
                self._ports.execute(self._done.pop().undo)
            except REFUSALS as failure:
                failures.append(str(failure))
        if failures:
            text = "not restored: " + "\n".join(failures)
            raise AgentError(text, [Refusal(text, tag="rollback-failed")])


class Switch:
    """The ports of this machine and what decides about them. Not to be used by two threads."""

    def __init__(self, ports: Ports) -> None:
        self.ports = ports

    def read(self) -> Mapping[str, PortState]:
        """Every port as it is now, by name."""
        return self.ports.read()

    def apply(
        self, desired: Mapping[str, PortConfig], states: Mapping[str, PortState] | None = None
    ) -> Applied:
        """Make the switch do `desired`, the whole configuration, or nothing at all.

        A port absent from `desired` loses what is ours. `states` is the newest `read()`, if nothing
        has been applied since; without it the ports are read first. AgentError holds all reasons
        found beforehand, one a line, or the kernel's own; nothing has changed then.
        """
        if states is None:
            states = self.read()
        steps = plan(self.ports.mechanisms, desired, states, self.ports.repairs())
        if reasons := list(self._problems(steps, desired, states)):
            raise refused(reasons)
        return self._execute(steps)

    def restart(self, states: Sequence[PortState]) -> Mapping[str, str]:
        """Start again what stands still on these ports.

        Returns the kernel's reason by port where it refused; such a port may have lost its gates.
        """
        return self.ports.restart(states, present_objects(self.ports.mechanisms, states))

    def _problems(
        self,
        steps: Sequence[Step],
        desired: Mapping[str, PortConfig],
        states: Mapping[str, PortState],
    ) -> Iterator[Refusal]:
        """Only of what changes: what a port does already is not refused, also where it could not be
        set now (a link that is down counts as slow)."""
        changing = {change.port for step in steps for change in step.changes}
        asked = {n: c for n, c in desired.items() if n in changing or n not in states}
        yield from problems(self.ports, asked, states)
        for step in steps:
            yield from (Refusal(each, _port(step), "invalid-value") for each in step.problems())

    def _execute(self, steps: Sequence[Step]) -> Applied:
        """The steps in order. Whatever ends one undoes those before it and is raised again, a
        refusal as AgentError."""
        done: list[Step] = []
        for step in steps:
            try:
                self.ports.execute(step)
            except BaseException as refusal:
                told = [_refusal(step, refusal)]
                try:
                    Applied(self.ports, steps, done).undo()
                except AgentError as failure:
                    raise refused([*told, *failure.refusals]) from refusal
                if isinstance(refusal, REFUSALS):
                    raise refused(told) from refusal
                raise
            done.append(step)
        return Applied(self.ports, steps, done)


def _port(step: Step) -> str | None:
    """The port that a step changes; None for an object that several share."""
    ports = {change.port for change in step.changes}
    return ports.pop() if len(ports) == 1 else None


def _refusal(step: Step, error: BaseException) -> Refusal:
    """What ended the step, for a client."""
    port = _port(step)
    # An AgentError names the port, the system does not.
    text = f"port {port}: {error}" if port and isinstance(error, OSError) else str(error)
    return Refusal(text, port, _tag(error))


def _tag(refusal: BaseException | None) -> str:
    """The error-tag for what ended a step, by the kernel's error number where it has one."""
    while refusal is not None:
        # pyroute2's errors have theirs as `code`.
        number = getattr(refusal, "errno", None) or getattr(refusal, "code", None)
        if number in _TAG_OF_ERRNO:
            return _TAG_OF_ERRNO[number]
        refusal = refusal.__cause__
    return "operation-failed"


def plan(
    mechanisms: Collection[Mechanism],
    desired: Mapping[str, PortConfig],
    states: Mapping[str, PortState],
    repairs: Iterable[Change] = (),
) -> list[Step]:
    """The steps from `states` to `desired`, in the order of their stages; none where they agree.

    A port absent from `desired` loses what is ours.
    """
    changes = [
        change
        for name, state in states.items()
        for mechanism in mechanisms
        for change in mechanism.diff(desired.get(name) or PortConfig(name), state)
    ]
    changing = {change.target for change in changes}
    changes += (change for change in repairs if change.target not in changing)
    return compose(present_objects(mechanisms, states.values()), changes)


def problems(
    ports: Ports, desired: Mapping[str, PortConfig], states: Mapping[str, PortState]
) -> Iterator[Refusal]:
    """Every reason why the ports cannot do what is desired; none when they can."""
    for name, config in desired.items():
        if config.is_empty:
            continue
        state = states.get(name)
        if state is None:
            known = ", ".join(sorted(states)) or "none"
            text = f"port {name}: no such interface; this switch has {known}"
            yield Refusal(text, name, "invalid-value")
            continue
        for problem in ports.problems(config):
            yield Refusal(f"port {name}: {problem}", name, "operation-not-supported")
        for mechanism in ports.mechanisms:
            for problem in mechanism.problems(config, state):
                yield Refusal(f"port {name}: {problem}", name, "invalid-value")


def differences(
    mechanisms: Collection[Mechanism],
    desired: Mapping[str, PortConfig],
    states: Mapping[str, PortState],
) -> dict[str, str]:
    """How each port differs from what is desired of it, in words; none for one that agrees.

    What counts is what `plan` would change: a schedule whole cycles away is the same.
    """
    by_port: dict[str, list[str]] = {}
    for step in plan(mechanisms, desired, states):
        for change in step.changes:
            if change.port is not None:
                by_port.setdefault(change.port, []).append(change.difference)
    return {port: "; ".join(words) for port, words in by_port.items()}
