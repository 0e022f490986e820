"""Reading a datastore, and the formats in which data enter and leave libyang."""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import libyang
import sysrepo
from _sysrepo import ffi, lib
from libyang.data import ffi as ly_ffi
from libyang.data import lib as ly_lib
from sysrepo.errors import check_call
from sysrepo.session import SysrepoSession

from agent.sysrepo.library import LIBRARY, address

LIBRARY.ly_out_printed_total.argtypes = [ctypes.c_void_p]
LIBRARY.ly_out_printed_total.restype = ctypes.c_size_t

READ_TIMEOUT_MS = 5_000

NO_STATE = lib.SR_OPER_NO_STATE
NO_CONFIG = lib.SR_OPER_NO_CONFIG
# sysrepo_types.h, sr_get_oper_flag_t: the bindings lack it.
WITH_ORIGIN = 0x10

_SCHEMA_PATH = re.compile(r"(?:/[\w.-]+:[\w.-]+)*", re.ASCII)

_DEFAULTS_FLAGS = {
    "explicit": ly_lib.LYD_PRINT_WD_EXPLICIT,
    "report-all": ly_lib.LYD_PRINT_WD_ALL,
    "report-all-tagged": ly_lib.LYD_PRINT_WD_ALL_TAG,
    "trim": ly_lib.LYD_PRINT_WD_TRIM,
}
# How `print_xml` shows values that are equal to their default (RFC 6243, section 3).
DEFAULTS_MODES = tuple(_DEFAULTS_FLAGS)


@contextmanager
def get_data(
    session: SysrepoSession, xpath: str, *, max_depth: int = 0, options: int = 0
) -> Iterator[Any]:
    """The trees that `xpath` selects in the session's datastore, None if there are none.

    Calls `sr_get_data`. `max_depth` 0 is unbounded, 1 the nodes alone; `options` is made of
    `NO_STATE`, `NO_CONFIG` and `WITH_ORIGIN`. sysrepo owns the tree, and frees it with
    `sr_release_data` at the end of the context.
    """
    data = ffi.new("sr_data_t **")
    try:
        check_call(
            lib.sr_get_data,
            session.cdata,
            xpath.encode(),
            max_depth,
            READ_TIMEOUT_MS,
            options,
            data,
        )
    except sysrepo.SysrepoNotFoundError:
        yield None
        return
    if not data[0]:
        yield None
        return
    try:
        # sysrepo's data holds the context it belongs to.
        with session.get_ly_ctx() as context:
            tree = data[0].tree
            yield libyang.DNode.new(context, tree) if tree else None
    finally:
        lib.sr_release_data(data[0])


def get_json(session: Any, xpath: str, *, with_defaults: bool = False) -> dict[str, Any]:
    """What the session's datastore holds at `xpath`, as RFC 7951 JSON; {} where it holds nothing.

    `with_defaults` adds the leaves that have their default because nothing sets them.
    """
    try:
        with session.get_data_ly(xpath) as tree:
            text = tree.print_mem(
                "json", with_siblings=True, pretty=False, include_implicit_defaults=with_defaults
            )
    except sysrepo.SysrepoNotFoundError:
        return {}
    return dict(json.loads(text)) if text else {}


def print_xml(tree: Any, defaults_mode: str, *, empty_containers: bool = False) -> str:
    """The tree and its siblings as XML, in one of `DEFAULTS_MODES`; "" for None.

    Raises libyang.LibyangError.
    """
    if tree is None:
        return ""
    keep = ly_lib.LYD_PRINT_KEEPEMPTYCONT if empty_containers else 0
    return _printed(tree, ly_lib.LYD_PRINT_WITHSIBLINGS | _DEFAULTS_FLAGS[defaults_mode] | keep)


def print_xml_of(node: Any) -> str:
    """One node with what is below it, without values that are there by default.

    Raises libyang.LibyangError.
    """
    return _printed(node, ly_lib.LYD_PRINT_WD_EXPLICIT | ly_lib.LYD_PRINT_KEEPEMPTYCONT)


def _printed(tree: Any, flags: int) -> str:
    """Calls `lyd_print_mem`; its text is copied and freed here."""
    text = ly_ffi.new("char **")
    if ly_lib.lyd_print_mem(text, tree.cdata, ly_lib.LYD_XML, flags | ly_lib.LYD_PRINT_SHRINK):
        raise tree.context.error("cannot print the data")
    try:
        return bytes(ly_ffi.string(text[0])).decode() if text[0] else ""
    finally:
        ly_lib.free(text[0])


