"""Preemptable priorities of a bridge port in the YANG tree: configured in the standard's table
(`ieee802-dot1q-preemption-bridge`), and as the kernel has them (`tsn-linux`).

A value that a node cannot have raises ValueError with its name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.bridge_port import bridge_port_of
from cnc.data_tree.reply import Element, Reply
from cnc.data_tree.tree import (
    BRIDGE,
    INTERFACES,
    NETCONF,
    PREEMPTION_BRIDGE,
    PRIORITIES,
    TSN_LINUX,
)
from cnc.mechanism import PlaceEdit
from cnc.mechanisms.preemption.model import MacMerge, PortPreemption, PreemptionReport
from cnc.model import NOTHING_STORED

_PREEMPT = ElementMaker(namespace=PREEMPTION_BRIDGE, nsmap={None: PREEMPTION_BRIDGE})
_NAMESPACES = {"b": BRIDGE, "p": PREEMPTION_BRIDGE, "if": INTERFACES, "t": TSN_LINUX}
_KERNEL = reply.Leaves(TSN_LINUX)
_INTERFACES = reply.Leaves(INTERFACES)
_OPERATION = f"{{{NETCONF}}}operation"
_TABLE = "p:frame-preemption-parameters/p:frame-preemption-status-table"
_WORD = "preemptable"


def edit(parts: Mapping[str, PortPreemption], its: PlaceEdit) -> list[Element]:
    """Sets or removes the preemptable priorities of ports, in their interfaces; there is nothing
    beside. A port that is changed otherwise keeps none that are not asked: without its gates they
    would be refused. A server that does not know the module is told nothing of it where none are
    asked or stored."""
    for name in parts.keys() | its.interfaces.elements.keys():
        desired = parts.get(name, PortPreemption())
        before = (its.stored.get(name) or NOTHING_STORED)[PortPreemption]
        if desired.priorities or before.priorities:
            bridge_port_of(its.interfaces.of(name)).append(_element(desired))
    return []


def _element(desired: PortPreemption) -> Element:
    table = _PREEMPT(
        "frame-preemption-status-table",
        {_OPERATION: "replace" if desired.priorities else "remove"},
        *(_PREEMPT(f"priority{priority}", _WORD) for priority in desired.priorities),
    )
    return _PREEMPT("frame-preemption-parameters", table)


def stored(whole: Reply, _bridges: Collection[str] = ()) -> dict[str, PortPreemption]:
    """What ports have configured, by name."""
    return {
        name: PortPreemption(
            tuple(
                priority
                for priority in range(PRIORITIES)
                if reply.text(table, f"p:priority{priority}", _NAMESPACES) == _WORD
            )
        )
        for name, table in _found(whole, _TABLE)
    }


def reported(whole: Reply, _bridges: Collection[str] = ()) -> dict[str, PreemptionReport]:
    """What the kernel has at ports with a MAC merge layer, by name."""
    return {
        name: PreemptionReport(
            tuple(
                sorted(
                    reply.number(each.text or "", "preemptable-priority")
                    for each in reply.entries(its, "t:preemptable-priority", _NAMESPACES)
                )
            ),
            MacMerge(
                _KERNEL.text(its, "tx-enabled") == "true",
                _KERNEL.text(its, "tx-active") == "true",
                _KERNEL.required(its, "verify-status"),
                _KERNEL.number(its, "tx-min-fragment-octets"),
            ),
        )
        for name, its in _found(whole, "t:taprio/t:kernel/t:mac-merge-state")
    }


def _found(whole: Reply, path: str) -> Iterator[tuple[str, Element]]:
    """The node at a path below the bridge port of each interface that has it."""
    for interface in reply.entries(whole.data, "if:interfaces/if:interface", _NAMESPACES):
        its = interface.find(f"b:bridge-port/{path}", _NAMESPACES)
        if its is not None:
            yield _INTERFACES.required(interface, "name"), its
