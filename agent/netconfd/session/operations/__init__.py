"""What a client may ask for, and the function that does it. One module for each standard."""

from __future__ import annotations

from lxml import etree

from agent.netconfd.errors import RpcError
from agent.netconfd.session.operations import base, monitoring, nmda, subscribed, subscription
from agent.netconfd.session.operations.request import Operation, Operations, Request

__all__ = ["OPERATIONS", "Request", "function_of"]

OPERATIONS: Operations = {
    **base.OPERATIONS,
    **subscription.OPERATIONS,
    **subscribed.OPERATIONS,
    **monitoring.OPERATIONS,
    **nmda.OPERATIONS,
}


def function_of(operation: etree._Element) -> Operation:
    """What performs the operation element. Raises RpcError."""
    function = OPERATIONS.get(str(operation.tag))
    if function is None:
        name = etree.QName(operation)
        raise RpcError(
            "operation-not-supported",
            f"there is no operation <{name.localname}> in namespace {name.namespace}",
            "protocol",
            info={"bad-element": name.localname},
        )
    return function
