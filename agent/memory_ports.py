"""Ports in memory, to try a controller against switches on a machine without taprio.

They take, refuse and report what a kernel would, but carry no frames.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agent.composition import Change, Contribution, KernelObject, Step
from agent.kernel.change_monitor import FULL_POLL_S
from agent.kernel.clock import MachineClocks
from agent.mechanism import Mechanism, Node, Observation
from agent.model import AgentError, LinuxBridge, OperStatus, PortConfig, PortState, PtpStatus
from agent.root_qdisc import NO_QDISC
from agent.wake_ups import WakeUps

DRIVER = "rehearsal"
TX_QUEUES = 8
LINK_SPEED_BPS = 10_000_000_000  # as a veth says
NO_RATES: Mapping[str, int] = MappingProxyType({})


class MemoryPorts(MachineClocks):
    """Ports that do nothing; what they run ends with the process."""

    def __init__(self, mechanisms: Sequence[Mechanism], ports: Iterable[PortState]) -> None:
        self.mechanisms = mechanisms
        self.states = {state.name: state for state in ports}
        self._by_name = {mechanism.name: mechanism for mechanism in mechanisms}

    def read(self) -> Mapping[str, PortState]:
        """The ports now: a schedule that has waited for its base time runs."""
        for mechanism in self.mechanisms:
            for name, state in self.states.items():
                self.states[name] = mechanism.memory.at(state, self.now_ns)
        return dict(self.states)

    def execute(self, step: Step) -> None:
        before, after = _by_owner(step.before), _by_owner(step.after)
        changed: dict[str, PortState] = {}
        for owner, port in sorted(before.keys() | after.keys()):
            contents = after.get((owner, port), ())
            if contents == before.get((owner, port), ()):
                continue
            state = changed.get(port) or self._port(port, step.target)
            changed[port] = self._by_name[owner].memory.applied(state, contents, self.now_ns)
        self.states |= changed

    def _port(self, name: str, target: KernelObject) -> PortState:
        """An interface that came in the meantime is another one, although its name is the same."""
        state = self.states.get(name)
        if state is None or target.ifindex not in (None, state.ifindex):
            raise AgentError(f"port {name}: No such device (ENODEV)")
        return state

    def problems(self, config: PortConfig) -> Iterator[str]:  # noqa: ARG002
        """Every mechanism is possible in memory."""
        yield from ()

    def repairs(self) -> Iterator[Change]:
        """No other program changes what is in memory."""
        yield from ()

    def observe(self) -> Observation:
        """No frame comes by a port in memory."""
        return Observation()

    def restart(
        self,
        states: Sequence[PortState],  # noqa: ARG002
        present: Mapping[KernelObject, Sequence[Contribution]],  # noqa: ARG002
    ) -> Mapping[str, str]:
        """No schedule in memory ever stands still."""
        return {}

    def capabilities(self) -> Mapping[str, str]:
        return {}

    def leaves(self) -> Node:
        """The classifier that it stands for, and that agents beside it have the same clock."""
        return {"classifier": "iptables-nft", "clock": {"source": "shared"}}

    def change_monitor(self) -> PollMonitor:
        return PollMonitor()

    def ptp_status(self) -> PtpStatus | None:
        """No PTP daemon keeps time for ports in memory."""
        return None

    def unsettled(self, clock_error_ns: int) -> str | None:  # noqa: ARG002
        """All agents beside it have the same clock."""
        return None

    def measure_wake_ups(self, path: Path) -> None:
        """No timer opens a gate in memory."""

    def remove_probe(self) -> None:
        """There is none."""

    def wake_ups(self) -> WakeUps | None:
        """No timer opens a gate in memory."""
        return None

    def close(self) -> None:
        """There is nothing to close."""


class PollMonitor:
    """In memory nothing changes by itself: it only says when it is time to read the ports."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def wait(self) -> bool:
        return not self._stopped.wait(FULL_POLL_S)

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        """There is nothing to close."""


def rehearsal_ports(
    names: Sequence[str], bridge: str | None = None, rates_bps: Mapping[str, int] = NO_RATES
) -> list[PortState]:
    """Unconfigured ports of eight queues, with these names; those without a rate have 10 Gb/s.

    `bridge` is the name of a bridge with VLAN filtering that all of them are ports of.
    """
    ports = [
        replace(_port(name, index), link_speed_bps=rates_bps.get(name, LINK_SPEED_BPS))
        for index, name in enumerate(names, start=2)
    ]
    if bridge is None:
        return ports
    numbers = {name: number for number, name in enumerate(names, start=1)}
    as_bridge = LinuxBridge(vlan_filtering=True, multicast_snooping=True, ports=numbers)
    return [
        *(replace(port, bridge=bridge) for port in ports),
        replace(_port(bridge, len(ports) + 2), as_bridge=as_bridge),
    ]


def _port(name: str, ifindex: int) -> PortState:
    return PortState(
        name=name,
        ifindex=ifindex,
        tx_queues=TX_QUEUES,
        link_speed_bps=LINK_SPEED_BPS,
        root_qdisc=NO_QDISC,
        oper_status=OperStatus.UP,
        mac_address=f"02:00:00:00:00:{ifindex:02x}",  # locally administered
        driver=DRIVER,
    )


def _by_owner(contributions: Iterable[Contribution]) -> dict[tuple[str, str], tuple[Any, ...]]:
    """The contents of each mechanism for each port, in the order of their places."""
    contents: dict[tuple[str, str], tuple[Any, ...]] = {}
    for each in contributions:
        key = each.owner, each.port
        contents[key] = (*contents.get(key, ()), each.content)
    return contents
