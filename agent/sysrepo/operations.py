"""RPCs and actions of modules (RFC 7950, sections 7.14 and 7.15)."""

from __future__ import annotations

from typing import Any, NamedTuple

import libyang
from _sysrepo import ffi, lib
from sysrepo.errors import check_call
from sysrepo.session import SysrepoSession

from agent.sysrepo.data import print_xml_of


class Operation(NamedTuple):
    """An RPC or action in its tree, which the caller frees (`top.free()`).

    `kind` is `rpc` or `action`; of an action, `top` is the outermost node that it is in.
    """

    top: Any
    node: Any
    kind: str

    @property
    def name(self) -> str:
        """Module and name, as access control has them."""
        return f"{self.node.module().name()}:{self.node.name()}"


def rpc_tags(context: Any) -> frozenset[str]:
    """Of each RPC of the implemented modules `{namespace}name`, as its element has it."""
    return frozenset(
        f"{{{libyang.util.c2str(module.cdata.ns)}}}{rpc.name()}"
        for module in context
        if module.implemented()
        for rpc in module.children(types=(libyang.SNode.RPC,))
    )


def parse_operation(context: Any, xml: str) -> Operation:
    """The element of an RPC, or the outermost one that an action is in, with its input.

    Calls `lyd_parse_op`: types and structure are checked. What needs data, and what is mandatory,
    sysrepo checks when it sends it. Raises libyang.LibyangError.
    """
    node = context.parse_op_mem("xml", xml, libyang.util.DataType.RPC_YANG)
    return Operation(node.root(), node, node.schema().keyword())


def send(session: SysrepoSession, operation: Operation, timeout_ms: int) -> str:
    """Have the subscriber perform it; the elements of its output as XML, "" for none.

    Calls `sr_rpc_send_tree`, which validates input and output, and frees its result here. That of
    the bindings takes an output that is empty for a failure.
    """
    data = ffi.new("sr_data_t **")
    tree = ffi.cast("struct lyd_node *", operation.top.cdata)
    check_call(lib.sr_rpc_send_tree, session.cdata, tree, timeout_ms, data)
    if not data[0]:
        return ""
    try:
        with session.get_ly_ctx() as context:
            output = libyang.DNode.new(context, data[0].tree)
            performed = next(
                node for node in output.iter_tree() if node.schema().keyword() == operation.kind
            )
            return "".join(map(print_xml_of, performed.children()))
    finally:
        lib.sr_release_data(data[0])
