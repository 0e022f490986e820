"""Find the lab that is up for an intent."""

from __future__ import annotations

from pyroute2 import IPRoute

from cnc.addressing import addresses
from cnc.errors import CncError
from cnc.lab import lifecycle, namespaces
from cnc.lab.running import Lab
from cnc.model import Intent


def attach(intent: Intent) -> Lab:
    """The lab that is up for this intent.

    Raises:
        CncError: no such lab is up, or it belongs to another network.
    """
    nodes = lifecycle.status(intent.name)
    if not nodes:
        raise CncError(
            f"lab {intent.name} is not up", hint="`cnc lab up FILE` brings it up; it needs root"
        )
    expected = {name: [str(node.v4), str(node.v6)] for name, node in addresses(intent).items()}
    if {node.node: [*node.addresses] for node in nodes if node.addresses} != expected:
        raise CncError(
            f"lab {intent.name} that is up has other nodes or cables than the intent",
            hint=f"`cnc lab down {intent.name}`, then `cnc lab up` with this file",
        )
    return Lab(intent, lifecycle.STATE_ROOT / intent.name)


def has_timed_wires(lab: Lab) -> bool:
    """Whether the lab's cables have the delays of the intent."""
    with IPRoute(netns=namespaces.of_wires(lab.intent.name)) as ip:
        return bool(ip.link_lookup(ifname="w0"))
