"""Find the lab that is up for an intent."""

from __future__ import annotations

from cnc.errors import CncError
from cnc.model import Intent
from cnc.testbed.lab import lifecycle, rehearsed
from cnc.testbed.lab.addressing import addresses
from cnc.testbed.lab.kernels import own
from cnc.testbed.lab.running import Lab


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
    directory = lifecycle.directory_of(intent.name, lifecycle.STATE_ROOT)
    rehearsed.refuse(intent.name, directory)
    expected = {name: [str(node.v4), str(node.v6)] for name, node in addresses(intent).items()}
    if {node.node: [*node.addresses] for node in nodes if node.addresses} != expected:
        raise CncError(
            f"lab {intent.name} that is up has other nodes or cables than the intent",
            hint=f"`cnc lab down {intent.name}`, then `cnc lab up` with this file",
        )
    if own.is_written(directory):
        raise CncError(
            f"lab {intent.name} has kernels of its own, and time only they share",
            hint="measure on its controller: cnc lab exec controller -- cnc lab …",
        )
    return Lab(intent, directory)
