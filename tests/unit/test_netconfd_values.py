"""Whatever a client may write by the schema crosses to the broker, or is refused before.

A value that the broker does not take for what was agreed would end the session
(`agent.netconfd.wire.ProtocolError`), with its locks and its unconfirmed commit.
"""

from __future__ import annotations

import asyncio
import json
import socket
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree

from agent.netconfd import date_and_time, wire
from agent.netconfd.broker.calls import Calls
from agent.netconfd.broker.subscription_state import _subscription
from agent.netconfd.broker.subscriptions import Subscriptions, Terms
from agent.netconfd.errors import RpcError
from agent.netconfd.session import subscriptions as session_subscriptions
from agent.netconfd.session.broker import Broker
from agent.netconfd.session.operations.request import Request
from agent.netconfd.session.terms import OnChange, Periodic
from agent.netconfd.session.terms import Terms as SessionTerms

# The pattern of date-and-time (RFC 6991) and its whole range of offsets.
BY_PATTERN = st.from_regex(
    r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,12})?(Z|[+\-]\d{2}:\d{2})", fullmatch=True
)
OFFSETS = st.timedeltas(timedelta(hours=-14), timedelta(hours=14)).map(
    lambda offset: timezone(timedelta(minutes=offset // timedelta(minutes=1)))
)
DATES = st.datetimes(timezones=OFFSETS).map(lambda moment: moment.isoformat())
TIMES = st.one_of(DATES, BY_PATTERN)
UINT32 = st.integers(0, 2**32 - 1)
EXTREMES = (
    "0001-01-01T00:00:00+14:00",
    "1969-12-31T23:59:59Z",
    "1970-01-01T00:00:00+02:00",
    "2262-04-12T00:00:00Z",
    "2554-07-22T00:00:00Z",
    "9999-12-31T23:59:59.999999-14:00",
)


def time_ns(text):
    """What a session process makes of a time that a client has written."""
    operation = etree.Element("operation")
    etree.SubElement(operation, "time").text = text
    request = Request(operation, {}, *[Mock()] * 5, min_push_period_cs=100)
    return request.time_ns("time")


def time_or_refusal(text):
    try:
        return time_ns(text)
    except RpcError as error:
        return error.tag, error.info


def crossed(head):
    """The fields of a head as the broker gets them."""
    encoded = wire.encode(wire.Message(head))
    return wire.Fields(json.loads(encoded[8:]))


def shown(terms):
    """The state of a subscription with these terms, as clients see it."""
    subscription = Mock(terms=terms, number=1, records=0, session="session 1 a@b")
    return json.loads(json.dumps(_subscription(subscription)))


def with_examples(test):
    for text in EXTREMES:
        test = example(text)(test)
    return given(TIMES)(test)


@with_examples
def test_a_time_is_refused_by_its_name_or_means_the_same_at_the_broker(text):
    sent_ns = time_or_refusal(text)
    if not isinstance(sent_ns, int):
        assert sent_ns == ("invalid-value", {"bad-element": "time"})
        return
    of_stream = Terms.of_stream(crossed({"start_ns": sent_ns, "stop_ns": sent_ns}))
    assert (of_stream.start_ns, of_stream.stop_ns) == (sent_ns, sent_ns)
    state = shown(of_stream)
    assert time_ns(state["stop-time"]) == time_ns(state["replay-start-time"]) == sent_ns


@given(DATES)
def test_every_date_of_the_calendar_is_a_time(text):
    nearest = max(
        datetime.min.replace(tzinfo=UTC),
        min(datetime.fromisoformat(text), datetime.max.replace(tzinfo=UTC)),
    )
    assert date_and_time.written(time_ns(text)) == (
        nearest.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    )


@given(st.one_of(st.none(), TIMES), st.one_of(st.none(), TIMES), UINT32, UINT32, st.booleans())
def test_the_terms_of_any_subscription_cross(stop, anchor, period_cs, dampening_cs, is_periodic):
    try:
        stop_ns, anchor_ns = (each and time_ns(each) for each in (stop, anchor))
    except RpcError:
        return
    trigger = (
        Periodic(period_cs, anchor_ns)
        if is_periodic
        else OnChange(dampening_cs, sync_on_start=True, excluded=frozenset({"create"}))
    )
    sent = SessionTerms("running", trigger, None, "", stop_ns)
    terms = Terms.of_datastore(crossed(session_subscriptions._record(sent)))
    assert terms.stop_ns == stop_ns
    if is_periodic:
        assert (terms.period_cs, terms.anchor_ns) == (period_cs, anchor_ns)
    else:
        assert (terms.period_cs, terms.dampening_cs) == (None, dampening_cs)
    shown(terms)


@pytest.mark.parametrize("name", ["kill-session", "delete-subscription", "kill-subscription"])
@given(number=UINT32)
def test_any_number_of_a_session_or_subscription_is_answered(name, number):
    services = Mock(subscriptions=Subscriptions(lambda: 16))
    services.sessions.get.return_value = None
    calls = Calls(SimpleNamespace(account="operator", number=1), services)
    fields = crossed({"session_id": number, "subscription": number})
    with pytest.raises(RpcError):
        asyncio.run(calls.perform(name, fields, b""))


@settings(max_examples=30)
@given(st.sampled_from('x"\xe9\U0001f600'), st.integers(0, wire.MAX_HEAD_OCTETS))
def test_a_name_of_any_length_arrives_or_is_too_big(character, count):
    name = character * count

    async def call():
        ours, theirs = socket.socketpair()
        broker = Broker()
        await broker.connect(ours)
        reader, writer = await asyncio.open_unix_connection(sock=theirs)
        try:
            asking = asyncio.create_task(broker.call("get-schema", identifier=name))
            arriving = asyncio.create_task(wire.read(reader, 0))
            await asyncio.wait((asking, arriving), return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.exception()
            writer.write(wire.encode(wire.Message({"reply": True})))
            await asking
            return wire.Fields(arriving.result().head).text("identifier")
        finally:
            arriving.cancel()
            writer.close()
            await broker.close()

    answer = asyncio.run(call())
    assert answer == name or {each.tag for each in answer.errors} == {"too-big"}


@pytest.mark.parametrize("time_ns", [date_and_time.EARLIEST_NS - 1, date_and_time.LATEST_NS + 1])
def test_a_time_outside_the_calendar_is_none_of_a_session_process(time_ns):
    with pytest.raises(wire.ProtocolError, match="stop_ns is not a time"):
        Terms.of_stream(crossed({"stop_ns": time_ns}))
