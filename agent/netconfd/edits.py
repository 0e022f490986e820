"""The <config> of an edit, from XML to a libyang tree that sysrepo applies."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import libyang
from lxml import etree

from agent.netconfd.errors import BASE, RpcError

OPERATION = f"{{{BASE}}}operation"


def inner_xml(config: etree._Element) -> str:
    """What <config> holds, each child complete with the namespaces it uses."""
    return "".join(etree.tostring(child, encoding="unicode", with_tail=False) for child in config)


def parse(context: Any, config: etree._Element, modules: Mapping[str, str]) -> Any:
    """The edit as a tree, None if it is empty; the caller frees it.

    `modules` maps namespace to module name. Raises RpcError or libyang.LibyangError.
    """
    for node in config.iterdescendants():
        _check_namespace(node, modules)
    checked = deepcopy(config)
    valueless = [leaf for leaf in checked.iter() if _is_leaf_to_delete(context, leaf, modules)]
    if not valueless:
        return context.parse_data_mem(inner_xml(config), "xml", parse_only=True, strict=True)
    # <leaf operation="delete"/> is legal without a value, yet for most types only a tree with
    # opaque nodes can hold it. Such a parse forgives other faults too: check the rest before.
    for leaf in valueless:
        parent = leaf.getparent()
        if parent is not None:
            parent.remove(leaf)
    tree = context.parse_data_mem(inner_xml(checked), "xml", parse_only=True, strict=True)
    if tree is not None:
        tree.free()
    return context.parse_data_mem(inner_xml(config), "xml", parse_only=True, strict=True, opaq=True)


def _check_namespace(node: etree._Element, modules: Mapping[str, str]) -> None:
    # libyang finds this too but cannot name the element, which the client is owed.
    name = etree.QName(node)
    if name.namespace not in modules:
        raise RpcError(
            "unknown-namespace",
            f"<{name.localname}>: no module here has the namespace {name.namespace or 'none'}",
            info={"bad-element": name.localname, "bad-namespace": name.namespace or ""},
        )


def _is_leaf_to_delete(context: Any, node: etree._Element, modules: Mapping[str, str]) -> bool:
    if node.get(OPERATION) not in {"delete", "remove"} or len(node) or (node.text or "").strip():
        return False
    ancestors = [node, *node.iterancestors()]
    steps = [etree.QName(each) for each in reversed(ancestors[:-1])]
    path = "".join(f"/{modules.get(step.namespace or '', '')}:{step.localname}" for step in steps)
    try:
        schema = next(context.find_path(path))
    except libyang.LibyangError:
        return False
    return bool(schema.nodetype() == schema.LEAF)
