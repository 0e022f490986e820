"""The operation of RFC 6022: <get-schema>."""

from __future__ import annotations

from lxml import etree

from agent.netconfd.errors import bad_element, missing_element
from agent.netconfd.session.operations.request import Operations, Request, qualified, text_of

FORMATS = ("yang", "yin")
MONITORING = "urn:ietf:params:xml:ns:yang:ietf-netconf-monitoring"


async def _get_schema(request: Request) -> list[etree._Element]:
    parameters = request.parameters
    name = parameters.text("identifier")
    revision = parameters.text("version")
    format_ = parameters.element("format")
    parameters.end()
    if not name:
        raise missing_element("identifier", of="get-schema")
    text = await request.broker.call(
        "get-schema", identifier=name, version=revision, format=_format(format_)
    )
    data = etree.Element(f"{{{MONITORING}}}data", nsmap={None: MONITORING})
    data.text = text.decode()
    return [data]


def _format(element: etree._Element | None) -> str:
    """RFC 6022 section 3.1: a request without a format is one for YANG."""
    if element is None:
        return "yang"
    namespace, name = qualified(element)
    if namespace != MONITORING or name not in FORMATS:
        raise bad_element("format", text_of(element), f"{' or '.join(FORMATS)} of {MONITORING}")
    return name


OPERATIONS: Operations = {f"{{{MONITORING}}}get-schema": _get_schema}
