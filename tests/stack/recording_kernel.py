"""The product's own ports in memory, with what a test needs around them: a record, and faults.

Native tests need them because few machines have taprio; the kernel itself is tested in the VM. The
decisions are those of `agent.switch`, the ports those of `agent.memory_ports`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from queue import SimpleQueue
from typing import Any

from agent.composition import Contribution, KernelObject, Step
from agent.mechanisms import MECHANISMS
from agent.mechanisms.classification.model import DscpConfig, DscpState
from agent.mechanisms.gates.model import (
    ClassCounters,
    GateConfig,
    GateLimits,
    GateState,
    Taprio,
    TaprioMode,
)
from agent.memory_ports import MemoryPorts
from agent.model import AgentError, Clock, MacMerge, OperStatus, PortConfig, PortState, PtpStatus
from agent.root_qdisc import NO_QDISC
from agent.switch import Applied, Switch

LIST_MAX = 430
CYCLE_MAX_NS = 2**31 - 1


def port(name: str, ifindex: int = 2, *, foreign_qdisc: str | None = None) -> PortState:
    """A port that is not configured, of a driver that reports everything."""
    limits = GateLimits(LIST_MAX, CYCLE_MAX_NS, CYCLE_MAX_NS, 10)
    return PortState(
        name=name,
        ifindex=ifindex,
        tx_queues=8,
        link_speed_bps=1_000_000_000,
        root_qdisc=NO_QDISC,
        foreign_qdisc=foreign_qdisc,
        oper_status=OperStatus.UP,
        mac_address=f"02:00:00:00:00:{ifindex:02x}",
        driver="recording",
        mac_merge=MacMerge(),
        statistics={"in-octets": 2**40, "in-errors": 1, "out-octets": 2**41},
        parts=(GateState(limits_by_mode=dict.fromkeys(TaprioMode, limits)),),
    )


def configured(
    name: str, taprio: Taprio | None = None, priorities: Mapping[int, int] | None = None
) -> PortConfig:
    """A port that is asked for these gates and these priorities by DSCP."""
    return PortConfig(name, (GateConfig(taprio), DscpConfig(priorities or {})))


def altered(state: PortState, **changes: Any) -> PortState:
    """The port with some fields replaced: its own, those of its `GateState`, its rules."""
    fields = {field.name for field in dataclasses.fields(GateState)}
    gates = {name: changes.pop(name) for name in fields & changes.keys()}
    if limits := changes.pop("limits", None):
        gates["limits_by_mode"] = dict.fromkeys(TaprioMode, limits)
    rules = DscpState(changes.pop("dscp_priorities", state[DscpState].priorities))
    altered_gates = dataclasses.replace(state[GateState], **gates)
    return dataclasses.replace(state, **changes).with_part(altered_gates).with_part(rules)


def bare(state: PortState) -> PortState:
    """The port without gates."""
    return altered(state, root_qdisc=NO_QDISC, taprio=None, running=None, pending=None, counters=())


class NotifyingMonitor:
    """Notifies when a test says so, and at no other time."""

    def __init__(self) -> None:
        self._notifications: SimpleQueue[bool] = SimpleQueue()
        self.wait = self._notifications.get

    def notify(self) -> None:
        self._notifications.put(True)

    def stop(self) -> None:
        self._notifications.put(False)

    def close(self) -> None:
        """There is nothing to close."""


class RecordedPorts(MemoryPorts):
    """Ports in memory that count, refuse and delay as the `RecordingKernel` around them says."""

    def __init__(self, kernel: RecordingKernel, ports: Sequence[PortState]) -> None:
        super().__init__(MECHANISMS, ports)
        self._kernel = kernel
        self.monitors: list[NotifyingMonitor] = []

    def read(self) -> Mapping[str, PortState]:
        self._kernel.reads += 1
        return super().read()

    def execute(self, step: Step) -> None:
        time.sleep(self._kernel.delay_s)
        if self._kernel.refuse:
            raise AgentError(self._kernel.refuse)
        super().execute(step)
        for name in {each.port for each in step.after} & self.states.keys():
            state = self.states[name]
            counters = tuple(map(_counted, range(len(state[GateState].counters))))
            self.states[name] = altered(state, counters=counters)

    def restart(
        self,
        states: Sequence[PortState],
        present: Mapping[KernelObject, Sequence[Contribution]],
    ) -> Mapping[str, str]:
        """Where `refuse` says so, a schedule is removed and not set again."""
        if self._kernel.refuse:
            self.states |= {state.name: bare(state) for state in states}
        self._kernel.record(*(f"restart {state.name}" for state in states))
        if not self._kernel.refuse:
            return {}
        return dict.fromkeys((state.name for state in states), self._kernel.refuse)

    def problems(self, config: PortConfig) -> Iterator[str]:
        if self._kernel.gates_refused and config[GateConfig].taprio:
            yield self._kernel.gates_refused

    def capabilities(self) -> Mapping[str, str]:
        return {"gates": self._kernel.gates_refused} if self._kernel.gates_refused else {}

    def leaves(self) -> dict[str, Any]:
        refused = self._kernel.gates_refused
        return super().leaves() | ({"gates-refused": refused} if refused else {})

    def change_monitor(self) -> NotifyingMonitor:
        self.monitors.append(NotifyingMonitor())
        return self.monitors[-1]

    def clock_offsets_ns(self) -> Mapping[Clock, int]:
        return dict(self._kernel.offsets_ns)

    def now_ns(self, of: Clock) -> int:
        return time.time_ns() if self._kernel.time_ns is None else self._kernel.time_ns

    def tai_offset_s(self) -> int:
        return 37

    def ptp_status(self) -> PtpStatus | None:
        return self._kernel.ptp

    def unsettled(self, clock_error_ns: int) -> str | None:
        self._kernel.allowed_ns = clock_error_ns
        return self._kernel.unsettled

    def close(self) -> None:
        self._kernel.record("close")


class RecordedChange(Applied):
    """What was applied; its undo is written down, too."""

    def __init__(self, kernel: RecordingKernel, applied: Applied) -> None:
        super().__init__(kernel.ports, applied.steps, applied.steps)
        self._kernel = kernel

    def undo(self) -> None:
        super().undo()
        self._kernel.record(*(f"undo {name}" for name in sorted(self.ports, reverse=True)))


class RecordingKernel(Switch):
    """A switch of ports in memory. `log` lists what was done, `reads` counts the times it was read.

    Its clocks stand at `time_ns`, and move only when a test moves them; None: the machine's own.
    `unsettled` is what its clock lacks, `allowed_ns` the clock error by which it was judged.
    `refuse` and `delay_s` make trouble; `changed` and `vanished` are what happens to a port without
    the agent.
    """

    def __init__(self, *ports: PortState, now_ns: int | None = None) -> None:
        self.log: list[str] = []
        self.reads = 0
        self.refuse: str | None = None
        self.delay_s = 0.0
        self.time_ns = now_ns
        self.offsets_ns = {Clock.TAI: 0, Clock.REALTIME: 0}
        self.gates_refused: str | None = None
        self.ptp: PtpStatus | None = None
        self.unsettled: str | None = None
        self.allowed_ns: int | None = None
        self.ports: RecordedPorts = RecordedPorts(self, ports)

    @property
    def states(self) -> dict[str, PortState]:
        """The ports as they are, for a test to look at and to change."""
        return self.ports.states

    def apply(
        self, desired: Mapping[str, PortConfig], states: Mapping[str, PortState] | None = None
    ) -> Applied:
        applied = RecordedChange(self, super().apply(desired, states))
        self.record(*(f"apply {name}" for name in sorted(applied.ports)))
        return applied

    def record(self, *lines: str) -> None:
        """Write down what was done to the ports just now."""
        self.log += lines

    def changed(self, state: PortState) -> None:
        self.states[state.name] = state
        self.notify()

    def vanished(self, name: str) -> None:
        del self.states[name]
        self.notify()

    def notify(self) -> None:
        for monitor in self.ports.monitors:
            monitor.notify()


def _counted(traffic_class: int) -> ClassCounters:
    """What each class counts, a number of its own."""
    octets = 64 * traffic_class
    return ClassCounters(traffic_class, octets, drops=0, tx_overruns=7, window_drops=0)
