"""What is asked at a place, as a rollout has it."""

from __future__ import annotations

from cnc.mechanisms.composition import bridge_forwardings
from cnc.model import BridgeForwarding, Plan, PortConfiguration, PortGates, PortSettings
from cnc.switch.payload import Settings, desired_nodes


def asked(*parts: object) -> PortSettings:
    """Of a bridge how it forwards, of a port its gates (None: none) and what talkers are told."""
    return PortSettings.of(
        *(PortGates(its) if isinstance(its, PortConfiguration | None) else its for its in parts)
    )


def desired_ports(plan: Plan, node: str) -> Settings:
    """What a plan asks of a switch or an end station."""
    return desired_nodes(plan, (node,))[node]


def bridge_forwarding(plan: Plan, switch: str) -> BridgeForwarding:
    """What a plan tells the bridge of one switch."""
    return bridge_forwardings(plan, (switch,))[switch]
