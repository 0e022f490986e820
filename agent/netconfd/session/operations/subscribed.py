"""The operations of RFC 8639 and RFC 8641: subscriptions to the stream and to datastores."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lxml import etree

from agent.netconfd.capabilities import DATASTORES, STREAM, WATCHED
from agent.netconfd.errors import RpcError, RpcErrors, bad_element, missing_element
from agent.netconfd.session.notifications import Filter
from agent.netconfd.session.operations.request import Operations, Request
from agent.netconfd.session.terms import OnChange, Periodic, StreamTerms, Terms
from agent.netconfd.subscription_errors import (
    DATASTORE_NOT_SUBSCRIBABLE,
    FILTER_UNSUPPORTED,
    ON_CHANGE_UNSUPPORTED,
    PERIOD_UNSUPPORTED,
    PUSH_MODULE,
    SUBSCRIBED,
    YANG_PUSH,
    datastore_error,
    subscription_error,
)

ESTABLISH = "establish-subscription"
MODIFY = "modify-subscription"
_DATASTORE = f"{PUSH_MODULE}:datastore"


async def _establish(request: Request) -> list[etree._Element]:
    parameters = request.parameters
    if request.session.subscription_filter is not None:
        # RFC 8640, section 3: one kind of subscription in a session.
        raise RpcError(
            "operation-not-supported", "this session has used create-subscription", "protocol"
        )
    if "stream" in parameters:
        return await _establish_stream(request, parameters["stream"])
    filter_, given = _filter(request, "datastore")
    trigger = _periodic(request) or _on_change(parameters)
    if trigger is None:
        raise missing_element("periodic", of=f"{ESTABLISH} without <on-change>")
    terms = Terms(_datastore(parameters), trigger, filter_, given, _stop_ns(request))
    _check(request, ESTABLISH, terms)
    return _reply(await request.subscriptions.establish(terms))


async def _establish_stream(request: Request, stream: str) -> list[etree._Element]:
    start_ns = request.time_ns("replay-start-time")
    stop_ns = _stop_ns(request)
    if stream != STREAM:
        raise bad_element("stream", stream, f"the name of a stream: {STREAM}")
    if start_ns is not None and start_ns >= time.time_ns():
        given = request.parameters["replay-start-time"]
        raise bad_element("replay-start-time", given, "a time in the past")
    filter_, given_filter = _stream_filter(request)
    terms = StreamTerms(filter_, given_filter, stop_ns)
    return _reply(await request.subscriptions.establish_stream(terms, start_ns))


def _stream_filter(request: Request) -> tuple[Filter, str]:
    """The filter, and the element as the client wrote it. Raises RpcError."""
    filter_, given = _filter(request, "stream")
    try:
        return Filter(request.datastores.notification_filter(filter_)), given
    except (RpcError, RpcErrors) as error:
        message = f"the filter is not supported: {error}"
        raise subscription_error(FILTER_UNSUPPORTED, message) from None


def _reply(number: int) -> list[etree._Element]:
    element = etree.Element(f"{{{SUBSCRIBED}}}id", nsmap={None: SUBSCRIBED})
    element.text = str(number)
    return [element]


async def _modify(request: Request) -> list[etree._Element]:
    parameters = request.parameters
    number = parameters["id"]
    terms = request.subscriptions.terms_of(number)
    if isinstance(terms, StreamTerms):
        await _modify_stream(request, number, terms)
        return []
    if _datastore(parameters) != terms.datastore:
        raise bad_element("datastore", "another one", f"{terms.datastore}, as established")
    filter_, given = _filter(request, "datastore")
    periodic, on_change = _periodic(request), _on_change(parameters)
    stop_ns = _stop_ns(request)
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


async def _modify_stream(request: Request, number: int, terms: StreamTerms) -> None:
    if _DATASTORE in request.parameters:
        raise bad_element("datastore", "given", f"<id> {number} is a subscription to {STREAM}")
    filter_, given = _stream_filter(request)
    stop_ns = _stop_ns(request)
    stop_ns = terms.stop_ns if stop_ns is None else stop_ns
    await request.subscriptions.modify_stream(number, StreamTerms(filter_, given, stop_ns))


async def _delete(request: Request) -> list[etree._Element]:
    await request.subscriptions.delete(request.parameters["id"])
    return []


async def _kill(request: Request) -> list[etree._Element]:
    await request.broker.call("kill-subscription", subscription=request.parameters["id"])
    return []


async def _resync(request: Request) -> list[etree._Element]:
    await request.subscriptions.resync(request.parameters["id"])
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


def _datastore(parameters: Mapping[str, Any]) -> str:
    if _DATASTORE not in parameters:
        raise missing_element("datastore", of=f"{MODIFY} of a subscription to a datastore")
    identity: str = parameters[_DATASTORE]
    module, _, name = identity.partition(":")
    among = (*DATASTORES, "operational")
    if module != "ietf-datastores" or name not in among:
        raise subscription_error(
            DATASTORE_NOT_SUBSCRIBABLE,
            f"<datastore> is {name}, expected {' or '.join(among)} of ietf-datastores",
        )
    return name


def _filter(request: Request, target: str) -> tuple[etree._Element | None, str]:
    """The filter, and the element as the client wrote it; the target is `stream` or `datastore`."""
    names = (f"{target}-subtree-filter", f"{target}-xpath-filter")
    given = next((each for name in names if (each := request.element(name)) is not None), None)
    text = "" if given is None else etree.tostring(given, encoding="unicode", with_tail=False)
    return request.filter(*names), text


def _periodic(request: Request) -> Periodic | None:
    container = request.parameters.get(f"{PUSH_MODULE}:periodic")
    if container is None:
        return None
    return Periodic(container["period"], request.time_ns("periodic", "anchor-time"))


def _on_change(parameters: Mapping[str, Any]) -> OnChange | None:
    container = parameters.get(f"{PUSH_MODULE}:on-change")
    if container is None:
        return None
    return OnChange(
        container.get("dampening-period", 0),
        container.get("sync-on-start", True),
        frozenset(container.get("excluded-change", ())),
    )


def _stop_ns(request: Request) -> int | None:
    stop_ns = request.time_ns("stop-time")
    if stop_ns is not None and stop_ns <= time.time_ns():
        raise bad_element("stop-time", request.parameters["stop-time"], "a time in the future")
    return stop_ns


OPERATIONS: Operations = {
    f"{{{SUBSCRIBED}}}{ESTABLISH}": _establish,
    f"{{{SUBSCRIBED}}}{MODIFY}": _modify,
    f"{{{SUBSCRIBED}}}delete-subscription": _delete,
    f"{{{SUBSCRIBED}}}kill-subscription": _kill,
    f"{{{YANG_PUSH}}}resync-subscription": _resync,
}
