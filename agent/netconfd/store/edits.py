"""The <config> of an edit, from XML to a libyang tree that sysrepo applies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lxml import etree

from agent.netconfd.errors import RpcError
from agent.netconfd.store import attributes
from agent.netconfd.store.attributes import OPERATION
from agent.netconfd.store.reading import DEFAULT
from agent.sysrepo import SLeaf

# Of the namespaces declared around the nodes in a <config>, which the XML of each of them repeats.
MAX_REPEATED_OCTETS = 16 * 2**20


def parse(context: Any, config: etree._Element, modules: Mapping[str, str]) -> Any:
    """The edit as a tree, None if it is empty; the caller frees it.

    `modules` maps namespace to module name. Takes <config> apart. Raises RpcError or
    LibyangError.
    """
    _check_namespaces(config, modules)
    nodes = attributes.with_attributes(config)
    marked = _marked_defaults(context, nodes, config, modules)
    attributes.check(context, nodes, config, modules)
    for leaf in marked:
        # Creating keeps the value, since it must fail where there is one.
        if leaf.get(OPERATION) in {None, "merge", "replace"}:
            leaf.set(OPERATION, "remove")
    xml = _inner_xml(config)
    valueless = [node for node in nodes if _is_leaf_to_delete(context, node, config, modules)]
    if not valueless:
        return context.parse_data_mem(xml, "xml", parse_only=True, strict=True)
    # <leaf operation="delete"/> is legal without a value, yet for most types only a tree with
    # opaque nodes can hold it. Such a parse forgives other faults too: check the rest before.
    for leaf in valueless:
        _remove(leaf)
    rest = context.parse_data_mem(_inner_xml(config), "xml", parse_only=True, strict=True)
    if rest is not None:
        rest.free()
    return context.parse_data_mem(xml, "xml", parse_only=True, strict=True, opaq=True)


def whole(context: Any, config: etree._Element, modules: Mapping[str, str]) -> str:
    """The XML of a <config> that is a configuration and no edit. Raises RpcError."""
    _check_namespaces(config, modules)
    nodes = attributes.with_attributes(config)
    marked = _marked_defaults(context, nodes, config, modules)
    attributes.check(context, nodes, config, modules)
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


def _check_namespaces(config: etree._Element, modules: Mapping[str, str]) -> None:
    """Refuse elements of no module here.

    libyang finds them too but cannot name the element, which the client is owed.
    """
    # A large edit repeats a few names.
    for tag in {str(node.tag) for node in config.iterdescendants()}:
        name = etree.QName(tag)
        if name.namespace in modules:
            continue
        raise RpcError(
            "unknown-namespace",
            f"<{name.localname}>: no module here has the namespace {name.namespace or 'none'}",
            info={"bad-element": name.localname, "bad-namespace": name.namespace or ""},
        )


def _marked_defaults(
    context: Any,
    nodes: Sequence[etree._Element],
    config: etree._Element,
    modules: Mapping[str, str],
) -> list[etree._Element]:
    """The leaves that the client marks as their default (RFC 6243 section 6), without the mark.

    In the basic mode explicit, a leaf at its default is one that nobody has set.
    """
    marked = []
    for leaf in nodes:
        mark = leaf.attrib.pop(DEFAULT, "false")
        if mark not in {"true", "1", "false", "0"}:
            raise _bad_default(leaf, f'wd:default="{mark}" is no boolean')
        if mark in {"false", "0"}:
            continue
        schema = attributes.schema_of(context, leaf, config, modules)
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
        node.get(OPERATION) in {"delete", "remove"}
        and not len(node)
        and not (node.text or "").strip()
        and isinstance(attributes.schema_of(context, node, config, modules), SLeaf)
    )
