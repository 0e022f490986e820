"""The operations of RFC 8526: <get-data> and <edit-data>."""

from __future__ import annotations

from lxml import etree

from agent.netconfd.errors import NMDA
from agent.netconfd.session.get import Selection, default_mode
from agent.netconfd.session.operations.request import Operations, Request, datastore_identity
from agent.netconfd.session.origins import OriginFilter

OPERATIONAL = "operational"


async def _get_data(request: Request) -> list[etree._Element]:
    parameters = request.parameters
    datastore = datastore_identity(
        parameters["datastore"], (*request.model.datastores, OPERATIONAL)
    )
    depth = parameters.get("max-depth", "unbounded")
    selection = Selection(
        filter_=request.filter("subtree-filter", "xpath-filter"),
        with_defaults=parameters.get("with-defaults", default_mode(datastore)),
        max_depth=0 if depth == "unbounded" else depth,
        config=parameters.get("config-filter"),
        origins=_origins(request),
        with_origin="with-origin" in parameters,
    )
    return [await request.datastores.get_data(datastore, selection)]


async def _edit_data(request: Request) -> list[etree._Element]:
    parameters = request.parameters
    await request.datastores.edit(
        "edit-data",
        datastore_identity(parameters["datastore"], request.model.editable),
        request.required("config"),
        default_operation=parameters.get("default-operation", "merge"),
        test_option="test-then-set",
    )
    return []


def _origins(request: Request) -> OriginFilter | None:
    for name in ("origin-filter", "negated-origin-filter"):
        if name in request.parameters:
            origins = frozenset(request.parameters[name])
            return OriginFilter(origins, negated=name.startswith("negated"))
    return None


OPERATIONS: Operations = {
    f"{{{NMDA}}}get-data": _get_data,
    f"{{{NMDA}}}edit-data": _edit_data,
}
