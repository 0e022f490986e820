"""A switch with a device profile, in its own words: the tree of its gates, ports by number, nothing
of our modules.

    gate_tables    the gate table of a port, in the tree of 2018 or of 2023
    bridge_ports   the rows of filtering entries and VLAN registrations
    reported       what the standard has of the state of gates, as our agent would report it
"""

from __future__ import annotations

from copy import deepcopy

from lxml import etree
from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.reply import Element
from cnc.data_tree.tree import (
    BRIDGE,
    INTERFACES,
    SCHED,
    SCHED_BRIDGE,
    TSN_LINUX,
    AgentReport,
)
from cnc.model import GateMode, Profile
from cnc.switch.dialect import Asked
from cnc.switch.foreign.bridge_ports import name_ports, number_ports, numbers_in, with_members
from cnc.switch.foreign.gate_tables import table_for, table_in
from cnc.switch.foreign.reported import is_on, kernel

_LIBRARY = "urn:ietf:params:xml:ns:yang:ietf-yang-library"
_IF = ElementMaker(namespace=INTERFACES, nsmap={None: INTERFACES})
_BRIDGE = ElementMaker(namespace=BRIDGE, nsmap={None: BRIDGE})
_TSNL = ElementMaker(namespace=TSN_LINUX, nsmap={None: TSN_LINUX})
_YANG = ElementMaker(namespace=_LIBRARY, nsmap={None: _LIBRARY})
_NAMESPACES = {"b": BRIDGE, "if": INTERFACES, "g": SCHED_BRIDGE, "s": SCHED, "t": TSN_LINUX}
_OWN = (TSN_LINUX, "urn:ieee:std:802.1Q:yang:ieee802-dot1dc-sched-if")
# Of an interface and its bridge port what is of interest here: not, such as, its statistics.
_COPIED = ("name", "oper-status", "phys-address", "speed")


class Foreign:
    """The dialect of a switch with a profile, in one session."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._numbers = dict(profile.port_numbers)
        self._components: dict[str, str] = {}

    def configuration(self, asked: Asked) -> list[Element]:
        return self._filters(asked)

    def state(self, asked: Asked) -> list[Element]:
        return self._filters(asked)

    def counters(self, asked: Asked) -> list[Element]:
        return self._filters(asked)

    def clock(self, port: str) -> list[Element]:
        return self._filters(Asked([port]))

    def _filters(self, asked: Asked) -> list[Element]:
        """All ports where a bridge is asked for: its rows have them by their numbers."""
        names = () if asked.bridges else sorted(asked.ports)
        interfaces = _IF("interfaces", *(_IF("interface", _IF("name", name)) for name in names))
        bridges = [_BRIDGE("bridge", _BRIDGE("name", name)) for name in sorted(asked.bridges)]
        return [interfaces, *([_BRIDGE("bridges", *bridges)] if bridges else [])]

    def stored(self, data: Element) -> Element:
        return self._ours(data, is_state=False)

    def reported(self, data: Element) -> Element:
        return self._ours(data, is_state=True)

    def agent(self, _data: Element) -> AgentReport:
        return AgentReport(None, None, profile=self._profile)

    def _ours(self, data: Element, *, is_state: bool) -> Element:
        self._numbers = {**numbers_in(data), **dict(self._profile.port_numbers)}
        interfaces = _IF("interfaces")
        for interface in reply.entries(data, "if:interfaces/if:interface", _NAMESPACES):
            interfaces.append(self._interface(interface, is_state=is_state))
        made = etree.Element("data")
        made.append(interfaces)
        bridges = data.find("b:bridges", _NAMESPACES)
        if bridges is not None:
            made.append(self._bridges(deepcopy(bridges), interfaces))
        if is_state:
            modules = _YANG("module", _YANG("name", "ieee802-dot1q-bridge"))
            made.append(_YANG("yang-library", _YANG("module-set", modules)))
        return made

    def _interface(self, interface: Element, *, is_state: bool) -> Element:
        made = _IF("interface")
        for name in _COPIED:
            if (leaf := interface.find(f"if:{name}", _NAMESPACES)) is not None:
                made.append(deepcopy(leaf))
        port = interface.find("b:bridge-port", _NAMESPACES)
        own = _BRIDGE("bridge-port") if port is None else deepcopy(port)
        for its in own.findall("g:gate-parameter-table", _NAMESPACES):
            own.remove(its)
        table = table_in(interface, self._profile)
        if table is not None:
            own.append(table)
        taprio = _TSNL("taprio")
        if table is not None and is_on(table):
            taprio.append(_TSNL("mode", GateMode.FULL_OFFLOAD))
        if is_state:
            taprio.append(kernel(interface, own, table, self._profile))
        if len(taprio):
            own.append(taprio)
        if port is not None or len(own):
            made.append(own)
        return made

    def _bridges(self, bridges: Element, interfaces: Element) -> Element:
        for bridge in reply.entries(bridges, "b:bridge", _NAMESPACES):
            component = bridge.find("b:component", _NAMESPACES)
            if component is not None:
                name = reply.text(bridge, "b:name", _NAMESPACES) or ""
                self._components[name] = reply.text(component, "b:name", _NAMESPACES) or name
                name_ports(component, self._numbers)
                with_members(component, interfaces)
        return bridges

    def edit(self, config: Element) -> Element:
        """Without what is of our modules alone; what a rollout asks for besides was refused."""
        made = deepcopy(config)
        for interface in made.iterfind("if:interfaces/if:interface", _NAMESPACES):
            self._edit_interface(interface)
        bridges = made.find("b:bridges", _NAMESPACES)
        if bridges is not None:
            number_ports(bridges, self._numbers)
            for bridge in bridges.iterfind("b:bridge", _NAMESPACES):
                name = reply.text(bridge, "b:name", _NAMESPACES) or ""
                component = bridge.find("b:component/b:name", _NAMESPACES)
                if component is not None:
                    component.text = self._components.get(name, name)
        _without(made, _OWN)
        # A server may refuse a prefix of a module that it does not know.
        etree.cleanup_namespaces(made, keep_ns_prefixes=["nc", "sched", "ianaift"])
        interfaces = made.find("if:interfaces", _NAMESPACES)
        if interfaces is not None and not len(interfaces):
            made.remove(interfaces)
        for each in made:
            if etree.QName(each).namespace not in {INTERFACES, BRIDGE}:
                raise ValueError(f"its profile has no {etree.QName(each).localname}")
        return made

    def _edit_interface(self, interface: Element) -> None:
        port = interface.find("b:bridge-port", _NAMESPACES)
        if port is None:
            return
        if not self._profile.sets_classes:
            for its in port.findall("b:traffic-class", _NAMESPACES):
                port.remove(its)
        for table in port.findall("g:gate-parameter-table", _NAMESPACES):
            port.remove(table)
            own = table_for(table, self._profile)
            is_of_port = etree.QName(own).namespace == SCHED_BRIDGE
            (port if is_of_port else interface).append(own)
        if not any(etree.QName(each).namespace not in _OWN for each in port):
            interface.remove(port)


def _without(element: Element, namespaces: tuple[str, ...]) -> None:
    """Remove all that is of these modules."""
    for child in list(element):
        if etree.QName(child).namespace in namespaces:
            element.remove(child)
        else:
            _without(child, namespaces)
