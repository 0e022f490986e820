"""NETCONF over SSH on sysrepo. A process of its own: any other NETCONF server can replace it."""

from agent.netconfd.front.server import main

__all__ = ["main"]
