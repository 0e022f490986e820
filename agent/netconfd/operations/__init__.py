"""What a client may ask for, and the function that does it. One module for each standard."""

from __future__ import annotations

from lxml import etree

from agent.netconfd.errors import RpcError
from agent.netconfd.operations import base
from agent.netconfd.operations.request import Operations, Parameters, Request, Services
from agent.netconfd.session import Session

__all__ = ["CAPABILITIES", "Services", "perform"]

CAPABILITIES = base.CAPABILITIES

_OPERATIONS: Operations = {**base.OPERATIONS}


async def perform(
    operation: etree._Element, session: Session, services: Services
) -> list[etree._Element]:
    """Do what the operation element asks for. Raises RpcError or RpcErrors."""
    function = _OPERATIONS.get(str(operation.tag))
    if function is None:
        name = etree.QName(operation)
        raise RpcError(
            "operation-not-supported",
            f"there is no operation <{name.localname}> in namespace {name.namespace}",
            "protocol",
            info={"bad-element": name.localname},
        )
    return await function(Request(Parameters(operation), session, services))
