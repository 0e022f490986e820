"""The operations of RFC 8526: <get-data> and <edit-data>."""

from __future__ import annotations

from lxml import etree

from agent.netconfd.capabilities import DATASTORES, DEFAULT_OPERATIONS, EDITABLE
from agent.netconfd.errors import (
    NMDA,
    RpcError,
    bad_element,
    missing_element,
)
from agent.netconfd.session.get import Selection, default_mode
from agent.netconfd.session.operations.request import (
    Operations,
    Parameters,
    Request,
    datastore_identity,
    filter_of,
    positive,
    qualified,
)
from agent.netconfd.session.origins import OriginFilter
from agent.sysrepo.data import DEFAULTS_MODES

OPERATIONAL = "operational"
MAX_UINT16 = 65_535


async def _get_data(request: Request) -> list[etree._Element]:
    parameters = request.parameters
    datastore = datastore_identity(parameters.required("datastore"), (*DATASTORES, OPERATIONAL))
    is_operational = datastore == OPERATIONAL
    selection = Selection(
        filter_=_filter(parameters),
        with_defaults=parameters.choice("with-defaults", DEFAULTS_MODES, default_mode(datastore)),
        max_depth=_max_depth(parameters),
        config=_config_filter(parameters),
        origins=_origins(parameters) if is_operational else None,
        with_origin=parameters.flag("with-origin"),
    )
    if selection.with_origin and not is_operational:
        raise bad_element("with-origin", datastore, "the datastore to be operational")
    parameters.end()
    return [await request.datastores.get_data(datastore, selection)]


async def _edit_data(request: Request) -> list[etree._Element]:
    parameters = request.parameters
    datastore = datastore_identity(parameters.required("datastore"), EDITABLE)
    default_operation = parameters.choice("default-operation", DEFAULT_OPERATIONS, "merge")
    config = parameters.element("config")
    parameters.end()
    if config is None:
        raise missing_element("config", of="edit-data")
    await request.datastores.edit(
        "edit-data",
        datastore,
        config,
        default_operation=default_operation,
        test_option="test-then-set",
    )
    return []


def _filter(parameters: Parameters) -> etree._Element | None:
    """The filter as the <filter> that RFC 6241 has."""
    return filter_of(
        parameters.operation,
        parameters.element("subtree-filter"),
        parameters.element("xpath-filter"),
    )


def _max_depth(parameters: Parameters) -> int:
    text = parameters.text("max-depth") or "unbounded"
    if text == "unbounded":
        return 0
    depth = positive(text, MAX_UINT16)
    if depth is None:
        raise bad_element("max-depth", text, f"unbounded or a number from 1 to {MAX_UINT16}")
    return depth


def _config_filter(parameters: Parameters) -> bool | None:
    text = parameters.text("config-filter")
    if text is None:
        return None
    if text not in {"true", "false"}:
        raise bad_element("config-filter", text, "true or false")
    return text == "true"


def _origins(parameters: Parameters) -> OriginFilter | None:
    given = parameters.elements("origin-filter")
    negated = parameters.elements("negated-origin-filter")
    if given and negated:
        raise RpcError(
            "bad-element",
            "<get-data> takes origin-filter or negated-origin-filter, not both",
            "protocol",
            info={"bad-element": "negated-origin-filter"},
        )
    if not given and not negated:
        return None
    return OriginFilter(frozenset(map(qualified, given or negated)), negated=bool(negated))


OPERATIONS: Operations = {
    f"{{{NMDA}}}get-data": _get_data,
    f"{{{NMDA}}}edit-data": _edit_data,
}
