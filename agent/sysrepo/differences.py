"""What has changed from one data tree to another, as the edits of a YANG patch (RFC 8072)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import quote

import libyang
from libyang.data import ffi, lib

from agent.sysrepo.data import print_xml_of

Operation = Literal["create", "delete", "insert", "move", "replace"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)

# A predicate of a list's key in libyang's metadata about order.
_KEY = re.compile(r"""\[[^=\]]+=(?:'([^']*)'|"([^"]*)")\]""")
# Of the operations in a diff, those of which what is below the node is a part.
_WHOLE = frozenset({"create", "delete"})


class Edit(NamedTuple):
    """One change. `target` and `point` are paths as in RFC 8040, section 3.5.3.

    `value` is the new node as XML, None where it is deleted or moved. `point` is the instance that
    an inserted or moved one comes after, None where it comes first or there is no order.
    """

    operation: Operation
    target: str
    value: str | None = None
    point: str | None = None


def differences(
    context: libyang.Context, before: libyang.DNode | None, after: libyang.DNode | None
) -> list[Edit]:
    """The edits that make one tree, with its siblings, the other (`lyd_diff_siblings`).

    Values that are there by default count as absent. Raises LibyangError.
    """
    found = ffi.new("struct lyd_node **")
    first, second = (each.cdata if each is not None else ffi.NULL for each in (before, after))
    if lib.lyd_diff_siblings(first, second, 0, found):
        raise context.error("cannot compare the data")
    if not found[0]:
        return []
    diff = libyang.DNode.new(context, found[0])
    try:
        return list(_edits(diff.siblings(), after))
    finally:
        lib.lyd_free_all(found[0])


def _edits(nodes: Any, after: libyang.DNode | None) -> Iterator[Edit]:
    for node in nodes:
        operation = node.get_meta("operation")
        if operation in _WHOLE or (operation == "replace" and not _is_inner(node)):
            yield _edit(operation, node, after)
            continue
        if operation == "replace":
            # An instance has another place, and may have changed below, too.
            yield _edit(operation, node, after)
        if _is_inner(node):
            yield from _edits(node.children(no_keys=True), after)


def _edit(operation: str, node: libyang.DNode, after: libyang.DNode | None) -> Edit:
    target = resource_path(node)
    if operation == "delete":
        return Edit("delete", target)
    point = _point(node, target)
    if operation == "replace" and _is_ordered(node):
        return Edit("move", target, point=point)
    new = None if after is None else after.find_path(node.path())
    if new is None:
        raise libyang.LibyangError(f"{node.path()} is in the difference only")
    value = print_xml_of(new)
    if _is_ordered(node):
        return Edit("insert", target, value, point)
    return Edit("create" if operation == "create" else "replace", target, value)


def _point(node: libyang.DNode, target: str) -> str | None:
    """The instance before this one, in the order that the edits so far have made."""
    if not _is_ordered(node):
        return None
    is_list = bool(node.cdata.schema.nodetype & lib.LYS_LIST)
    place = node.get_meta("key" if is_list else "value")
    if not place:
        return None
    values = ["".join(pair) for pair in _KEY.findall(place)] if is_list else [place]
    return f"{target.rpartition('=')[0]}={_joined(values)}"


def resource_path(node: libyang.DNode) -> str:
    """The data resource identifier of a node (RFC 8040, section 3.5.3)."""
    steps: list[str] = []
    cdata = node.cdata
    while cdata:
        parent = cdata.parent
        module = cdata.schema.module
        name = _text(cdata.schema.name)
        if not parent or parent.schema.module != module:
            name = f"{_text(module.name)}:{name}"
        steps.append(name + _instance(cdata))
        cdata = parent
    return "".join(f"/{step}" for step in reversed(steps))


def _instance(cdata: Any) -> str:
    """What tells an instance from others of its schema node."""
    if cdata.schema.nodetype & lib.LYS_LEAFLIST:
        return f"={_joined([_text(lib.lyd_get_value(cdata))])}"
    if not cdata.schema.nodetype & lib.LYS_LIST:
        return ""
    keys = []
    child = ffi.cast("struct lyd_node_inner *", cdata).child
    while child and child.schema.flags & lib.LYS_KEY:
        keys.append(_text(lib.lyd_get_value(child)))
        child = child.next
    return f"={_joined(keys)}" if keys else ""


def _joined(values: list[str]) -> str:
    return ",".join(quote(value, safe="") for value in values)


def _is_inner(node: libyang.DNode) -> bool:
    return isinstance(node, libyang.DContainer | libyang.DList)


def _is_ordered(node: libyang.DNode) -> bool:
    schema = node.cdata.schema
    return bool(
        schema.nodetype & (lib.LYS_LIST | lib.LYS_LEAFLIST) and schema.flags & lib.LYS_ORDBY_USER
    )


def _text(characters: Any) -> str:
    return bytes(ffi.string(characters)).decode()
