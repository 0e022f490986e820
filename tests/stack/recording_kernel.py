"""A switch without a kernel: does what `agent.kernel.Kernel` promises and writes it down.

Native tests need it because few machines have taprio; the kernel itself is tested in the VM.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping

from agent.model import AgentError, Clock, PortConfig, PortState


def port(name: str, ifindex: int = 2, *, foreign_qdisc: str | None = None) -> PortState:
    """A port nobody has configured yet."""
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


class RecordingKernel:
    """Ports in memory. `log` lists what was done to them, `reads` counts how often it was asked.

    `refuse` and `delay_s` make trouble.
    """

    classifier_name = "iptables-nft"

    def __init__(self, *ports: PortState, now_ns: int | None = None) -> None:
        self.ports = {port.name: port for port in ports}
        self.log: list[str] = []
        self.reads = 0
        self.refuse: str | None = None
        self.delay_s = 0.0
        self._now_ns = now_ns

    def read(self) -> Mapping[str, PortState]:
        self.reads += 1
        return dict(self.ports)

    def capability(self) -> str | None:
        return None

    def apply(self, desired: Mapping[str, PortConfig]) -> RecordedChange:
        if self.refuse:
            raise AgentError(self.refuse)
        time.sleep(self.delay_s)
        before = dict(self.ports)
        for name, state in before.items():
            want = desired.get(name, PortConfig(name, None))
            if (want.taprio, want.dscp_priorities) == (state.taprio, state.dscp_priorities):
                continue
            schedule = want.taprio.schedule if want.taprio else None
            ahead = schedule is not None and schedule.base_time_ns > self.now_ns(Clock.TAI)
            self.ports[name] = dataclasses.replace(
                state,
                root_qdisc="taprio" if want.taprio else "mq",
                taprio=want.taprio,
                running=state.running if ahead else schedule,
                pending=schedule if ahead else None,
                dscp_priorities=want.dscp_priorities,
            )
        changed = tuple(
            RecordedStep(name) for name in sorted(before) if before[name] != self.ports[name]
        )
        self.log += [f"apply {step.port}" for step in changed]

        def undo() -> None:
            self.ports = before
            self.log += [f"undo {step.port}" for step in reversed(changed)]

        return RecordedChange(changed, undo)

    def now_ns(self, clock: Clock) -> int:
        return time.time_ns() if self._now_ns is None else self._now_ns

    def tai_offset_s(self) -> int:
        return 37

    def close(self) -> None:
        self.log.append("close")
