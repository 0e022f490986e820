"""The parameters of an operation, checked by libyang against the operation's YANG.

What the session evaluates itself, filters and configurations, libyang does not see here: it would
parse them twice, and some attributes in them make libyang 3.13.6 free memory twice.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lxml import etree

from agent.netconfd.data_model import DataModel
from agent.netconfd.errors import BASE, RpcError, RpcErrors, attribute_error
from agent.netconfd.session import filters, namespaces
from agent.netconfd.subscription_errors import (
    DATASTORE_NOT_SUBSCRIBABLE,
    ENCODING_UNSUPPORTED,
    PUSH_MODULE,
    SUBSCRIBED_MODULE,
)
from agent.sysrepo import Context, LibyangError, SLeaf, SLeafList
from agent.sysrepo.data import operation_json

_FILTERS = ("subtree-filter", "xpath-filter")
_EVALUATED_HERE = frozenset(
    {
        *("config", "filter", *_FILTERS),
        *(f"{target}-{name}" for target in ("datastore", "stream") for name in _FILTERS),
    }
)
_WITH_ATTRIBUTES = etree.XPath("descendant-or-self::*[@*]")
_FILTER = f"{{{BASE}}}filter"
# The names in an RFC 6241 error-path have a module's name as prefix.
_RPC = "/ietf-netconf:rpc"
_MANDATORY_CHOICE = re.compile(r'Mandatory choice "(.*)" data')
# What RFC 8639 and RFC 8641 call an identity that the server does not have.
_UNSUPPORTED = {
    f"{SUBSCRIBED_MODULE}:encoding": ENCODING_UNSUPPORTED,
    f"{PUSH_MODULE}:datastore": DATASTORE_NOT_SUBSCRIBABLE,
}
# How libyang begins to say that there should be something else.
_OTHERS = ("Invalid enumeration value", "Node ")


def parse(operation: etree._Element, model: DataModel) -> Mapping[str, Any]:
    """What is in the operation element, as RFC 7951 writes it in JSON: only what the client gave.

    Of what the session evaluates itself it says only that it is there. Raises RpcError (RFC 7950
    section 8.3.1).
    """
    outline = _outline(operation)
    try:
        namespaces.check_operation(model.context, outline, model.modules)
    except RpcError as error:
        raise in_request(error) from None
    xml = etree.tostring(outline, encoding="unicode", with_tail=False)
    try:
        (parameters,) = operation_json(model.context, xml).values()
    except LibyangError as error:
        # What libyang says after its first error repeats it in other words.
        raise first_error(model.rpc_errors(error), model.context) from None
    return dict(parameters)


def _outline(operation: etree._Element) -> etree._Element:
    """A copy without the content of what the session evaluates itself. Raises RpcError.

    It is in a copy of the message, so that a value's prefix may be declared anywhere around it.
    """
    (outline,) = copy.deepcopy(operation.getroottree().getroot())
    for element in _evaluated_here(outline):
        name = etree.QName(element)
        if name.localname.endswith("xpath-filter"):
            # Any expression: one that is none is refused where it is evaluated.
            element.text = "/"
            continue
        allowed = filters.ATTRIBUTES if name.localname == "filter" else ()
        attributes = [(key, value) for key, value in element.items() if key not in allowed]
        element.clear(keep_tail=True)
        element.attrib.update(attributes)
        if element.tag == _FILTER:
            # ncclient writes that of <create-subscription> in the base namespace, too.
            element.tag = f"{{{etree.QName(outline).namespace}}}filter"
    refuse_attributes(outline)
    return outline


def refuse_attributes(operation: etree._Element) -> None:
    """Raise RpcError if the element or one in it has an attribute."""
    for element in _WITH_ATTRIBUTES(operation):
        name, attribute = etree.QName(element), etree.QName(element.keys()[0])
        raise attribute_error(
            "unknown-attribute",
            f"<{name.localname}> has no attribute {attribute.localname}",
            attribute=attribute.localname,
            element=name.localname,
        )


def _evaluated_here(operation: etree._Element) -> Iterator[etree._Element]:
    pending = [operation]
    while pending:
        for child in pending.pop():
            if etree.QName(child).localname in _EVALUATED_HERE:
                yield child
            elif len(child):
                pending.append(child)


def first_error(errors: RpcErrors, context: Context, *, within: str = "") -> RpcError:
    """The first of libyang's errors, with the element that it is about and what may be there.

    `within`: see `in_request`.
    """
    error = errors.errors[0]
    error.layer = "protocol"
    if error.path is None:
        return error
    path = re.sub(r"\[.*?\]", "", error.path)
    element = path.rpartition(":")[2]
    expected = []
    if choice := _MANDATORY_CHOICE.match(error.message):
        error.tag, error.app_tag = "missing-element", None
        expected = _members(context, path, f"/{choice[1]}/")
        error.info = {"bad-element": expected[0] if len(expected) == 1 else element}
    elif error.message.startswith("When condition"):
        error.tag = "unknown-element"
    elif error.message.startswith(_OTHERS):
        expected = _members(context, path)
    elif error.message.startswith("Invalid identityref"):
        error.app_tag = _UNSUPPORTED.get(path.rpartition("/")[2])
    error.message = f"<{element}>: {error.message}"
    if expected:
        error.message += f" Expected: {', '.join(expected)}."
    error.info = error.info or {"bad-element": element}
    return in_request(error, within)


def in_request(error: RpcError, within: str = "") -> RpcError:
    """The error, whose path begins at the operation: with one that begins at the request.

    `within` is what of its path is between.
    """
    error.path = f"{_RPC}{within}{error.path}"
    error.path_namespaces = {**error.path_namespaces, "ietf-netconf": BASE}
    return error


def _members(context: Context, path: str, within: str = "") -> list[str]:
    """The values of an enumeration, or the elements whose schema path has `within`."""
    node = next(context.find_path(path))
    if isinstance(node, SLeaf | SLeafList):
        return [each.name() for each in node.type().enums()]
    try:
        elements = list(context.find_path(f"{path}/*"))
    except LibyangError:
        # It is empty, as <discard-changes> is.
        return []
    return [each.name() for each in elements if within in each.schema_path()]
