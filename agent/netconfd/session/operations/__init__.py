"""What a client may ask for, and the function that does it. One module for each standard.

What the modules of the backend define beyond, it performs itself (`of_modules`).
"""

from __future__ import annotations

from lxml import etree

from agent.netconfd.data_model import DataModel, needed
from agent.netconfd.errors import RpcError
from agent.netconfd.session.operations import (
    base,
    monitoring,
    nmda,
    of_modules,
    subscribed,
    subscription,
)
from agent.netconfd.session.operations.request import Operation, Operations, Request

__all__ = ["OPERATIONS", "Request", "function_of"]

OPERATIONS: Operations = {
    **base.OPERATIONS,
    **subscription.OPERATIONS,
    **subscribed.OPERATIONS,
    **monitoring.OPERATIONS,
    **nmda.OPERATIONS,
}


def function_of(operation: etree._Element, model: DataModel) -> Operation:
    """What performs the operation element. Raises RpcError."""
    tag = str(operation.tag)
    function = None
    if tag in model.rpcs:
        function = OPERATIONS.get(tag, of_modules.execute)
    elif tag == of_modules.ACTION:
        function = of_modules.execute
    if function is None:
        name = etree.QName(operation)
        where = f"in namespace {name.namespace}" if name.namespace else "without a namespace"
        known = [
            tag.namespace or ""
            for tag in map(etree.QName, sorted(OPERATIONS.keys() & model.rpcs))
            if tag.localname == name.localname
        ]
        raise RpcError(
            "operation-not-supported",
            f"there is no operation <{name.localname}> {where}{needed(known)}",
            "protocol",
            info={"bad-element": name.localname},
        )
    return function
