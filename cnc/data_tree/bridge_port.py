"""The bridge port of an interface in an edit, to which several mechanisms add what is theirs."""

from __future__ import annotations

from lxml.builder import ElementMaker

from cnc.data_tree.reply import Element
from cnc.data_tree.tree import BRIDGE

_BRIDGE = ElementMaker(namespace=BRIDGE, nsmap={None: BRIDGE})


def bridge_port_of(interface: Element) -> Element:
    """The bridge port of an interface, which is there then."""
    found = interface.find(f"{{{BRIDGE}}}bridge-port")
    if found is None:
        found = _BRIDGE("bridge-port")
        interface.append(found)
    return found
