"""The operation of RFC 6022: <get-schema>."""

from __future__ import annotations

from lxml import etree

from agent.netconfd.session.operations.request import Operations, Request

MONITORING = "urn:ietf:params:xml:ns:yang:ietf-netconf-monitoring"


async def _get_schema(request: Request) -> list[etree._Element]:
    parameters = request.parameters
    # RFC 6022 section 3.1: a request without a format is one for YANG.
    format_ = parameters.get("format", "ietf-netconf-monitoring:yang")
    text = await request.broker.call(
        "get-schema",
        identifier=parameters["identifier"],
        version=parameters.get("version"),
        format=format_.rpartition(":")[2],
    )
    data = etree.Element(f"{{{MONITORING}}}data", nsmap={None: MONITORING})
    data.text = text.decode()
    return [data]


OPERATIONS: Operations = {f"{{{MONITORING}}}get-schema": _get_schema}
