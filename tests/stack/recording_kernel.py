"""A switch without a kernel: does what `agent.kernel.Kernel` promises and writes it down.

Native tests need it because few machines have taprio; the kernel itself is tested in the VM.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue

from agent.model import (
    AgentError,
    ClassCounters,
    Clock,
    GateLimits,
    OperStatus,
    PortConfig,
    PortState,
    PtpStatus,
)

LIST_MAX = 430
CYCLE_MAX_NS = 2**31 - 1


def port(name: str, ifindex: int = 2, *, foreign_qdisc: str | None = None) -> PortState:
    """A port nobody has configured yet, of a driver that tells everything."""
    return PortState(
        name=name,
        ifindex=ifindex,
        tx_queues=8,
        link_speed_bps=1_000_000_000,
        root_qdisc="mq",
        foreign_qdisc=foreign_qdisc,
        taprio=None,
        running=None,
        pending=None,
        limits=GateLimits(LIST_MAX, CYCLE_MAX_NS, CYCLE_MAX_NS, 10),
        oper_status=OperStatus.UP,
        mac_address=f"02:00:00:00:00:{ifindex:02x}",
        driver="recording",
        has_mac_merge=True,
        statistics={"in-octets": 2**40, "in-errors": 1, "out-octets": 2**41},
    )


def bare(state: PortState) -> PortState:
    """The port without gates."""
    return dataclasses.replace(
        state, root_qdisc="mq", taprio=None, running=None, pending=None, counters=()
    )


@dataclasses.dataclass(frozen=True)
class RecordedStep:
    port: str

    def describe(self) -> str:
        return f"port {self.port}: changed"


@dataclasses.dataclass(frozen=True)
class RecordedChange:
    steps: tuple[RecordedStep, ...]
    undo: Callable[[], None]


def _same_gates(want: PortConfig, state: PortState) -> bool:
    """Whether nothing but the base time differs, by whole cycles: `agent.reconcile` leaves that."""
    if want.taprio is None or state.taprio is None:
        return False
    same_base = dataclasses.replace(want.taprio, schedule=state.taprio.schedule)
    return same_base == state.taprio and state.moves_gates_as(want.taprio.schedule)


class RecordedDoorbell:
    """Rings when a test says so, and at no other time."""

    def __init__(self) -> None:
        self._rings: SimpleQueue[bool] = SimpleQueue()
        self.wait = self._rings.get

    def ring(self) -> None:
        self._rings.put(True)

    def stop(self) -> None:
        self._rings.put(False)

    def close(self) -> None:
        """There is nothing to close."""


class RecordingKernel:
    """Ports in memory. `log` lists what was done to them, `reads` counts how often it was asked.

    Its clocks stand at `time_ns`, and move only when a test moves them; None: the machine's own. A
    late list runs at once here. `refuse` and `delay_s` make trouble; `changed` and `vanished` are
    what happens to a port without the agent.
    """

    classifier_name = "iptables-nft"

    def __init__(self, *ports: PortState, now_ns: int | None = None) -> None:
        self.ports = {port.name: port for port in ports}
        self.log: list[str] = []
        self.reads = 0
        self.refuse: str | None = None
        self.delay_s = 0.0
        self.time_ns = now_ns
        self.offsets_ns = {Clock.TAI: 0, Clock.REALTIME: 0}
        self._doorbells: list[RecordedDoorbell] = []
        self.gates_refused: str | None = None
        self.ptp: PtpStatus | None = None

    def read(self) -> Mapping[str, PortState]:
        self.reads += 1
        for name, state in self.ports.items():
            if state.pending and state.pending.base_time_ns <= self.now_ns(Clock.TAI):
                self.ports[name] = dataclasses.replace(state, running=state.pending, pending=None)
        return dict(self.ports)

    def capability(self) -> str | None:
        return self.gates_refused

    def apply(
        self, desired: Mapping[str, PortConfig], states: Mapping[str, PortState] | None = None
    ) -> RecordedChange:
        if self.refuse:
            raise AgentError(self.refuse)
        if absent := desired.keys() - self.ports.keys():
            raise AgentError(f"port {min(absent)}: no such interface")
        time.sleep(self.delay_s)
        before = dict(self.read() if states is None else states)
        for name, state in before.items():
            want = desired.get(name, PortConfig(name, None))
            rules = want.dscp_priorities
            if _same_gates(want, state):
                self.ports[name] = dataclasses.replace(state, dscp_priorities=rules)
                continue
            schedule = want.taprio.schedule if want.taprio else None
            ahead = schedule is not None and schedule.base_time_ns > self.now_ns(Clock.TAI)
            self.ports[name] = dataclasses.replace(
                state,
                root_qdisc="taprio" if want.taprio else "mq",
                taprio=want.taprio,
                running=state.running if ahead else schedule,
                pending=schedule if ahead else None,
                dscp_priorities=rules,
                counters=tuple(
                    ClassCounters(frames=t, octets=64 * t, drops=0, tx_overruns=7, window_drops=0)
                    for t in range(len(want.taprio.queues) if want.taprio else 0)
                ),
            )
        changed = tuple(
            RecordedStep(name) for name in sorted(before) if before[name] != self.ports[name]
        )
        self.log += [f"apply {step.port}" for step in changed]

        def undo() -> None:
            if self.refuse:
                raise AgentError(f"not restored: {self.refuse}")
            # An interface that came since is another one, of which nothing can be restored.
            self.ports |= {
                name: state
                for name, state in before.items()
                if name in self.ports and self.ports[name].ifindex == state.ifindex
            }
            self.log += [f"undo {step.port}" for step in reversed(changed)]

        return RecordedChange(changed, undo)

    def changed(self, state: PortState) -> None:
        self.ports[state.name] = state
        self.ring()

    def vanished(self, name: str) -> None:
        del self.ports[name]
        self.ring()

    def ring(self) -> None:
        for doorbell in self._doorbells:
            doorbell.ring()

    def doorbell(self) -> RecordedDoorbell:
        self._doorbells.append(RecordedDoorbell())
        return self._doorbells[-1]

    def restart(self, states: Sequence[PortState]) -> Mapping[str, str]:
        """Where `refuse` says so, a list is removed and not set again."""
        self.log += [f"restart {state.name}" for state in states]
        if not self.refuse:
            return {}
        self.ports |= {state.name: bare(state) for state in states}
        return dict.fromkeys((state.name for state in states), self.refuse)

    def clock_offsets_ns(self) -> Mapping[Clock, int]:
        return dict(self.offsets_ns)

    def now_ns(self, clock: Clock) -> int:
        return time.time_ns() if self.time_ns is None else self.time_ns

    def tai_offset_s(self) -> int:
        return 37

    def ptp_status(self) -> PtpStatus | None:
        return self.ptp

    def close(self) -> None:
        self.log.append("close")
