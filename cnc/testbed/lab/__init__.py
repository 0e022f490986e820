"""Emulated networks: a namespace for every node, real agents on every switch, measured traffic."""

from cnc.testbed.lab.addressing import NodeAddresses, addresses
from cnc.testbed.lab.lifecycle import NodeStatus, down, execute, lab, status, up
from cnc.testbed.lab.running import Lab

__all__ = [
    "Lab",
    "NodeAddresses",
    "NodeStatus",
    "addresses",
    "down",
    "execute",
    "lab",
    "status",
    "up",
]
