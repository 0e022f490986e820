"""What a switch knows of the cables at its ports: its interfaces, and whom LLDP has heard there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lxml.builder import ElementMaker

from cnc.switch.readback import Element
from cnc.switch.tree import INTERFACES, TSN_LINUX

_IF = ElementMaker(namespace=INTERFACES, nsmap={None: INTERFACES})
_TSNL = ElementMaker(namespace=TSN_LINUX, nsmap={None: TSN_LINUX})
_NAMESPACES = {"if": INTERFACES, "t": TSN_LINUX}


@dataclass(frozen=True, slots=True)
class Identifier:
    """The name of a chassis or port; `subtype` says what it is made of, in the words of
    ieee802-types ("mac-address", "interface-name", …); "" if the switch does not tell."""

    text: str
    subtype: str = ""


@dataclass(frozen=True, slots=True)
class InterfaceReport:
    """An interface as the switch has it (RFC 8343). `speed_bps` is None while there is none."""

    name: str
    oper_status: str
    phys_address: str
    speed_bps: int | None


@dataclass(frozen=True, slots=True)
class NeighborReport:
    """Who was heard at `interface`, in its own words: whoever is on the cable can say anything.

    Texts are "" where it said nothing; `capabilities` are names of tsn-linux's bits.
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
    """What the LLDP daemon of a switch says of the switch, and whom it has heard."""

    chassis_id: Identifier | None
    system_name: str
    neighbors: tuple[NeighborReport, ...]


@dataclass(frozen=True, slots=True)
class TopologyReport:
    """`lldp` is None where no LLDP daemon answers, or the switch has nothing that could tell."""

    interfaces: Mapping[str, InterfaceReport]
    lldp: LldpReport | None


def topology_filter() -> list[Element]:
    """Subtree filter: what identifies each interface, its speed; all of LLDP."""
    leaves = ("name", "oper-status", "phys-address", "speed")
    return [
        _IF("interfaces", _IF("interface", *(_IF(leaf) for leaf in leaves))),
        _TSNL("lldp"),
    ]


def topology_report(data: Element) -> TopologyReport:
    """The reply to `topology_filter`; ValueError for a speed that is no number."""
    interfaces = {}
    for interface in data.iterfind("if:interfaces/if:interface", _NAMESPACES):
        name = _text(interface, "if:name")
        interfaces[name] = InterfaceReport(
            name=name,
            oper_status=_text(interface, "if:oper-status"),
            phys_address=_text(interface, "if:phys-address"),
            # RFC 8343: 0 where there is no such thing as a speed.
            speed_bps=int(_text(interface, "if:speed") or 0) or None,
        )
    lldp = data.find("t:lldp", _NAMESPACES)
    return TopologyReport(interfaces, None if lldp is None else _lldp_report(lldp))


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
                    for address in neighbor.iterfind("t:management-address", _NAMESPACES)
                ),
                capabilities=frozenset(_text(neighbor, "t:system-capabilities-enabled").split()),
            )
            for neighbor in lldp.iterfind("t:neighbor", _NAMESPACES)
        ),
    )


def _identifier(parent: Element, path: str) -> Identifier | None:
    text = _text(parent, path)
    return Identifier(text, _text(parent, f"{path}-subtype")) if text else None


def _text(parent: Element, path: str) -> str:
    return parent.findtext(path, default="", namespaces=_NAMESPACES)
