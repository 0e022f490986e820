"""The <config> of an edit, checked and printed again, for sysrepo to apply.

Attributes are checked before libyang sees them: sysrepo has annotations of its own, which a client
must not use, and libyang 3 frees memory twice over a yang:key that it cannot read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lxml import etree

from agent.netconfd.errors import BASE, RpcError, attribute_error
from agent.netconfd.session import namespaces
from agent.netconfd.session.get import DEFAULT
from agent.sysrepo import LibyangError, SLeaf, SList
from agent.sysrepo.data import print_xml

YANG = "urn:ietf:params:xml:ns:yang:1"
_OPERATION = f"{{{BASE}}}operation"
_INSERT = f"{{{YANG}}}insert"
_KEY = f"{{{YANG}}}key"
_VALUE = f"{{{YANG}}}value"
_ALLOWED = frozenset({_OPERATION, _INSERT, _KEY, _VALUE})

# One [prefix:name='value'] of a list instance's keys (RFC 7950 section 7.8.6).
_PREDICATE = re.compile(
    r"""\s*\[\s*(?:([A-Za-z_][\w.-]*):)?([A-Za-z_][\w.-]*)\s*=\s*('[^']*'|"[^"]*")\s*\]\s*""",
    re.ASCII,
)
_WITH_ATTRIBUTES = etree.XPath(".//*[@*]")
# Of the namespaces declared around the nodes in a <config>, which the XML of each of them repeats.
MAX_REPEATED_OCTETS = 16 * 2**20


class Edit(NamedTuple):
    """An edit as libyang prints it. `is_opaque`: only a tree with opaque nodes can hold it."""

    xml: str
    is_opaque: bool


def parse(context: Any, config: etree._Element, modules: Mapping[str, str]) -> Edit:
    """The edit in <config>, which is taken apart; `modules` maps namespace to module name.

    Raises RpcError or LibyangError.
    """
    namespaces.check_config(context, config, modules)
    nodes = _with_attributes(config)
    marked = _marked_defaults(context, nodes, config, modules)
    _check_attributes(context, nodes, config, modules)
    for leaf in marked:
        # Creating keeps the value, since it must fail where there is one.
        if leaf.get(_OPERATION) in {None, "merge", "replace"}:
            leaf.set(_OPERATION, "remove")
    xml = _inner_xml(config)
    valueless = [node for node in nodes if _is_leaf_to_delete(context, node, config, modules)]
    if not valueless:
        return Edit(
            printed(context.parse_data_mem(xml, "xml", parse_only=True, strict=True)),
            is_opaque=False,
        )
    # <leaf operation="delete"/> is legal without a value, yet for most types only a tree with
    # opaque nodes can hold it. Such a parse forgives other faults too: check the rest before.
    for leaf in valueless:
        _remove(leaf)
    rest = context.parse_data_mem(_inner_xml(config), "xml", parse_only=True, strict=True)
    if rest is not None:
        rest.free()
    return Edit(
        printed(context.parse_data_mem(xml, "xml", parse_only=True, strict=True, opaq=True)),
        is_opaque=True,
    )


def printed(tree: Any) -> str:
    """The tree as XML, with all that was in it; frees the tree."""
    if tree is None:
        return ""
    try:
        return print_xml(tree, "report-all", empty_containers=True)
    finally:
        tree.free()


def whole(context: Any, config: etree._Element, modules: Mapping[str, str]) -> str:
    """The XML of a <config> that is a configuration and no edit. Raises RpcError."""
    namespaces.check_config(context, config, modules)
    nodes = _with_attributes(config)
    marked = _marked_defaults(context, nodes, config, modules)
    _check_attributes(context, nodes, config, modules)
    for leaf in marked:
        _remove(leaf)
    return _inner_xml(config)


def _inner_xml(config: etree._Element) -> str:
    """What <config> holds, each child complete with the namespaces it uses. Raises RpcError."""
    if len(config) * sum(map(len, config.nsmap.values())) > MAX_REPEATED_OCTETS:
        raise RpcError(
            "too-big",
            f"<config> holds {len(config)} nodes within the scope of long namespaces: declare "
            "namespaces where they are used",
            info={"bad-element": "config"},
        )
    return "".join(etree.tostring(child, encoding="unicode", with_tail=False) for child in config)


