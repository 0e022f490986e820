"""The idle slopes of a bridge port in the YANG tree: configured in the standard's table
(`ieee802-dot1q-cbsa-bridge`), and as the kernel has them (`tsn-linux`).

A value that a node cannot have raises ValueError with its name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.bridge_port import bridge_port_of
from cnc.data_tree.reply import Element, Reply
from cnc.data_tree.tree import BRIDGE, CBSA_BRIDGE, INTERFACES, NETCONF, TSN_LINUX
from cnc.mechanism import PlaceEdit
from cnc.mechanisms.cbs.model import PortSlopes, SlopeReport
from cnc.model import NOTHING_STORED

_CBSA = ElementMaker(namespace=CBSA_BRIDGE, nsmap={None: CBSA_BRIDGE})
_NAMESPACES = {"b": BRIDGE, "c": CBSA_BRIDGE, "if": INTERFACES, "t": TSN_LINUX}
_TABLE, _KERNEL = reply.Leaves(CBSA_BRIDGE), reply.Leaves(TSN_LINUX)
_INTERFACES = reply.Leaves(INTERFACES)
_OPERATION = f"{{{NETCONF}}}operation"


def edit(parts: Mapping[str, PortSlopes], its: PlaceEdit) -> list[Element]:
    """Sets or removes the idle slopes of ports, in their interfaces; there is nothing beside. A
    port that is changed otherwise keeps none that are not asked: without its gates it would be
    refused. A server that does not know the module is told nothing of it where none are asked or
    stored."""
    for name in parts.keys() | its.interfaces.elements.keys():
        desired = parts.get(name, PortSlopes())
        before = (its.stored.get(name) or NOTHING_STORED)[PortSlopes]
        if desired.by_class or before.by_class:
            bridge_port_of(its.interfaces.of(name)).append(_element(desired))
    return []


def _element(desired: PortSlopes) -> Element:
    rows = [
        _CBSA(
            "cbsa-parameter-table",
            _CBSA("traffic-class", str(number)),
            _CBSA("admin-idle-slope", str(slope_bps)),
        )
        for number, slope_bps in sorted(desired.by_class.items())
    ]
    return _CBSA("cbsa", {_OPERATION: "replace" if rows else "remove"}, *rows)


def stored(whole: Reply, _bridges: Collection[str] = ()) -> dict[str, PortSlopes]:
    """What ports have configured, by name."""
    rows = _rows(whole, "c:cbsa/c:cbsa-parameter-table")
    found = {
        name: {_TABLE.number(row, "traffic-class"): _slope(row) for row in its}
        for name, its in rows.items()
    }
    return {
        name: PortSlopes({n: bps for n, bps in its.items() if bps}) for name, its in found.items()
    }


def _slope(row: Element) -> int:
    leaf = "admin-idle-slope"
    return 0 if row.find(f"c:{leaf}", _NAMESPACES) is None else _TABLE.number(row, leaf)


def reported(whole: Reply, _bridges: Collection[str] = ()) -> dict[str, SlopeReport]:
    """What the kernel has at ports, by name. The table of `ieee802-dot1q-cbsa-bridge` has it as
    well, but not each server that is asked for state knows that module."""
    rows = _rows(whole, "t:taprio/t:kernel/t:credit-based-shaper")
    return {
        name: SlopeReport(
            {_KERNEL.number(row, "traffic-class"): _KERNEL.number(row, "idle-slope") for row in its}
        )
        for name, its in rows.items()
    }


def _rows(whole: Reply, path: str) -> dict[str, list[Element]]:
    """By interface the rows at a path below its bridge port, where there are any."""
    found = {
        _INTERFACES.required(its, "name"): [
            *reply.entries(its, f"b:bridge-port/{path}", _NAMESPACES)
        ]
        for its in reply.entries(whole.data, "if:interfaces/if:interface", _NAMESPACES)
    }
    return {name: rows for name, rows in found.items() if rows}
