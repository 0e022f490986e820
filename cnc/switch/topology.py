"""Interfaces of a switch, their LLDP neighbours, and the bridges that they are ports of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.reply import Element
from cnc.data_tree.tree import BRIDGE, INTERFACES, TSN_LINUX, BridgeReport, PortReport
from cnc.mechanisms.composition import at_places
from cnc.switch.readback import port_reports

_IF = ElementMaker(namespace=INTERFACES, nsmap={None: INTERFACES})
_BRIDGE = ElementMaker(namespace=BRIDGE, nsmap={None: BRIDGE})
_TSNL = ElementMaker(namespace=TSN_LINUX, nsmap={None: TSN_LINUX})
_NAMESPACES = {"if": INTERFACES, "t": TSN_LINUX}


@dataclass(frozen=True, slots=True)
class Identifier:
    """The name of a chassis or port; `subtype` is its kind as named by ieee802-types
    ("mac-address", "interface-name", …); "" if it is not reported."""

    text: str
    subtype: str = ""


@dataclass(frozen=True, slots=True)
class InterfaceReport:
    """An interface of the switch (RFC 8343). `speed_bps` is None while it is unknown."""

    name: str
    oper_status: str
    phys_address: str
    speed_bps: int | None


@dataclass(frozen=True, slots=True)
class NeighborReport:
    """A neighbour at `interface` as it describes itself; LLDP is not authenticated.

    Texts are "" where the neighbour sent none; `capabilities` are names of tsn-linux's bits.
    """

    interface: str
    chassis_id: Identifier | None
    port_id: Identifier | None
    port_description: str = ""
    system_name: str = ""
    management_addresses: tuple[str, ...] = ()
    capabilities: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LldpReport:
    """The LLDP daemon's description of its own switch, and the neighbours it has heard."""

    chassis_id: Identifier | None
    system_name: str
    neighbors: tuple[NeighborReport, ...]


@dataclass(frozen=True, slots=True)
class TopologyReport:
    """`lldp` is None where no LLDP daemon answers, or the agent does not support LLDP. `bridges`
    are those of the switch's kernel by name, without their filtering entries; a bridge is one of
    the `interfaces`, too. `ports` is what the kernel does at the others, without their limits.
    """

    interfaces: Mapping[str, InterfaceReport]
    lldp: LldpReport | None
    bridges: Mapping[str, BridgeReport] = field(default_factory=dict)
    ports: Mapping[str, PortReport] = field(default_factory=dict)


def topology_filter() -> list[Element]:
    """Subtree filter: identity, speed and kernel state of interfaces; all of LLDP; settings of
    bridges."""
    leaves = ("name", "oper-status", "phys-address", "speed")
    kernel = _BRIDGE("bridge-port", _TSNL("taprio", _TSNL("kernel")))
    return [
        _IF("interfaces", _IF("interface", *(_IF(leaf) for leaf in leaves), kernel)),
        _TSNL("lldp"),
        *(each for place in at_places() for each in place.settings()),
    ]


def topology_report(data: Element) -> TopologyReport:
    """Parses the reply to `topology_filter`. Raises the errors of `reply`."""
    interfaces = {}
    for interface in reply.entries(data, "if:interfaces/if:interface", _NAMESPACES):
        name = _text(interface, "if:name")
        interfaces[name] = InterfaceReport(
            name=name,
            oper_status=_text(interface, "if:oper-status"),
            phys_address=_text(interface, "if:phys-address"),
            # RFC 8343: 0 where an interface has no speed.
            speed_bps=reply.number(_text(interface, "if:speed") or "0", "speed") or None,
        )
    lldp = data.find("t:lldp", _NAMESPACES)
    bridges = {n: its for place in at_places() for n, its in place.bridges(data).items()}
    heard = None if lldp is None else _lldp_report(lldp)
    ports = {n: its for n, its in port_reports(data).items() if n not in bridges}
    return TopologyReport(interfaces, heard, bridges, ports)


def _lldp_report(lldp: Element) -> LldpReport:
    return LldpReport(
        chassis_id=_identifier(lldp, "t:chassis-id"),
        system_name=_text(lldp, "t:system-name"),
        neighbors=tuple(
            NeighborReport(
                interface=_text(neighbor, "t:interface"),
                chassis_id=_identifier(neighbor, "t:chassis-id"),
                port_id=_identifier(neighbor, "t:port-id"),
                port_description=_text(neighbor, "t:port-desc"),
                system_name=_text(neighbor, "t:system-name"),
                management_addresses=tuple(
                    address.text or ""
                    for address in reply.entries(neighbor, "t:management-address", _NAMESPACES)
                ),
                capabilities=frozenset(_text(neighbor, "t:system-capabilities-enabled").split()),
            )
            for neighbor in reply.entries(lldp, "t:neighbor", _NAMESPACES)
        ),
    )


def _identifier(parent: Element, path: str) -> Identifier | None:
    text = _text(parent, path)
    return Identifier(text, _text(parent, f"{path}-subtype")) if text else None


def _text(parent: Element, path: str) -> str:
    return reply.text(parent, path, _NAMESPACES) or ""