def print_lyb(tree: Any) -> bytes:
    """The tree and its siblings in libyang's binary format, for `parse_data`; b"" for None.

    The format leaves nothing out: it has values that are there by default, with their flag,
    metadata, and empty containers. Calls `lyd_print_all`; its memory is copied and freed here.
    Raises LibyangError.
    """
    if tree is None:
        return b""
    data, out = ly_ffi.new("char **"), ly_ffi.new("struct ly_out **")
    if ly_lib.ly_out_new_memory(data, 0, out):
        raise tree.context.error("no memory for the data")
    try:
        if ly_lib.lyd_print_all(out[0], tree.cdata, ly_lib.LYD_LYB, 0):
            raise tree.context.error("cannot print the data")
        return bytes(ly_ffi.buffer(data[0], LIBRARY.ly_out_printed_total(address(out[0]))))
    finally:
        ly_lib.ly_out_free(out[0], ly_ffi.NULL, False)
        ly_lib.free(data[0])


def parse_data(context: Any, octets: bytes) -> Any:
    """What `print_lyb` printed of a context with the same schemas, or a JSON object (RFC 7951).

    None for b"". LYB only of a process that is trusted: libyang believes the lengths in it. Calls
    `lyd_parse_data_mem` and adds nothing to what was printed; the caller frees the tree.
    Raises LibyangError.
    """
    if not octets:
        return None
    # LYB begins with its name.
    kind = ly_lib.LYD_JSON if octets.startswith(b"{") else ly_lib.LYD_LYB
    tree = ly_ffi.new("struct lyd_node **")
    flags = ly_lib.LYD_PARSE_ONLY | ly_lib.LYD_PARSE_STRICT
    if ly_lib.lyd_parse_data_mem(context.cdata, octets, kind, flags, 0, tree):
        raise context.error("cannot parse the data")
    return libyang.DNode.new(context, tree[0]) if tree[0] else None


def parse_notification(context: Any, xml: str) -> Any:
    """A notification's element as a tree (`lyd_parse_op`); the caller frees it.

    Raises libyang.LibyangError.
    """
    return context.parse_op_mem("xml", xml, libyang.util.DataType.NOTIF_YANG).root()


def print_json(tree: Any) -> str:
    """The tree and its siblings as JSON (RFC 7951), with metadata (RFC 7952); "{}" for None."""
    if tree is None:
        return "{}"
    return str(tree.print_mem("json", with_siblings=True, pretty=False))


def operation_json(context: Any, xml: str) -> dict[str, Any]:
    """An operation's element, valid input of its `rpc` statement, as RFC 7951 JSON.

    Without what is there by default only. Calls `lyd_parse_op` and `lyd_validate_op`; the tree is
    freed here. Raises libyang.LibyangError.
    """
    tree = context.parse_op_mem("xml", xml, libyang.util.DataType.RPC_YANG)
    try:
        tree.validate_op(libyang.util.DataType.RPC_YANG)
        return dict(json.loads(tree.print_mem("json", pretty=False)))
    finally:
        tree.free()


def module_names(context: Any) -> dict[str, str]:
    """Namespace to name of every implemented module: those that may hold data."""
    return {
        libyang.util.c2str(module.cdata.ns): module.name()
        for module in context
        if module.implemented()
    }


def enabled_features(context: Any, module: str) -> frozenset[str]:
    """The features of a module that are enabled. Raises LibyangError if there is none."""
    return frozenset(each.name() for each in context.get_module(module).features() if each.state())


def namespaces_with(context: Any, name: str, parent: str) -> list[str]:
    """The namespaces in which a data node at the schema path `parent` has a child `name`.

    `parent` is "" for the top; that of an operation leads to its input. [] where there is no such
    parent, or it is no path.
    """
    # A client's data may be in it, and whatever libyang evaluates must be no expression of theirs.
    if not _SCHEMA_PATH.fullmatch(parent):
        return []
    try:
        children = list(context.find_path(f"{parent}/*"))
    except libyang.LibyangError:
        return []
    return [
        libyang.util.c2str(child.cdata.module.ns)
        for child in children
        if child.name() == name and child.keyword() not in {"rpc", "action", "notification"}
    ]
