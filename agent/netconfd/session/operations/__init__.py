"""What a client may ask for, and the function that does it. One module for each standard."""

from __future__ import annotations

from lxml import etree

from agent.netconfd.broker.events.subscription import NOTIFICATION
from agent.netconfd.broker.sessions import Session
from agent.netconfd.errors import BASE, NMDA, RpcError, RpcErrors
from agent.netconfd.session.operations import base, monitoring, nmda, subscription
from agent.netconfd.session.operations.monitoring import MONITORING
from agent.netconfd.session.operations.request import Operations, Parameters, Request, Services

__all__ = ["CAPABILITIES", "NAMES", "Services", "perform"]

CAPABILITIES = (*base.CAPABILITIES, *subscription.CAPABILITIES, *nmda.CAPABILITIES)

_OPERATIONS: Operations = {
    **base.OPERATIONS,
    **subscription.OPERATIONS,
    **monitoring.OPERATIONS,
    **nmda.OPERATIONS,
}


# The module that defines the operations of a namespace, by which access control knows them.
_MODULES = {
    BASE: "ietf-netconf",
    NMDA: "ietf-netconf-nmda",
    NOTIFICATION: "notifications",
    MONITORING: "ietf-netconf-monitoring",
}


def _name(operation: etree.QName) -> tuple[str, str]:
    return _MODULES[operation.namespace or ""], operation.localname


# Module and name of each operation, as access control knows them.
NAMES = tuple(_name(etree.QName(tag)) for tag in _OPERATIONS)


async def perform(
    operation: etree._Element, session: Session, services: Services
) -> list[etree._Element]:
    """Do what the operation element asks for. Raises RpcError or RpcErrors."""
    name = etree.QName(operation)
    function = _OPERATIONS.get(str(operation.tag))
    if function is None:
        raise RpcError(
            "operation-not-supported",
            f"there is no operation <{name.localname}> in namespace {name.namespace}",
            "protocol",
            info={"bad-element": name.localname},
        )
    services.access.check_operation(session.account, *_name(name))
    try:
        return await function(Request(Parameters(operation), session, services))
    except RpcErrors as errors:
        services.access.count_refusal(errors)
        raise
