"""What nodes state before planning: of ports limits, wake-ups and lateness; of clocks how far they
are apart."""

from __future__ import annotations

from collections.abc import Mapping

from cnc.clocks.synchronization_tree import UNSEEN_NS, ClockTree
from cnc.data_tree.state import SwitchState
from cnc.data_tree.stated import StatedPorts
from cnc.data_tree.tree import GatesReport, TalkerReport
from cnc.model import (
    Bridge,
    EndStation,
    Network,
    PortRef,
)
from cnc.rollout.compare import agent_down
from cnc.switch.device import ConnectOptions, Device, DeviceError
from cnc.switch.parallel import answers, before_any_change, unanimous


def read_ports(network: Network, *, connect: ConnectOptions, partial: bool = False) -> StatedPorts:
    """What each switch states of its cabled ports, and each end station that is managed.

    Raises RolloutError when one of them does not answer or has no such port; `partial` leaves out
    such nodes and ports instead.
    """

    def read(node: Bridge | EndStation) -> SwitchState:
        ports = {link.port for link in network.links if link.node == node.name}
        with Device(node, connect) as device:
            state = device.state(ports)
        if state.agent is None:
            raise agent_down(node.name)
        if missing := sorted(ports - state.ports.keys()):
            raise DeviceError(
                node.name,
                f"has no such port: {', '.join(missing)}",
                hint="do the port names of the intent exist on the switch?",
            )
        return state

    results = answers(list(network.managed.values()), read)
    if not partial:
        with before_any_change():
            unanimous(results)
    return stated(
        network, {name: s for name, s in results.items() if not isinstance(s, DeviceError)}
    )


def stated(network: Network, states: Mapping[str, SwitchState]) -> StatedPorts:
    """What these switches reported of their ports; limits are those of the intent's gate mode."""
    reports = {
        PortRef(name, port): report
        for name, state in states.items()
        for port, report in sorted(state.ports.items())
    }
    tree = ClockTree(states, UNSEEN_NS)
    modes = {name: mode for name in states if (mode := network.gate_mode(name)) is not None}
    gated = {port: its[GatesReport] for port, its in reports.items() if port.node in modes}
    return StatedPorts(
        limits={port: report.limits_in(modes[port.node]) for port, report in gated.items()},
        wake_ups={port: report.wake_ups for port, report in gated.items() if report.wake_ups},
        lateness={
            port: max(said.values(), key=lambda each: each.maximum_ns)
            for port, report in reports.items()
            if port.node in network.end_stations and (said := report[TalkerReport].lateness)
        },
        clocks=tree.widest(),
        compared=frozenset(tree.together()),
    )
