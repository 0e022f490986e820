"""The operation of RFC 5277: <create-subscription>."""

from __future__ import annotations

import time

from lxml import etree

from agent.netconfd.capabilities import STREAM
from agent.netconfd.errors import RpcError, bad_element, missing_element
from agent.netconfd.session.notifications import NOTIFICATION, Filter
from agent.netconfd.session.operations.request import Operations, Request


async def _create_subscription(request: Request) -> list[etree._Element]:
    stream = request.parameters.get("stream", STREAM)
    start_ns = request.time_ns("startTime")
    stop_ns = request.time_ns("stopTime")
    session = request.session
    if len(request.subscriptions):
        # RFC 8640, section 3: one kind of subscription in a session.
        raise RpcError(
            "operation-not-supported", "this session has used establish-subscription", "protocol"
        )
    if session.subscription_filter is not None:
        raise RpcError("in-use", "this session has a subscription already", "protocol")
    if stream != STREAM:
        raise bad_element("stream", stream, f"the name of a stream: {STREAM}")
    if start_ns is not None and start_ns > time.time_ns():
        raise _bad_time("startTime", "is in the future")
    if stop_ns is not None and start_ns is None:
        raise missing_element("startTime", of="create-subscription with a stopTime")
    if stop_ns is not None and start_ns is not None and stop_ns < start_ns:
        raise _bad_time("stopTime", "is before startTime")
    xpath = request.datastores.notification_filter(request.element("filter"))
    await request.broker.call("create-subscription", start_ns=start_ns, stop_ns=stop_ns)
    session.subscription_filter = Filter(xpath)
    return []


def _bad_time(name: str, why: str) -> RpcError:
    # The tag that RFC 5277 section 2.1.1 names, and not invalid-value.
    return RpcError("bad-element", f"<{name}> {why}", "protocol", info={"bad-element": name})


OPERATIONS: Operations = {f"{{{NOTIFICATION}}}create-subscription": _create_subscription}
