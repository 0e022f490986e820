"""The operations of RFC 8639 and RFC 8641: subscriptions to the stream and to datastores."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from lxml import etree

from agent.netconfd.capabilities import DATASTORES, STREAM, WATCHED
from agent.netconfd.errors import RpcError, RpcErrors, bad_element, missing_element
from agent.netconfd.session.notifications import Filter
from agent.netconfd.session.operations.request import (
    IETF_DATASTORES,
    MAX_UINT32,
    Operations,
    Parameters,
    Request,
    date_and_time_ns,
    filter_of,
    positive,
    qualified,
    text_of,
)
from agent.netconfd.session.terms import OnChange, Periodic, Terms
from agent.netconfd.subscription_errors import (
    DATASTORE_NOT_SUBSCRIBABLE,
    ENCODING_UNSUPPORTED,
    FILTER_UNSUPPORTED,
    ON_CHANGE_UNSUPPORTED,
    PERIOD_UNSUPPORTED,
    SUBSCRIBED,
    YANG_PUSH,
    datastore_error,
    subscription_error,
)
from agent.sysrepo.differences import OPERATIONS as CHANGES

ESTABLISH = "establish-subscription"
MODIFY = "modify-subscription"


async def _establish(request: Request) -> list[etree._Element]:
    parameters = request.parameters
    if request.session.subscription_filter is not None:
        # RFC 8640, section 3: one kind of subscription in a session.
        raise RpcError(
            "operation-not-supported", "this session has used create-subscription", "protocol"
        )
    _check_encoding(parameters)
    stream = parameters.text("stream")
    if stream is not None:
        return await _establish_stream(request, stream)
    datastore = _datastore(parameters, ESTABLISH)
    filter_, given = _filter(parameters)
    trigger = _periodic(parameters) or _on_change(parameters)
    stop_ns = _stop_ns(parameters)
    parameters.end()
    if trigger is None:
        raise missing_element("periodic", of=f"{ESTABLISH} without <on-change>")
    terms = Terms(datastore, trigger, filter_, given, stop_ns)
    _check(request, ESTABLISH, terms)
    return _reply(await request.subscriptions.establish(terms))


async def _establish_stream(request: Request, stream: str) -> list[etree._Element]:
    parameters = request.parameters
    subtree = parameters.element("stream-subtree-filter")
    xpath = parameters.element("stream-xpath-filter")
    filter_ = filter_of(ESTABLISH, subtree, xpath)
    start = parameters.text("replay-start-time")
    stop_ns = _stop_ns(parameters)
    parameters.end()
    if stream != STREAM:
        raise bad_element("stream", stream, f"the name of a stream: {STREAM}")
    start_ns = None if start is None else date_and_time_ns("replay-start-time", start)
    if start_ns is not None and start_ns >= time.time_ns():
        raise bad_element("replay-start-time", start or "", "a time in the past")
    try:
        selected = request.datastores.notification_filter(filter_)
    except (RpcError, RpcErrors) as error:
        message = f"the filter is not supported: {error}"
        raise subscription_error(FILTER_UNSUPPORTED, message) from None
    return _reply(await request.subscriptions.establish_stream(Filter(selected), start_ns, stop_ns))


def _reply(number: int) -> list[etree._Element]:
    element = etree.Element(f"{{{SUBSCRIBED}}}id", nsmap={None: SUBSCRIBED})
    element.text = str(number)
    return [element]


async def _modify(request: Request) -> list[etree._Element]:
    parameters = request.parameters
    number = _number(parameters)
    terms = request.subscriptions.terms_of(number)
    if _datastore(parameters, MODIFY) != terms.datastore:
        raise bad_element("datastore", "another one", f"{terms.datastore}, as established")
    filter_, given = _filter(parameters)
    periodic, on_change = _periodic(parameters), _on_change(parameters, is_modified=True)
    stop_ns = _stop_ns(parameters)
    parameters.end()
    if filter_ is not None:
        terms = replace(terms, filter_=filter_, given_filter=given)
    if stop_ns is not None:
        terms = replace(terms, stop_ns=stop_ns)
    if isinstance(terms.trigger, Periodic) and on_change is None:
        terms = replace(terms, trigger=periodic or terms.trigger)
    elif isinstance(terms.trigger, OnChange) and periodic is None:
        dampening_cs = terms.trigger.dampening_cs if on_change is None else on_change.dampening_cs
        terms = replace(terms, trigger=replace(terms.trigger, dampening_cs=dampening_cs))
    else:
        given_name = "on-change" if periodic is None else "periodic"
        raise bad_element(given_name, "given", "the kind of subscription that was established")
    _check(request, MODIFY, terms)
    await request.subscriptions.modify(number, terms)
    return []


async def _delete(request: Request) -> list[etree._Element]:
    number = _number(request.parameters)
    request.parameters.end()
    await request.subscriptions.delete(number)
    return []


async def _kill(request: Request) -> list[etree._Element]:
    number = _number(request.parameters)
    request.parameters.end()
    await request.broker.call("kill-subscription", subscription=number)
    return []


async def _resync(request: Request) -> list[etree._Element]:
    number = _number(request.parameters)
    request.parameters.end()
    await request.subscriptions.resync(number)
    return []


def _check(request: Request, operation: str, terms: Terms) -> None:
    """Refuse what cannot be served. Raises RpcError."""
    trigger, shortest_cs = terms.trigger, request.min_push_period_cs
    if isinstance(trigger, Periodic) and trigger.period_cs < shortest_cs:
        message = f"<period> is {trigger.period_cs} cs, expected {shortest_cs} at least"
        raise datastore_error(
            operation, PERIOD_UNSUPPORTED, message, {"period-hint": str(shortest_cs)}
        )
    if isinstance(trigger, OnChange) and terms.datastore not in WATCHED:
        raise subscription_error(
            ON_CHANGE_UNSUPPORTED,
            f"changes are seen in {' and '.join(WATCHED)}; subscribe to {terms.datastore} with "
            "<periodic>",
        )
    try:
        if request.datastores.part(terms.filter_).needed == ():
            raise RpcError("invalid-value", "it can select nothing in these modules")
    except (RpcError, RpcErrors) as error:
        why = str(error)
        hints: Mapping[str, str] = {"filter-failure-hint": why}
        message = f"the filter is not supported: {why}"
        raise datastore_error(operation, FILTER_UNSUPPORTED, message, hints) from None


def _number(parameters: Parameters) -> int:
    number = parameters.number("id")
    if number is None:
        raise missing_element("id", of=parameters.operation)
    return number


def _check_encoding(parameters: Parameters) -> None:
    encoding = parameters.element("encoding")
    if encoding is not None and qualified(encoding) != (SUBSCRIBED, "encode-xml"):
        raise subscription_error(
            ENCODING_UNSUPPORTED, f"<encoding> is {text_of(encoding)!r}, expected encode-xml"
        )


def _datastore(parameters: Parameters, operation: str) -> str:
    element = parameters.element("datastore", YANG_PUSH)
    if element is None:
        raise missing_element("datastore", of=operation)
    namespace, name = qualified(element)
    among = (*DATASTORES, "operational")
    if namespace != IETF_DATASTORES or name not in among:
        raise subscription_error(
            DATASTORE_NOT_SUBSCRIBABLE,
            f"<datastore> is {text_of(element)!r}, expected {' or '.join(among)} of namespace "
            f"{IETF_DATASTORES}",
        )
    return name


def _filter(parameters: Parameters) -> tuple[etree._Element | None, str]:
    """The filter, and the element as the client wrote it."""
    subtree = parameters.element("datastore-subtree-filter", YANG_PUSH)
    xpath = parameters.element("datastore-xpath-filter", YANG_PUSH)
    given = xpath if subtree is None else subtree
    text = "" if given is None else etree.tostring(given, encoding="unicode", with_tail=False)
    return filter_of(parameters.operation, subtree, xpath), text


def _periodic(parameters: Parameters) -> Periodic | None:
    element = parameters.element("periodic", YANG_PUSH)
    if element is None:
        return None
    of_trigger = Parameters(element)
    period_cs = of_trigger.number("period")
    anchor = of_trigger.text("anchor-time")
    of_trigger.end()
    if period_cs is None:
        raise missing_element("period", of="periodic")
    return Periodic(period_cs, None if anchor is None else date_and_time_ns("anchor-time", anchor))


def _on_change(parameters: Parameters, *, is_modified: bool = False) -> OnChange | None:
    element = parameters.element("on-change", YANG_PUSH)
    if element is None:
        return None
    of_trigger = Parameters(element)
    text = of_trigger.text("dampening-period") or "0"
    dampening_cs = 0 if text == "0" else positive(text, MAX_UINT32)
    if dampening_cs is None:
        raise bad_element("dampening-period", text, f"a number from 0 to {MAX_UINT32}")
    if is_modified:
        of_trigger.end()
        return OnChange(dampening_cs)
    sync = of_trigger.choice("sync-on-start", ("true", "false"), "true")
    excluded = [text_of(each) for each in of_trigger.elements("excluded-change")]
    of_trigger.end()
    for each in excluded:
        if each not in CHANGES:
            raise bad_element("excluded-change", each, " or ".join(CHANGES))
    return OnChange(dampening_cs, sync == "true", frozenset(excluded))


def _stop_ns(parameters: Parameters) -> int | None:
    text = parameters.text("stop-time")
    if text is None:
        return None
    stop_ns = date_and_time_ns("stop-time", text)
    if stop_ns <= time.time_ns():
        raise bad_element("stop-time", text, "a time in the future")
    return stop_ns


OPERATIONS: Operations = {
    f"{{{SUBSCRIBED}}}{ESTABLISH}": _establish,
    f"{{{SUBSCRIBED}}}{MODIFY}": _modify,
    f"{{{SUBSCRIBED}}}delete-subscription": _delete,
    f"{{{SUBSCRIBED}}}kill-subscription": _kill,
    f"{{{YANG_PUSH}}}resync-subscription": _resync,
}
