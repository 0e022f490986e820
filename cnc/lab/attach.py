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
        CncError: there is none, or it was made for another network.
    """
    nodes = lifecycle.status(intent.name)
    if not nodes:
        raise CncError(
            f"lab {intent.name} is not up", hint="`cnc lab up FILE` brings it up; it needs root"
        )
    wanted = {name: [str(its.v4), str(its.v6)] for name, its in addresses(intent).items()}
    if {found.node: [*found.addresses] for found in nodes if found.addresses} != wanted:
        raise CncError(
            f"lab {intent.name} that is up has other nodes or cables than the intent",
            hint=f"`cnc lab down {intent.name}`, then `cnc lab up` with this file",
        )
    return Lab(intent, lifecycle.STATE_ROOT / intent.name)


def has_timed_wires(lab: Lab) -> bool:
    """Whether frames take as long on its cables as the intent says."""
    with IPRoute(netns=namespaces.of_wires(lab.intent.name)) as ip:
        return bool(ip.link_lookup(ifname="w0"))
