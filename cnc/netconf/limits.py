"""What the ports of a network can do, asked of their switches before anything is planned."""

from __future__ import annotations

from collections.abc import Mapping

from cnc.check import judge_limits
from cnc.errors import RolloutError
from cnc.model import Bridge, GateLimits, Network, Plan, PortRef
from cnc.netconf.compare import agent_down
from cnc.netconf.device import ConnectOptions, Device, DeviceError, SwitchState
from cnc.netconf.parallel import before_any_change, in_parallel


def discover(
    network: Network, *, connect: ConnectOptions, partial: bool = False
) -> dict[PortRef, GateLimits]:
    """The limits that each switch states for its cabled ports.

    Raises RolloutError when a switch does not answer or has no such port; `partial` leaves out what
    cannot be known instead.
    """

    def ask(bridge: Bridge) -> dict[PortRef, GateLimits]:
        ports = {link.port for link in network.links if link.node == bridge.name}
        try:
            with Device(bridge, connect) as device:
                state = device.state(ports)
            if state.agent is None:
                raise agent_down(bridge.name)
            if missing := sorted(ports - state.ports.keys()):
                raise DeviceError(
                    bridge.name,
                    f"has no such port: {', '.join(missing)}",
                    hint="do the port names of the intent exist on the switch?",
                )
        except DeviceError:
            if partial:
                return {}
            raise
        return {
            PortRef(bridge.name, port): state.ports[port].limits_in(bridge.gate_mode)
            for port in sorted(ports)
        }

    with before_any_change():
        answers = in_parallel(list(network.bridges.values()), ask)
    return {port: limits for answer in answers.values() for port, limits in answer.items()}


def refuse_beyond_limits(plan: Plan, states: Mapping[str, SwitchState]) -> None:
    """Raise RolloutError when a list is more than its switch says that the port can run."""
    network = plan.intent.network
    stated = {
        port: report.limits_in(network.bridges[port.node].gate_mode)
        for port in plan.gates
        if (report := states[port.node].ports.get(port.port))
    }
    beyond: dict[tuple[str, str], str] = {}  # the first of each kind tells a port's story
    for v in judge_limits(network.within(stated), plan.gates):
        text = f"{v.where}: the plan is beyond what the switch states: {v.text}"
        beyond.setdefault((v.where, v.code), text)
    if beyond:
        raise RolloutError(
            "\n".join(beyond.values()),
            hint="plan within what the switches state: cnc plan --ask-switches INTENT",
        )
