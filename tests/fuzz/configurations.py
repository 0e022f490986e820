"""Configurations from the schema: nodes where they belong, values that may or may not fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import libyang
from hypothesis import strategies as st

from tests.fuzz.rpcs import BASE, TEXTS

_OPERATIONS = ("merge", "replace", "create", "delete", "remove", "nothing")
_LEFT_OUT = ("sysrepo", "ietf-netconf-acm", "fuzz-")
_DEPTH = 12
_CHILDREN = 4
_NUMBERS = (
    "0",
    "1",
    "2",
    "7",
    "8",
    "255",
    "1000",
    "1000000",
    "4294967295",
    "18446744073709551615",
    "-1",
)
_BY_TYPE = {
    "boolean": ("true", "false"),
    "empty": ("",),
    "string": ("p1", "p2", "operator"),
    "instance-identifier": ("/if:interfaces", "/if:interfaces/if:interface[if:name='p1']", "/"),
    "leafref": ("p1", "1"),
    "binary": ("AAAA", "=", "AAA"),
    "bits": ("create read", "*", "exec"),
}


@dataclass(frozen=True)
class Node:
    """A configurable schema node; `values` fit a leaf's type, `keys` name a list's keys."""

    name: str
    namespace: str
    values: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    children: tuple[Node, ...] = ()

    @property
    def is_leaf(self) -> bool:
        return bool(self.values)  # a container may have no children


def schema(context: libyang.Context) -> tuple[Node, ...]:
    """The configuration that the modules installed allow; without those that guard access.

    And without that of this fuzzer.
    """
    return tuple(
        _node(top)
        for module in context
        if module.implemented() and not module.name().startswith(_LEFT_OUT)
        for top in _configurable(module)
    )


def _configurable(parent: Any) -> Iterator[Any]:
    kinds = (
        libyang.SNode.CONTAINER,
        libyang.SNode.LIST,
        libyang.SNode.LEAF,
        libyang.SNode.LEAFLIST,
    )
    return (node for node in parent.children(types=kinds) if not node.config_false())


def _node(schema_node: Any) -> Node:
    name = schema_node.name()
    namespace = libyang.util.c2str(schema_node.module().cdata.ns)
    if schema_node.nodetype() in {schema_node.LEAF, schema_node.LEAFLIST}:
        return Node(name, namespace, values=_values(schema_node.type()))
    keys: tuple[str, ...] = ()
    if schema_node.nodetype() == schema_node.LIST:
        keys = tuple(key.name() for key in schema_node.keys())  # noqa: SIM118  no mapping
    children = tuple(_node(child) for child in _configurable(schema_node))
    return Node(name, namespace, keys=keys, children=children)


def _values(of: Any) -> tuple[str, ...]:
    base = of.basename()
    if base == "enumeration":
        return tuple(enum.name() for enum in of.enums())
    if base == "identityref":
        return (
            "ianaift:ethernetCsmacd",
            "sched:set-gate-states",
            "sched:set-and-hold-mac",
            "psfp:set-gate-and-ipv",
            "x:y",
        )
    return _BY_TYPE.get(base, _NUMBERS)


@st.composite
def configurations(draw: st.DrawFn, roots: tuple[Node, ...]) -> str:
    """The inside of a <config>."""
    return "".join(
        _written(draw, draw(st.sampled_from(roots)), 0) for _ in range(draw(st.integers(1, 2)))
    )


def _written(draw: st.DrawFn, node: Node, depth: int) -> str:
    # One number decides what is unusual about this node, so that most nodes are usual.
    oddity = draw(st.integers(0, 39))
    attributes = f" xmlns={quoteattr(node.namespace)}"
    if depth == 0:
        attributes += (
            ' xmlns:ianaift="urn:ietf:params:xml:ns:yang:iana-if-type"'
            ' xmlns:sched="urn:ieee:std:802.1Q:yang:ieee802-dot1q-sched"'
            ' xmlns:psfp="urn:ieee:std:802.1Q:yang:ieee802-dot1q-psfp"'
            ' xmlns:if="urn:ietf:params:xml:ns:yang:ietf-interfaces"'
        )
    if oddity < len(_OPERATIONS):
        attributes += f' xmlns:nc="{BASE}" nc:operation="{_OPERATIONS[oddity]}"'
    if oddity == 38:
        attributes += ' xmlns:yang="urn:ietf:params:xml:ns:yang:1" yang:insert="first"'
    if node.is_leaf:
        values = TEXTS if oddity == 39 else node.values
        return f"<{node.name}{attributes}>{escape(draw(st.sampled_from(values)))}</{node.name}>"
    keys = [child for child in node.children if child.name in node.keys]
    others = [child for child in node.children if child.name not in node.keys]
    chosen = [] if oddity == 37 else keys
    if others and depth < _DEPTH:
        chosen = [*chosen, *draw(st.lists(st.sampled_from(others), max_size=_CHILDREN))]
    inside = "".join(_written(draw, child, depth + 1) for child in chosen)
    return f"<{node.name}{attributes}>{inside}</{node.name}>"
