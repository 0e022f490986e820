"""Subscriptions (RFC 8639): the stream, what is refused, what they may take, and how they end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from lxml import etree
from ncclient.transport.errors import TransportError

from agent.netconfd.session.framing import END_OF_MESSAGE
from tests.stack.attacks import ENDLESS_XPATH
from tests.stack.front_end import REPLY_TIMEOUT_S
from tests.stack.netconf_client import BASE, INTERFACES, PREFIXES, ask, errors, texts
from tests.stack.netconfd_process import private_octets, wait_until
from tests.stack.test_netconfd_notifications import HELLO
from tests.stack.yang_push_client import (
    CONFIG_CHANGES,
    EVERY_HOUR,
    EVERY_SECOND,
    NO_SUCH,
    OF_INTERFACES,
    ON_CHANGE,
    PUSH,
    SHORT,
    SUBSCRIBED,
    about,
    commit,
    delete,
    edits,
    establish,
    establish_stream,
    interface,
    names,
    notification,
    refusal,
    resync,
    set_limits,
    state_of_subscriptions,
    subscribed,
    update,
)

NOTIFICATION = "urn:ietf:params:xml:ns:netconf:notification:1.0"
DOOR = Path(__file__).parent / "data" / "yang-events" / "door.yang"


@pytest.fixture
def client(shared_netconfd):
    with shared_netconfd.connect() as client:
        yield client


@pytest.fixture
def operator(shared_netconfd):
    with shared_netconfd.connect() as client:
        yield client


@pytest.fixture
def observer(shared_netconfd):
    with shared_netconfd.connect(username="observer") as client:
        yield client


# --- the stream ---


def test_a_stream_and_a_datastore_can_be_subscribed_to_in_one_session(client, operator):
    subscribed(client, ON_CHANGE)
    assert names(update(client)) == []
    reply = establish_stream(client, CONFIG_CHANGES)
    assert not errors(reply), etree.tostring(reply)
    commit(operator, interface("p1"))
    tags = sorted(etree.QName(notification(client)).localname for _ in range(2))
    assert tags == ["netconf-config-change", "push-change-update"]


def test_a_stream_is_replayed_from_the_start_time_and_ends_when_it_is_deleted(client, operator):
    start = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    commit(operator, interface("p1"))
    replay = f"<replay-start-time>{start}</replay-start-time>"
    (number,) = texts(establish_stream(client, CONFIG_CHANGES + replay), "/*/sn:id")
    assert etree.QName(notification(client)).localname == "netconf-config-change"
    completed = notification(client)
    assert completed.tag == f"{{{SUBSCRIBED}}}replay-completed"
    assert completed.findtext("{*}id") == number
    assert state_of_subscriptions(operator) == [(number, "NETCONF")]
    delete(client, number)
    commit(operator, interface("p2"))
    assert state_of_subscriptions(operator) == []
    assert client.take_notification(block=False) is None


def test_a_modified_stream_says_so_and_goes_on_with_the_new_filter_and_stop_time(client, operator):
    (number,) = texts(establish_stream(client, CONFIG_CHANGES), "/*/sn:id")
    of_candidate = CONFIG_CHANGES.replace("running", "candidate")
    assert not errors(about(client, "modify-subscription", number, of_candidate))
    modified = notification(client)
    assert modified.tag == f"{{{SUBSCRIBED}}}subscription-modified"
    assert modified.findtext("{*}stream") == "NETCONF"
    assert "candidate" in modified.findtext("{*}stream-xpath-filter")
    commit(operator, interface("p1"))
    soon = datetime.now(UTC) + timedelta(seconds=2)
    stop = f"<stop-time>{soon:%Y-%m-%dT%H:%M:%S.%fZ}</stop-time>"
    reply = about(client, "modify-subscription", number, of_candidate + stop)
    assert not errors(reply), etree.tostring(reply)
    again, ended = notification(client), notification(client)
    assert "candidate" in again.findtext("{*}stream-xpath-filter")
    assert again.findtext("{*}stop-time")
    assert ended.tag == f"{{{SUBSCRIBED}}}subscription-terminated"
    assert state_of_subscriptions(operator) == []


def test_terms_of_a_stream_are_none_of_a_datastore(client):
    (stream,) = texts(establish_stream(client), "/*/sn:id")
    datastore = subscribed(client, EVERY_HOUR)
    running = "<yp:datastore>ds:running</yp:datastore>"
    assert refusal(about(client, "modify-subscription", stream, running))[0] == "invalid-value"
    reply = about(client, "modify-subscription", datastore, CONFIG_CHANGES)
    assert refusal(reply)[0] == "missing-element"


def test_the_two_ways_to_subscribe_are_not_mixed_in_one_session(client, operator):
    subscribed(client, EVERY_HOUR)
    create = f'<create-subscription xmlns="{NOTIFICATION}"/>'
    assert refusal(ask(client, create))[0] == "operation-not-supported"
    assert not errors(ask(operator, create))
    assert refusal(establish(operator, EVERY_HOUR))[0] == "operation-not-supported"


# Before 1970, after 2262 and 2554 (numbers of ns that fit no machine word), in no year of UTC's.
EARLY = ("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z")
LATE = ("2262-04-12T00:00:00Z", "2554-07-22T00:00:00Z", "9999-12-31T23:59:59-14:00")


def test_a_time_long_ago_is_a_start_and_one_far_away_no_end(client, operator):
    commit(operator, interface("p1"))
    for start, stop in zip(EARLY, LATE, strict=True):
        times = f"<replay-start-time>{start}</replay-start-time><stop-time>{stop}</stop-time>"
        (number,) = texts(establish_stream(client, CONFIG_CHANGES + times), "/*/sn:id")
        assert etree.QName(notification(client)).localname == "netconf-config-change"
        while etree.QName(notification(client)).localname != "replay-completed":
            pass
        assert state_of_subscriptions(operator) == [(number, "NETCONF")]
        more = CONFIG_CHANGES + f"<stop-time>{LATE[-1]}</stop-time>"
        assert not errors(about(client, "modify-subscription", number, more))
        assert etree.QName(notification(client)).localname == "subscription-modified"
        delete(client, number)


@pytest.mark.parametrize("anchor", EARLY + LATE)
def test_periods_are_counted_from_any_anchor_time(client, operator, anchor):
    trigger = (
        f"<yp:periodic><yp:period>100</yp:period><yp:anchor-time>{anchor}</yp:anchor-time>"
        "</yp:periodic>"
    )
    number = subscribed(client, trigger, more=f"<stop-time>{LATE[-1]}</stop-time>")
    update(client)
    assert state_of_subscriptions(operator) == [(number, "running")]


@pytest.mark.parametrize(("start", "stop"), [*zip(EARLY, LATE, strict=True), EARLY[1:]])
def test_a_replay_has_any_start_and_stop_time(client, start, stop):
    times = f"<startTime>{start}</startTime><stopTime>{stop}</stopTime>"
    reply = ask(
        client, f'<create-subscription xmlns="{NOTIFICATION}">{times}</create-subscription>'
    )
    assert not errors(reply), etree.tostring(reply)
    while etree.QName(notification(client)).localname != "replayComplete":
        pass


# --- what is refused ---


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((SHORT,), ("invalid-value", "ietf-yang-push:period-unsupported")),
        (
            (ON_CHANGE, OF_INTERFACES, "operational"),
            ("operation-not-supported", "ietf-yang-push:on-change-unsupported"),
        ),
        (
            (ON_CHANGE, OF_INTERFACES, "candidate"),
            ("operation-not-supported", "ietf-yang-push:on-change-unsupported"),
        ),
        (
            (EVERY_HOUR, OF_INTERFACES, "intended"),
            ("invalid-value", "ietf-yang-push:datastore-not-subscribable"),
        ),
        (
            (EVERY_HOUR, "<yp:datastore-xpath-filter>/if:no-such</yp:datastore-xpath-filter>"),
            ("invalid-value", "ietf-subscribed-notifications:filter-unsupported"),
        ),
        (
            (EVERY_HOUR, "<yp:datastore-xpath-filter>1 +</yp:datastore-xpath-filter>"),
            ("invalid-value", "ietf-subscribed-notifications:filter-unsupported"),
        ),
        (("",), ("missing-element", None)),
        ((EVERY_HOUR + ON_CHANGE,), ("bad-element", None)),
        ((EVERY_HOUR + "<weighting>1</weighting>",), ("unknown-element", None)),
        ((EVERY_HOUR + "<stop-time>0000-01-01T00:00:00Z</stop-time>",), ("invalid-value", None)),
        ((EVERY_HOUR + "<stop-time>2001-01-01T00:00:00Z</stop-time>",), ("invalid-value", None)),
        (
            (EVERY_HOUR + "<encoding>encode-json</encoding>",),
            ("invalid-value", "ietf-subscribed-notifications:encoding-unsupported"),
        ),
    ],
)
def test_what_cannot_be_served_is_refused_with_the_standards_reason(client, arguments, expected):
    assert refusal(establish(client, *arguments)) == expected
    assert state_of_subscriptions(client) == []


def test_the_refusal_of_a_short_period_names_the_shortest(client):
    (error,) = errors(establish(client, SHORT))
    (info,) = error.iter(f"{{{PUSH}}}establish-subscription-datastore-error-info")
    assert info.findtext("{*}period-hint") == "100"
    assert info.findtext("{*}reason") == "ietf-yang-push:period-unsupported"


def test_nobody_touches_the_subscription_of_another_session(client, operator):
    number = subscribed(client, ON_CHANGE)
    update(client)
    same = "<yp:datastore>ds:running</yp:datastore>"
    assert refusal(about(operator, "delete-subscription", number)) == NO_SUCH
    assert refusal(about(operator, "modify-subscription", number, same)) == NO_SUCH
    assert refusal(resync(operator, number)) == (
        "invalid-value",
        "ietf-yang-push:no-such-subscription-resync",
    )
    assert [each for each, _ in state_of_subscriptions(operator)] == [number]


def test_a_stream_that_there_is_not_is_refused(client):
    assert refusal(establish_stream(client, stream="OTHER")) == ("invalid-value", None)


# --- limits and ends ---


def test_a_session_has_no_more_subscriptions_than_configured(shared_netconfd, operator):
    set_limits(operator, "<max-subscriptions-per-session>3</max-subscriptions-per-session>")
    with shared_netconfd.connect() as client:
        numbers = [subscribed(client, EVERY_HOUR) for _ in range(2)]
        assert not errors(establish_stream(client))
        assert refusal(establish(client, EVERY_HOUR)) == (
            "resource-denied",
            "ietf-subscribed-notifications:insufficient-resources",
        )
        delete(client, numbers[0])
        subscribed(client, EVERY_HOUR)


def test_the_shortest_period_is_configured(shared_netconfd, operator):
    set_limits(operator, "<min-push-period>10</min-push-period>")
    with shared_netconfd.connect() as client:
        subscribed(client, SHORT)
        update(client)
        update(client)


def test_the_operational_state_has_the_subscriptions_until_they_end(shared_netconfd, operator):
    assert state_of_subscriptions(operator) == []
    with shared_netconfd.connect() as client:
        periodic = subscribed(client, EVERY_HOUR, datastore="operational")
        update(client)
        on_change = subscribed(client, ON_CHANGE)
        update(client)
        assert state_of_subscriptions(operator) == [
            (periodic, "operational"),
            (on_change, "running"),
        ]
        delete(client, periodic)
        assert state_of_subscriptions(operator) == [(on_change, "running")]
    assert wait_until(lambda: not state_of_subscriptions(operator))


def test_a_killed_session_leaves_no_subscription(shared_netconfd, operator):
    victim = shared_netconfd.connect()
    subscribed(victim, EVERY_SECOND)
    update(victim)
    operator.kill_session(victim.session_id)
    assert wait_until(lambda: not state_of_subscriptions(operator))


def test_sigterm_ends_a_server_with_subscriptions(netconfd):
    with suppress(TransportError), netconfd.connect() as client:
        subscribed(client, EVERY_SECOND)
        subscribed(client, ON_CHANGE)
        assert not errors(establish_stream(client))
        update(client)
        assert netconfd.stop() == 0


def test_a_broker_that_is_killed_takes_the_sessions_with_subscriptions_along(netconfd):
    client = netconfd.connect()
    subscribed(client, EVERY_SECOND)
    update(client)
    os.kill(netconfd.broker_pid, signal.SIGKILL)
    assert wait_until(lambda: not client.connected)
    netconfd.wait()


def test_subscriptions_outlive_a_change_of_the_modules(netconfd):
    with netconfd.connect() as client, netconfd.connect() as operator:
        on_change = subscribed(client, ON_CHANGE)
        assert names(update(client)) == []
        periodic = subscribed(client, EVERY_SECOND)
        update(client)
        subprocess.run(["sysrepoctl", "--install", DOOR], check=True, capture_output=True)
        commit(operator, interface("p1"))
        told = set()
        while told != {on_change, periodic}:
            element = notification(client)
            assert element.tag.startswith(f"{{{PUSH}}}"), etree.tostring(element)
            told |= {element.findtext("{*}id")} if names(element) == ["p1"] else set()


def test_a_client_that_does_not_read_costs_the_broker_no_memory_and_is_told_of_the_gap(netconfd):
    commits = 20
    with netconfd.connect() as operator:
        # No buffer on the way takes a whole update.
        text = f"<description>{'x' * 2000}</description>"
        ports = [interface(f"p{n}", text) for n in range(500)]
        commit(operator, *ports)
        set_limits(operator, "<min-push-period>10</min-push-period>")
        subscribed(operator, EVERY_HOUR)
        before = private_octets(netconfd.broker_pid)
        asyncio.run(_not_reading(netconfd, operator, commits))
        assert private_octets(netconfd.broker_pid) < before + 8 * 2**20


def test_each_further_subscription_on_change_takes_little_memory(netconfd):
    with netconfd.connect() as operator, netconfd.connect(username="observer") as greedy:
        # A megabyte and a half: 20 as a tree of libyang's.
        commit(operator, *(interface(f"p{n}", _description(f"{n} " * 60)) for n in range(3000)))
        (process,) = netconfd.session_pids[1:]

        def held(count):
            for _ in range(count):
                subscribed(greedy, ON_CHANGE, "")
                update(greedy)
            return private_octets(process)

        first = held(1)
        assert held(15) < first + 15 * 2 * 2**20
        commit(operator, interface("p1", _description("another")))
        assert [edits(update(greedy, "push-change-update")) for _ in range(16)] == [
            [("replace", "/ietf-interfaces:interfaces/interface=p1/description")]
        ] * 16


def test_subscriptions_to_everything_hold_up_no_commit(netconfd):
    with netconfd.connect() as operator, netconfd.connect(username="observer") as observer:
        set_limits(operator, "<min-push-period>10</min-push-period>")
        with netconfd.connect(username="observer") as greedy:
            for _ in range(8):
                subscribed(greedy, SHORT, "", "operational")
                subscribed(greedy, ON_CHANGE, "")
            for number in range(10):
                update(greedy)
                commit(operator, interface("p1", _description(number)))
            assert observer.get_config("running").ok


def test_a_filter_that_computes_for_ever_ends_its_session(netconfd):
    with netconfd.connect() as operator:
        set_limits(operator, "<max-request-cpu>1</max-request-cpu>")
        greedy = netconfd.connect(username="observer")
        filter_ = f"<yp:datastore-xpath-filter>{ENDLESS_XPATH}</yp:datastore-xpath-filter>"
        with pytest.raises(TransportError):
            establish(greedy, EVERY_HOUR, filter_, "operational")
        assert wait_until(lambda: "more than 1 s of CPU for a request" in netconfd.log)
        assert wait_until(lambda: not greedy.connected)
        assert operator.get_config("running").ok
        assert wait_until(lambda: not state_of_subscriptions(operator))


async def _not_reading(netconfd, operator, commits):
    """Subscribe without reading, while others commit; then read what there is."""
    connection, reader, writer = await netconfd.connect_raw(window_octets=65_536)
    try:
        writer.write(HELLO.rstrip() + END_OF_MESSAGE)
        for trigger in (SHORT, ON_CHANGE):
            writer.write(_raw_establish(trigger))
        await reader.readuntil(b"</id></rpc-reply>")
        reader.channel.pause_reading()
        for number in range(commits):
            await asyncio.to_thread(commit, operator, interface("p1", _description(number)))
        # Several periods, however fast the commits were.
        await asyncio.sleep(1)
        reader.channel.resume_reading()
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            await _read_through(
                reader,
                b"subscription-suspended",
                b"subscription-resumed",
                _description(commits - 1).encode(),
            )
    finally:
        connection.abort()


async def _read_through(reader, *texts):
    """Read until these have come, one after the other."""
    octets = b""
    for text in texts:
        while text not in octets:
            more = await reader.read(65_536)
            assert more, "the session has ended"
            octets += more
        octets = octets.partition(text)[2]


def _description(number):
    return f"<description>{number}</description>"


def _raw_establish(trigger):
    return (
        f'<rpc xmlns="{BASE}" message-id="1"><establish-subscription xmlns="{SUBSCRIBED}" '
        f'xmlns:yp="{PUSH}" xmlns:ds="{PREFIXES["ds"]}" xmlns:if="{INTERFACES}">'
        f"<yp:datastore>ds:running</yp:datastore>{OF_INTERFACES}{trigger}"
        "</establish-subscription></rpc>"
    ).encode() + END_OF_MESSAGE
