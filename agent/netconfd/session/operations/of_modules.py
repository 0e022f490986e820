"""RPCs and actions of any module (RFC 7950, sections 7.14 and 7.15): the backend performs them."""

from __future__ import annotations

from lxml import etree

from agent.netconfd.data_model import DataModel
from agent.netconfd.errors import RpcError
from agent.netconfd.session import namespaces
from agent.netconfd.session.operations import parameters
from agent.netconfd.session.operations.request import Request
from agent.sysrepo import LibyangError
from agent.sysrepo.data import print_json, print_xml_of
from agent.sysrepo.operations import parse_operation

YANG = "urn:ietf:params:xml:ns:yang:1"
ACTION = f"{{{YANG}}}action"
_IN_ACTION = "/yang:action"
# libyang's words.
_NO_OPERATION = "Missing the operation node"


async def execute(request: Request) -> list[etree._Element]:
    """The output, nothing for an operation that has none."""
    checked = _checked(request.operation, request.model, as_json=request.broker.takes_json)
    return await request.datastores.execute(checked)


def _checked(operation: etree._Element, model: DataModel, *, as_json: bool) -> str:
    """An RPC, or the outermost node that an action is in, as libyang prints it. Raises RpcError.

    Types and structure are checked. What needs data, and what is mandatory, the backend checks.
    """
    kind = "action" if operation.tag == ACTION else "rpc"
    parameters.refuse_attributes(operation)
    try:
        namespaces.check_operation(model.context, operation, model.modules)
    except RpcError as error:
        raise parameters.in_request(error) from None
    element = operation if kind == "rpc" else _only_child(operation)
    xml = etree.tostring(element, encoding="unicode", with_tail=False)
    try:
        parsed = parse_operation(model.context, xml)
    except LibyangError as error:
        if kind == "action" and _NO_OPERATION in str(error):
            raise _not_an_action("no action is in it") from None
        errors, within = model.rpc_errors(error), _IN_ACTION if kind == "action" else ""
        first = parameters.first_error(errors, model.context, within=within)
        if within:
            first.path_namespaces = {**first.path_namespaces, "yang": YANG}
        raise first from None
    try:
        if parsed.kind != kind:
            raise _not_an_action(f"{parsed.name} is an RPC")
        return print_json(parsed.top) if as_json else print_xml_of(parsed.top)
    finally:
        parsed.top.free()


def _only_child(action: etree._Element) -> etree._Element:
    if len(action) != 1:
        raise _not_an_action(f"it has {len(action)} elements")
    return action[0]


def _not_an_action(why: str) -> RpcError:
    return RpcError(
        "bad-element",
        f"<action> holds one element, the outermost one that an action is in, but {why}",
        "protocol",
        info={"bad-element": "action"},
    )