def _marked_defaults(
    context: Any,
    nodes: Sequence[etree._Element],
    config: etree._Element,
    modules: Mapping[str, str],
) -> list[etree._Element]:
    """The leaves that the client marks as their default (RFC 6243 section 6), without the mark.

    In the basic mode explicit, a leaf at its default is one that is not set.
    """
    marked = []
    for leaf in nodes:
        mark = leaf.attrib.pop(DEFAULT, "false")
        if mark not in {"true", "1", "false", "0"}:
            raise _bad_default(leaf, f'wd:default="{mark}" is not a boolean')
        if mark in {"false", "0"}:
            continue
        schema = _schema_of(context, leaf, config, modules)
        default = schema.default() if isinstance(schema, SLeaf) else None
        if default is None or _canonical(default) != (leaf.text or "").strip():
            raise _bad_default(leaf, f"{leaf.text or 'nothing'} is not its default")
        marked.append(leaf)
    return marked


def _remove(node: etree._Element) -> None:
    parent = node.getparent()
    if parent is not None:
        parent.remove(node)


def _bad_default(leaf: etree._Element, why: str) -> RpcError:
    name = etree.QName(leaf).localname
    return RpcError("invalid-value", f"<{name}>: {why}", info={"bad-element": name})


def _canonical(default: object) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)


def _is_leaf_to_delete(
    context: Any, node: etree._Element, config: etree._Element, modules: Mapping[str, str]
) -> bool:
    return (
        node.get(_OPERATION) in {"delete", "remove"}
        and not len(node)
        and not (node.text or "").strip()
        and isinstance(_schema_of(context, node, config, modules), SLeaf)
    )


def _with_attributes(config: etree._Element) -> list[etree._Element]:
    """The elements below `config` that have any."""
    return list(_WITH_ATTRIBUTES(config))


def _check_attributes(
    context: Any,
    nodes: Sequence[etree._Element],
    config: etree._Element,
    modules: Mapping[str, str],
) -> None:
    """Refuse unknown attributes and invalid positions in a list. Raises RpcError.

    Attributes without a namespace are left to libyang, which reports their path. Keys are
    rewritten without prefixes. `modules` maps namespace to module name.
    """
    for node in nodes:
        for name in node.attrib:
            if name.startswith("{") and name not in _ALLOWED:
                raise _attribute_error(
                    "unknown-attribute", node, name, "an edit has no such attribute"
                )
        if not {_INSERT, _KEY} & set(node.attrib):
            continue
        schema = _schema_of(context, node, config, modules)
        if node.get(_INSERT) in {"before", "after"}:
            neighbour = _KEY if isinstance(schema, SList) else _VALUE
            if neighbour not in node.attrib:
                raise _attribute_error("missing-attribute", node, neighbour, "insert needs it")
        key = node.get(_KEY)
        if key is not None:
            node.set(_KEY, _without_prefixes(key, node, schema))


def _schema_of(
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
        raise _attribute_error(
            "bad-attribute", node, _KEY, "only an entry of a list is placed by key"
        )
    keys = [each.name() for each in schema.keys()]  # noqa: SIM118  not a mapping
    namespace = etree.QName(node).namespace
    values: dict[str, str] = {}
    position = 0
    while match := _PREDICATE.match(key, position):
        prefix, name, value = match.groups()
        if node.nsmap.get(prefix) != namespace or name in values:
            break
        values[name] = value
        position = match.end()
    if position < len(key) or sorted(values) != sorted(keys):
        expected = "".join(f"[prefix:{name}='value']" for name in keys)
        raise _attribute_error("bad-attribute", node, _KEY, f"{key!r} is not {expected}")
    return "".join(f"[{name}={values[name]}]" for name in keys)


def _attribute_error(tag: str, node: etree._Element, attribute: str, why: str) -> RpcError:
    name, element = etree.QName(attribute).localname, etree.QName(node).localname
    return attribute_error(
        tag,
        f"attribute {name} of <{element}>: {why}",
        attribute=name,
        element=element,
        layer="application",
    )
