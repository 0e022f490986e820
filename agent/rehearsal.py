"""Ports in memory, to try a controller against switches on a machine without taprio.

They refuse and report what a kernel would, but carry no frames.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from agent.kernel import clock, limits
from agent.kernel.apply import Action, Applied, execute
from agent.kernel.doorbell import FULL_POLL_S
from agent.model import (
    ClassCounters,
    Clock,
    OperStatus,
    PortConfig,
    PortState,
    PtpStatus,
    Taprio,
    TaprioMode,
)
from agent.reconcile import MAX_CLASSES, SetTaprio, Step, plan_steps, refuse, validate

DRIVER = "rehearsal"
LINK_SPEED_BPS = 10_000_000_000  # as a veth says
NO_QDISC = "noqueue"


class Rehearsal:
    """A switch whose ports do nothing; what they run ends with the process."""

    classifier_name = "iptables-nft"  # what it stands for; the ports' driver tells that it does

    def __init__(self, ports: Iterable[str]) -> None:
        self._ports = {name: _port(name, index) for index, name in enumerate(ports, start=2)}

    def read(self) -> Mapping[str, PortState]:
        """The ports now: a list that has waited for its base time runs."""
        for name, state in self._ports.items():
            if state.taprio and state.pending and not self._waits(state.taprio):
                self._ports[name] = replace(state, running=state.pending, pending=None)
        return dict(self._ports)

    def capability(self) -> None:
        """Gates are always possible."""

    def apply(
        self, desired: Mapping[str, PortConfig], states: Mapping[str, PortState] | None = None
    ) -> Applied:
        """As `agent.kernel.Kernel.apply`, without a kernel."""
        before = dict(self.read() if states is None else states)
        steps = tuple(plan_steps(desired, before))
        touched = {step.port for step in steps}
        refuse(
            validate({n: c for n, c in desired.items() if n in touched or n not in before}, before)
        )

        def do() -> None:
            for step in steps:
                self._ports[step.port] = self._after(step)

        def undo() -> None:
            self._ports = before

        return execute(steps, [Action(do, undo)])

    def restart(self, states: Sequence[PortState]) -> Mapping[str, str]:  # noqa: ARG002
        """No list in memory ever stands still."""
        return {}

    def doorbell(self) -> SilentDoorbell:
        return SilentDoorbell()

    def now_ns(self, of: Clock) -> int:
        return clock.now_ns(of)

    def clock_offsets_ns(self) -> Mapping[Clock, int]:
        return clock.offsets_ns()

    def tai_offset_s(self) -> int:
        return clock.tai_offset_s()

    def ptp_status(self) -> PtpStatus | None:
        """No PTP daemon keeps time for ports in memory."""
        return None

    def close(self) -> None:
        """There is nothing to close."""

    def _after(self, step: Step) -> PortState:
        state = self._ports[step.port]
        if not isinstance(step, SetTaprio):
            return replace(state, dscp_priorities=step.after)
        if step.after is None:
            return replace(
                state, root_qdisc=NO_QDISC, taprio=None, running=None, pending=None, counters=()
            )
        schedule, waits = step.after.schedule, self._waits(step.after)
        return replace(
            state,
            root_qdisc="taprio",
            taprio=step.after,
            running=state.running if waits else schedule,
            pending=schedule if waits else None,
            counters=tuple(ClassCounters(frames=0, octets=0, drops=0) for _ in step.after.queues),
        )

    def _waits(self, taprio: Taprio) -> bool:
        return taprio.schedule.base_time_ns > self.now_ns(taprio.clock)


class SilentDoorbell:
    """Never rings: in memory nothing changes by itself. It is time to look anyway now and then."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def wait(self) -> bool:
        return not self._stopped.wait(FULL_POLL_S)

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        """There is nothing to close."""


def _port(name: str, ifindex: int) -> PortState:
    return PortState(
        name=name,
        ifindex=ifindex,
        tx_queues=MAX_CLASSES,
        link_speed_bps=LINK_SPEED_BPS,
        root_qdisc=NO_QDISC,
        foreign_qdisc=None,
        taprio=None,
        running=None,
        pending=None,
        limits=limits.of(TaprioMode.SOFTWARE, DRIVER),
        oper_status=OperStatus.UP,
        mac_address=f"02:00:00:00:00:{ifindex:02x}",  # locally administered
        driver=DRIVER,
    )
