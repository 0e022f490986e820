"""The limits of the ports of a network, read from their switches before planning."""

from __future__ import annotations

from collections.abc import Mapping

from cnc.model import Bridge, GateLimits, Network, PortRef
from cnc.rollout.compare import agent_down
from cnc.rollout.parallel import answers, before_any_change, unanimous
from cnc.switch.device import ConnectOptions, Device, DeviceError, SwitchState


def read_port_limits(
    network: Network, *, connect: ConnectOptions, partial: bool = False
) -> dict[PortRef, GateLimits]:
    """The limits that each switch reports for its cabled ports.

    Raises RolloutError when a switch does not answer or has no such port; `partial` leaves out such
    switches and ports instead.
    """

    def read(bridge: Bridge) -> SwitchState:
        ports = {link.port for link in network.links if link.node == bridge.name}
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
        return state

    results = answers(list(network.bridges.values()), read)
    if not partial:
        with before_any_change():
            unanimous(results)
    return stated(
        network, {name: s for name, s in results.items() if not isinstance(s, DeviceError)}
    )


def stated(network: Network, states: Mapping[str, SwitchState]) -> dict[PortRef, GateLimits]:
    """The limits of the ports that these switches reported, in the gate mode of the intent."""
    return {
        PortRef(name, port): report.limits_in(network.bridges[name].gate_mode)
        for name, state in states.items()
        for port, report in sorted(state.ports.items())
    }
