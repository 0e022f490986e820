"""Which priority the ports of a switch give to priority code points, and which code points they
send (802.1Q 6.9.3, 6.9.4): as tables of `ieee802-dot1q-bridge` say, and as the kernel does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.reply import Element
from cnc.data_tree.tree import BRIDGE, INTERFACES, PRIORITIES, TSN_LINUX, Recoding

_IF = ElementMaker(namespace=INTERFACES, nsmap={None: INTERFACES})
_BRIDGE = ElementMaker(namespace=BRIDGE, nsmap={None: BRIDGE})
_TSNL = ElementMaker(namespace=TSN_LINUX, nsmap={None: TSN_LINUX})
_NAMESPACES = {"if": INTERFACES, "b": BRIDGE, "t": TSN_LINUX}
_IDENTITY = {p: p for p in range(PRIORITIES)}


class _Table(NamedTuple):
    """A table that maps code points to priorities, or priorities to code points."""

    name: str
    map: str
    key: str
    value: str


_DECODING = _Table("pcp-decoding-table", "pcp-decoding-map", "priority-code-point", "priority")
_ENCODING = _Table("pcp-encoding-table", "pcp-encoding-map", "priority", "priority-code-point")
_TABLES = (_DECODING, _ENCODING)


def configured_filter() -> Element:
    """A subtree filter: of all ports the tables that give received frames a priority."""
    port = _BRIDGE("bridge-port", _BRIDGE("priority-regeneration"), _BRIDGE(_DECODING.name))
    return _IF("interfaces", _IF("interface", _IF("name"), port))


def state_filter() -> Element:
    """A subtree filter: of all ports the tables, and which priorities the kernel gives."""
    kernel = _TSNL("kernel", _TSNL("bridged-frames", _TSNL("received-priority")))
    port = _BRIDGE(
        "bridge-port", *(_BRIDGE(table.name) for table in _TABLES), _TSNL("taprio", kernel)
    )
    return _IF("interfaces", _IF("interface", _IF("name"), port))


def configured_trust(data: Element) -> tuple[str, ...]:
    """The ports that are to give each received frame the priority of its PCP, sorted."""
    return tuple(
        sorted(
            name
            for name, port in _ports(data)
            if _regeneration(port) == _IDENTITY and not _recodings(port, _DECODING)
        )
    )


def trust_in_kernel(data: Element) -> tuple[str, ...]:
    """The ports whose kernel gives each received frame the priority of its PCP, sorted."""
    path = "t:taprio/t:kernel/t:bridged-frames/t:received-priority"
    return tuple(
        sorted(
            name
            for name, port in _ports(data)
            if {
                row.number("code-point"): row.number("priority")
                for row in reply.rows(port, path, _NAMESPACES)
            }
            == _IDENTITY
        )
    )


def recoded(data: Element) -> dict[str, tuple[Recoding, ...]]:
    """By port what its tables change of code points; without ports where they change nothing."""
    found = {
        name: tuple(each for table in _TABLES for each in _recodings(port, table))
        for name, port in _ports(data)
    }
    return {name: recodings for name, recodings in found.items() if recodings}


def misleading(
    recodings: Mapping[str, Collection[Recoding]], classes: Collection[int]
) -> Iterator[tuple[str, Recoding]]:
    """Those that lead a frame to another traffic class, by port; `classes` are by priority."""
    by_priority = tuple(classes)
    for port, its in sorted(recodings.items()):
        for each in its:
            if by_priority[each.before] != by_priority[each.after]:
                yield port, each


def _ports(data: Element) -> Iterator[tuple[str, Element]]:
    for interface in reply.entries(data, "if:interfaces/if:interface", _NAMESPACES):
        port = interface.find("b:bridge-port", _NAMESPACES)
        if port is not None:
            yield reply.text(interface, "if:name", _NAMESPACES) or "", port


def _regeneration(port: Element) -> dict[int, int]:
    table = port.find("b:priority-regeneration", _NAMESPACES)
    if table is None:
        return {}
    leaves = {p: reply.text(table, f"b:priority{p}", _NAMESPACES) for p in _IDENTITY}
    return {p: reply.number(text, f"priority{p}") for p, text in leaves.items() if text}


def _recodings(port: Element, table: _Table) -> list[Recoding]:
    found = []
    path = f"b:{table.name}/b:{table.map}/b:priority-map"
    for row in reply.rows(port, path, _NAMESPACES):
        before, after = row.number(table.key), row.optional_number(table.value)
        if after is not None and after != before:
            for name, value in ((table.key, before), (table.value, after)):
                if value not in _IDENTITY:
                    raise ValueError(f"{name} is {value}, which is no priority")
            found.append(Recoding(table.name, before, after))
    return found
