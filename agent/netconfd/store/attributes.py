"""The attributes of an edit: those a client may use, checked before libyang sees them.

sysrepo has annotations of its own, which are no client's business, and libyang 3 frees memory twice
over a yang:key that it cannot read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lxml import etree

from agent.netconfd.errors import BASE, RpcError, attribute_error
from agent.sysrepo import LibyangError, SList

YANG = "urn:ietf:params:xml:ns:yang:1"
OPERATION = f"{{{BASE}}}operation"
_INSERT = f"{{{YANG}}}insert"
_KEY = f"{{{YANG}}}key"
_VALUE = f"{{{YANG}}}value"
_ALLOWED = frozenset({OPERATION, _INSERT, _KEY, _VALUE})

# One [prefix:name='value'] of a list instance's keys (RFC 7950 section 7.8.6).
_PREDICATE = re.compile(
    r"""\s*\[\s*(?:([A-Za-z_][\w.-]*):)?([A-Za-z_][\w.-]*)\s*=\s*('[^']*'|"[^"]*")\s*\]\s*""",
    re.ASCII,
)
_WITH_ATTRIBUTES = etree.XPath(".//*[@*]")


def with_attributes(config: etree._Element) -> list[etree._Element]:
    """The elements below `config` that have any."""
    return list(_WITH_ATTRIBUTES(config))


def check(
    context: Any,
    nodes: Sequence[etree._Element],
    config: etree._Element,
    modules: Mapping[str, str],
) -> None:
    """Refuse unknown attributes and places in a list that are none. Raises RpcError.

    One without a namespace is left to libyang, which can tell where it is. The keys are rewritten
    without prefixes. `modules` maps namespace to module name.
    """
    for node in nodes:
        for name in node.attrib:
            if name.startswith("{") and name not in _ALLOWED:
                raise _error("unknown-attribute", node, name, "an edit has no such attribute")
        if not {_INSERT, _KEY} & set(node.attrib):
            continue
        schema = schema_of(context, node, config, modules)
        if node.get(_INSERT) in {"before", "after"}:
            neighbour = _KEY if isinstance(schema, SList) else _VALUE
            if neighbour not in node.attrib:
                raise _error("missing-attribute", node, neighbour, "insert needs it")
        key = node.get(_KEY)
        if key is not None:
            node.set(_KEY, _without_prefixes(key, node, schema))


def schema_of(
    context: Any, node: etree._Element, config: etree._Element, modules: Mapping[str, str]
) -> Any:
    """The schema node of an element below `config`, None if there is none."""
    steps = []
    for each in [node, *node.iterancestors()]:
        if each is config:
            break
        steps.append(etree.QName(each))
    path = "".join(f"/{modules[step.namespace or '']}:{step.localname}" for step in reversed(steps))
    try:
        return next(context.find_path(path))
    except LibyangError:
        return None


def _without_prefixes(key: str, node: etree._Element, schema: Any) -> str:
    if not isinstance(schema, SList):
        raise _error("bad-attribute", node, _KEY, "only an entry of a list is placed by key")
    wanted = [each.name() for each in schema.keys()]  # noqa: SIM118  it is no mapping
    namespace = etree.QName(node).namespace
    values: dict[str, str] = {}
    position = 0
    while match := _PREDICATE.match(key, position):
        prefix, name, value = match.groups()
        if node.nsmap.get(prefix) != namespace or name in values:
            break
        values[name] = value
        position = match.end()
    if position < len(key) or sorted(values) != sorted(wanted):
        expected = "".join(f"[prefix:{name}='value']" for name in wanted)
        raise _error("bad-attribute", node, _KEY, f"{key!r} is not {expected}")
    return "".join(f"[{name}={values[name]}]" for name in wanted)


def _error(tag: str, node: etree._Element, attribute: str, why: str) -> RpcError:
    name, element = etree.QName(attribute).localname, etree.QName(node).localname
    return attribute_error(
        tag,
        f"attribute {name} of <{element}>: {why}",
        attribute=name,
        element=element,
        layer="application",
    )
