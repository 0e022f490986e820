"""What an XPath selects: the schema nodes to read for it, and the data nodes that it keeps.

A filter is evaluated on what its sender may read, not on all there is: whoever evaluates it asks
for `needed_paths`, gets what of these the user may read, and applies `select`. For a user whom no
rule restricts, the outcome is that of `sr_get_data` with the same expression.

Nothing here needs a connection to sysrepo. An expression that libyang cannot evaluate raises
LibyangError.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Iterator
from typing import Any

import libyang
from libyang.context import ffi, lib

from agent.sysrepo.library import LIBRARY, address

LIBRARY.lyd_eval_xpath4.argtypes = [
    *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int),
    *[ctypes.c_void_p] * 7,
]
# tree.h, LY_VALUE_FORMAT: the bindings lack it. Prefixes are names of modules.
_LY_VALUE_JSON = 4

# On any data libyang tells whether it can evaluate an expression, and to nodes. Every server has a
# YANG library (RFC 7950, section 5.6.4), with this in both of its revisions.
_ANY_DATA = '<modules-state xmlns="urn:ietf:params:xml:ns:yang:ietf-yang-library"/>'

_OPERATIONS = lib.LYS_RPC | lib.LYS_ACTION | lib.LYS_NOTIF
_INNER = lib.LYS_CONTAINER | lib.LYS_LIST

# Unions of paths downwards, whose conditions compare what is below a node with constants: what such
# a path passes on its way matters only where it leads to an end.
NAME = r"[A-Za-z_][\w.-]*+"
_PREFIXED = rf"{NAME}:{NAME}(?!\s*+\()"
_NODE = rf"(?:{_PREFIXED}|{NAME}(?!\s*+[(:]))"
LITERAL = r"""(?:"[^"]*+"|'[^']*+')"""
_ANY_NAMESPACE = rf"\*\[local-name\(\)={LITERAL}\]"
_CONSTANT = rf"(?:{LITERAL}|concat\({LITERAL}(?:,\s*+{LITERAL})*+\)|-?\d++(?:\.\d++)?+)"
_COMPARED = rf"\s*+(?:!?=|[<>]=?+)\s*+{_CONSTANT}"
_OPERAND = rf"(?:{_NODE}(?:/{_NODE})*+|{_ANY_NAMESPACE})"
CONDITIONS = rf"(?:\[\s*+{_OPERAND}(?:{_COMPARED})?+\s*+\])*+"
_STEP = rf"(?:{_NODE}|{_ANY_NAMESPACE}|\*){CONDITIONS}"
# For a name without a prefix below //, libyang finds other nodes in schemas than in data.
_ANY_STEP = rf"//(?:{_PREFIXED}|{_ANY_NAMESPACE}|\*){CONDITIONS}"
_PATH = (
    rf"\s*+(?:{_ANY_STEP}|/?+{_STEP})(?:{_ANY_STEP}|/{_STEP})*+(?:\[\s*+\.{_COMPARED}\s*+\])?+\s*+"
)
_DOWNWARDS = re.compile(rf"{_PATH}(?:\|{_PATH})*+", re.ASCII)
_PIECE = re.compile(rf"(?:{LITERAL}|[^|'\"])++")
# The steps are read along, so that no condition is seen in a literal of theirs.
_CONDITION = re.compile(rf"{_ANY_NAMESPACE}|\[\s*+({_OPERAND}|\.)(?:{_COMPARED})?+\s*+\]", re.ASCII)


def union_of_paths(xpath: str) -> tuple[str, ...]:
    """The paths whose union `xpath` is, each once, if they all lead downwards; else ().

    libyang puts the nodes of a union in order after each path, which takes as long as there are
    nodes in the tree; and of schemas it does not tell which nodes one path ends at and one passes.
    """
    return tuple(dict.fromkeys(_PIECE.findall(xpath))) if _DOWNWARDS.fullmatch(xpath) else ()


def needed_paths(context: libyang.Context, xpath: str) -> tuple[str, ...]:
    """Schema paths whose data, and nothing else, decide on what `xpath` selects.

    Such as /ietf-interfaces:interfaces/interface/enabled: without predicates, and with a module
    name where it is not the parent's. Each stands for its whole subtree; none is below another.
    Operations and notifications are not data. () where no data can be selected.
    """
    _check_selects_nodes(context, xpath)
    if paths := union_of_paths(xpath):
        nodes = _ends(context, paths)
    else:
        # Position, count and text of a node may depend on anything that is there.
        atoms = _schema_nodes(lib.lys_find_xpath_atoms, context, xpath)
        modules = {_module(node) for node in atoms}
        nodes = [top for module in modules for top in _top_nodes(module)]
    return tuple(sorted(_path(node) for node in nodes))


def select(tree: libyang.DNode | None, xpath: str, max_depth: int = 0) -> libyang.DNode | None:
    """Keep what `xpath` selects: its subtrees, their ancestors, and the keys of lists.

    `max_depth` 0 is unbounded, 1 the selected nodes alone. The tree and its siblings are freed
    except for what is kept, which is returned and is the caller's; after an exception it is all of
    the tree.
    """
    if tree is None:
        return None
    first = lib.lyd_first_sibling(tree.cdata)
    paths = union_of_paths(xpath) or (xpath,)
    selected = {node for path in paths for node in _data_nodes(tree.context, first, path)}
    ancestors: set[Any] = set()
    for node in selected:
        parent = node.parent
        while parent and parent not in ancestors:
            ancestors.add(parent)
            parent = parent.parent
    kept = ffi.NULL
    pending = [*_siblings(first)]
    for node in pending:
        if node in selected:
            kept = kept or node
            if max_depth:
                _cut(node, max_depth)
        elif node in ancestors:
            kept = kept or node
            pending += _children(node)
        elif not _is_key(node):
            lib.lyd_free_tree(node)
    return libyang.DNode.new(tree.context, lib.lyd_first_sibling(kept)) if kept else None


