"""The ports of a bridge by their numbers, as the standard has them (`port-ref`), and by the names
of their interfaces, as our agent has them beside.

The number of a port is the leaf `port-number` of its bridge port; where a switch does not report
it, the intent states it.
"""

from __future__ import annotations

from collections.abc import Mapping

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.reply import Element
from cnc.data_tree.tree import BRIDGE, INTERFACES, TSN_LINUX

_TSNL = ElementMaker(namespace=TSN_LINUX, nsmap={None: TSN_LINUX})
_BRIDGE = ElementMaker(namespace=BRIDGE, nsmap={None: BRIDGE})
_NAMESPACES = {"b": BRIDGE, "if": INTERFACES, "t": TSN_LINUX}
_ROW = f"{{{BRIDGE}}}port-map"


class UnknownPort(ValueError):
    """A port whose number is not known."""


def numbers_in(data: Element) -> dict[str, int]:
    """The numbers of ports, by interface, as far as a switch reports them."""
    found = {}
    for interface in reply.entries(data, "if:interfaces/if:interface", _NAMESPACES):
        name = reply.text(interface, "if:name", _NAMESPACES)
        number = reply.text(interface, "b:bridge-port/b:port-number", _NAMESPACES)
        if name and number:
            found[name] = reply.number(number, "port-number")
    return found


def name_ports(component: Element, numbers: Mapping[str, int]) -> None:
    """Say in each row which interface it is about."""
    names = {number: name for name, number in numbers.items()}
    for row in component.iter(_ROW):
        number = reply.number(reply.text(row, "b:port-ref", _NAMESPACES) or "", "port-ref")
        row.append(_TSNL("interface", names.get(number, f"port-{number}")))


def number_ports(bridges: Element, numbers: Mapping[str, int]) -> None:
    """Have each row refer to the number of its interface. Raises UnknownPort."""
    for row in bridges.iter(_ROW):
        interface = row.find("t:interface", _NAMESPACES)
        number = row.find("b:port-ref", _NAMESPACES)
        if interface is None or number is None:
            continue
        name = interface.text or ""
        if name not in numbers:
            raise UnknownPort(
                f"the number of port {name} in its bridge is not known: the switch does not report "
                f"port-number; state it in the intent (ports: {{{name}: {{number: N}}}})"
            )
        number.text = str(numbers[name])
        row.remove(interface)


def with_members(component: Element, interfaces: Element) -> None:
    """Have a component say which interfaces are its ports, where it does not: all that are ports of
    a bridge, as a switch with one component has no others."""
    if component.find("b:bridge-port", _NAMESPACES) is not None:
        return
    for interface in interfaces:
        name = reply.text(interface, "if:name", _NAMESPACES)
        if name and interface.find("b:bridge-port", _NAMESPACES) is not None:
            component.append(_BRIDGE("bridge-port", name))