def selects(tree: libyang.DNode, xpath: str) -> bool:
    """Whether `xpath` selects anything in the tree, such as a notification, and its siblings."""
    return bool(_data_nodes(tree.context, tree.cdata, xpath))


def _check_selects_nodes(context: libyang.Context, xpath: str) -> None:
    data = context.parse_data_mem(_ANY_DATA, "xml", parse_only=True)
    try:
        _data_nodes(context, data.cdata, xpath)
    finally:
        data.free()


def _data_nodes(context: libyang.Context, tree: Any, xpath: str) -> list[Any]:
    """The nodes that `xpath` selects from the root (`lyd_eval_xpath4`); the set is freed here.

    The module is for identities without a prefix: from the root, with none, libyang 3.13.6 reads
    invalid memory. `lyd_find_xpath3` gives it none.
    """
    found = ffi.new("struct ly_set **")
    module = address(tree.schema.module)
    if LIBRARY.lyd_eval_xpath4(
        *(None, address(tree), module, xpath.encode(), _LY_VALUE_JSON),
        *(None, None, None, address(found), None, None, None),
    ):
        raise context.error("cannot evaluate the XPath")
    try:
        return list(ffi.unpack(found[0].dnodes, found[0].count)) if found[0].count else []
    finally:
        lib.ly_set_free(found[0], ffi.NULL)


def _schema_nodes(find: Any, context: libyang.Context, xpath: str) -> list[Any]:
    """The nodes of data that `lys_find_xpath` or `lys_find_xpath_atoms` finds."""
    nodes: list[Any] = []
    # On schema nodes, unlike on data, libyang 3.13.6 finds no topmost node for //.
    for expression in {xpath, xpath.replace("//", "/", 1), xpath.replace("//", "/")}:
        found = ffi.new("struct ly_set **")
        if find(context.cdata, ffi.NULL, expression.encode(), 0, found):
            raise context.error("cannot evaluate the XPath")
        try:
            nodes += ffi.unpack(found[0].snodes, found[0].count) if found[0].count else ()
        finally:
            lib.ly_set_free(found[0], ffi.NULL)
    return [node for node in nodes if not _in_operation(node)]


def _ends(context: libyang.Context, paths: Iterable[str]) -> list[Any]:
    """The results and the operands of conditions, without those below another of them."""
    operands: set[str] = set()

    def in_schema(condition: re.Match[str]) -> str:
        # No constant and no name of its own decides there, and libyang takes long over the latter.
        operand = condition[1]
        if operand is None:
            return "*"
        operands.add(_local_name(operand))
        return "[*]" if operand[0] == "*" else f"[{operand}]"

    atoms: list[Any] = []
    ends: set[Any] = set()
    for path in {_CONDITION.sub(in_schema, each) for each in paths}:
        results = _schema_nodes(lib.lys_find_xpath, context, path)
        if results:
            ends.update(results)
            atoms += _schema_nodes(lib.lys_find_xpath_atoms, context, path)
    passed = {ancestor for node in atoms for ancestor in _ancestors(node)}
    ends.update(
        node
        for node in atoms
        if node not in passed or bytes(ffi.string(node.name)).decode() in operands
    )
    return [node for node in ends if ends.isdisjoint(_ancestors(node))]


def _local_name(operand: str) -> str:
    """The name at the end of an operand: of a path, or in `*[local-name()='…']`."""
    return operand[:-1].split("=")[1][1:-1] if operand[0] == "*" else re.split("[/:]", operand)[-1]


def _cut(node: Any, depth: int) -> None:
    """Free what is more than `depth` levels deep, and is not the key of a list."""
    for child in [*_children(node)]:
        if depth > 1:
            _cut(child, depth - 1)
        elif not _is_key(child):
            lib.lyd_free_tree(child)


def _is_key(node: Any) -> bool:
    """Whether it is a key of its list, which libyang frees with the list alone."""
    schema = node.schema
    return bool(schema and schema.nodetype == lib.LYS_LEAF and schema.flags & lib.LYS_KEY)


def _children(node: Any) -> Iterator[Any]:
    if node.schema and node.schema.nodetype & _INNER:
        yield from _siblings(ffi.cast("struct lyd_node_inner *", node).child)


def _siblings(node: Any) -> Iterator[Any]:
    while node:
        yield node
        node = node.next


def _in_operation(node: Any) -> bool:
    return any(each.nodetype & _OPERATIONS for each in (node, *_ancestors(node)))


def _ancestors(node: Any) -> Iterator[Any]:
    while node := node.parent:
        yield node


def _module(node: Any) -> Any:
    """The module in whose data the node is: that of its topmost ancestor."""
    return [node, *_ancestors(node)][-1].module


def _top_nodes(module: Any) -> Iterator[Any]:
    node = ffi.NULL
    while node := lib.lys_getnext(node, ffi.NULL, module.compiled, 0):
        if not node.nodetype & _OPERATIONS:
            yield node


def _path(node: Any) -> str:
    path = lib.lysc_path(node, lib.LYSC_PATH_DATA, ffi.NULL, 0)
    try:
        return bytes(ffi.string(path)).decode()
    finally:
        lib.free(path)
