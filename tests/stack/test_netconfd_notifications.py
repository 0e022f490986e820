"""RFC 5277 on a real sysrepo: subscribe, filter, replay, and what a slow client costs."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sysrepo
from lxml import etree
from ncclient.operations import RPCError
from ncclient.xml_ import to_ele

from agent.netconfd.session import messages
from agent.netconfd.session.framing import END_OF_MESSAGE
from tests.stack.netconfd_process import WAIT_TIMEOUT_S, wait_until

NOTIFICATION = "urn:ietf:params:xml:ns:netconf:notification:1.0"
STREAMS = "urn:ietf:params:xml:ns:netmod:notification"
EVENTS = "urn:ietf:params:xml:ns:yang:ietf-netconf-notifications"
DOOR = Path(__file__).parent / "data" / "yang-events" / "door.yang"


@pytest.fixture(scope="module")
def sysrepo_template(sysrepo_template, sysrepo_place):
    """With a module of its own, that nobody but a notification needs."""
    with sysrepo_place.fresh(sysrepo_template) as repository:
        subprocess.run(["sysrepoctl", "--install", DOOR], check=True, capture_output=True)
        path = sysrepo_template.with_name("template-with-door")
        shutil.copytree(repository.path, path)
    return path


@pytest.fixture
def server(server, sysrepo_template):
    """Ours alone: it is doors that the tests hear of."""
    return server


@pytest.fixture
def client(server):
    with server.connect() as client:
        yield client


@pytest.fixture
def sender(server):
    """Somebody else on the same sysrepo, who tells of doors that open."""
    with sysrepo.SysrepoConnection() as connection, connection.start_session() as session:

        def send(name, count=1):
            for _ in range(count):
                session.notification_send("/door:opened", {"name": name})

        yield send


def names(client, count):
    """The next notifications, by their element's name."""
    return [etree.QName(event(client)).localname for _ in range(count)]


def event(client):
    """The element of the next notification."""
    notification = client.take_notification(timeout=WAIT_TIMEOUT_S)
    assert notification is not None, "no notification came"
    assert notification.notification_ele.tag == f"{{{NOTIFICATION}}}notification"
    time, element = notification.notification_ele
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", time.text)
    return element


def subscribe(client, **parameters):
    client.create_subscription(**parameters)


def now():
    return datetime.now(UTC)


def refused(client, inner):
    """The error's tag, and the element it names, if any."""
    create = f'<create-subscription xmlns="{NOTIFICATION}">{inner}</create-subscription>'
    with pytest.raises(RPCError) as refusal:
        client.dispatch(to_ele(create))
    named = re.search("<bad-element[^>]*>(.*?)</bad-element>", refusal.value.info or "")
    return refusal.value.tag, named and named.group(1)


def name_of(element):
    return element.findtext("{*}name")


def opened(client):
    """The door of the next notification about one; sessions come and go meanwhile."""
    while (name := name_of(event(client))) is None:
        pass
    return name


def test_the_server_says_that_it_can_notify_and_be_asked_meanwhile(client):
    for name in ("notification", "interleave"):
        assert f"urn:ietf:params:netconf:capability:{name}:1.0" in client.server_capabilities


def test_a_notification_of_any_module_reaches_every_subscriber_and_nobody_else(
    server, client, sender
):
    with server.connect() as other, server.connect() as silent:
        subscribe(client, stream_name="NETCONF")
        subscribe(other)
        sender("eth9")
        assert opened(client) == opened(other) == "eth9"
        assert silent.take_notification(block=False) is None


def test_a_subscriber_is_answered_between_its_notifications(client, sender):
    subscribe(client)
    flood = threading.Thread(target=sender, args=("eth9", 200))
    flood.start()
    for _ in range(20):
        assert client.get_config("running").ok
    flood.join()
    seen = [name_of(event(client)) for _ in range(200)]
    assert set(seen) == {"eth9"}


@pytest.mark.parametrize(
    "filter_",
    [
        ("xpath", ({"e": EVENTS}, "/e:netconf-session-end")),
        ("xpath", ({"e": EVENTS}, "/e:*[e:termination-reason='closed']")),
        ("subtree", f'<netconf-session-end xmlns="{EVENTS}"/>'),
        (
            "subtree",
            f'''<netconf-session-end xmlns="{EVENTS}">
            <termination-reason>closed</termination-reason></netconf-session-end>''',
        ),
    ],
    ids=["xpath", "xpath with value", "subtree", "subtree with value"],
)
def test_only_what_the_filter_selects_is_delivered(server, client, sender, filter_):
    subscribe(client, filter=filter_)
    sender("eth9")
    server.connect().close_session()
    assert names(client, 1) == ["netconf-session-end"]
    assert client.take_notification(block=False) is None


def test_a_filter_that_selects_nothing_delivers_nothing(server, client, sender):
    stop = (now() + timedelta(seconds=1)).isoformat()
    subscribe(
        client,
        filter=("subtree", '<nothing xmlns="urn:nobody"/>'),
        start_time=(now() - timedelta(hours=1)).isoformat(),
        stop_time=stop,
    )
    sender("eth9")
    assert names(client, 2) == ["replayComplete", "notificationComplete"]


def test_the_log_is_replayed_from_the_start_time_on_and_then_what_is_new(server, client, sender):
    start = now().isoformat()
    with server.connect() as watcher:
        subscribe(watcher)
        for name in ("before", "first"):
            sender(name)
            assert opened(watcher) == name
    subscribe(client, start_time=start)
    replayed = [event(client)]
    while etree.QName(replayed[-1]).localname != "replayComplete":
        replayed.append(event(client))
    assert [name_of(each) for each in replayed if name_of(each)] == ["before", "first"]
    assert replayed[-1].tag == f"{{{STREAMS}}}replayComplete"
    sender("second")
    assert opened(client) == "second"


def test_what_was_logged_before_the_start_time_is_not_replayed(server, client, sender):
    subscribe(client)
    sender("before")
    assert opened(client) == "before"
    start = now().isoformat()
    with server.connect() as later:
        later.create_subscription(start_time=start)
        assert set(names(later, 2)) == {"netconf-session-start", "replayComplete"}


def test_the_log_outlives_the_server(netconfd, sender):
    with netconfd.connect() as client:
        subscribe(client)
        sender("eth9")
        assert opened(client) == "eth9"
    netconfd.kill()
    netconfd.start()
    with netconfd.connect() as client:
        subscribe(client, start_time=(now() - timedelta(hours=1)).isoformat())
        while name_of(each := event(client)) != "eth9":
            assert etree.QName(each).localname != "replayComplete", "it is lost"


def test_a_subscription_ends_at_its_stop_time_and_the_session_may_make_another(
    server, client, sender
):
    start = now()
    subscribe(
        client, start_time=start.isoformat(), stop_time=(start + timedelta(seconds=1)).isoformat()
    )
    seen = names(client, 2)
    assert seen == ["replayComplete", "notificationComplete"]
    with server.connect() as other:
        subscribe(other)
        sender("too late")
        assert opened(other) == "too late"
    subscribe(client)
    sender("in time")
    assert opened(client) == "in time"


def test_a_window_of_the_past_has_a_beginning_and_an_end(server, client, sender):
    start = now().isoformat()
    subscribe(client)
    sender("inside")
    assert opened(client) == "inside"
    stop = now().isoformat()
    sender("outside")
    assert opened(client) == "outside"
    with server.connect() as other:
        other.create_subscription(start_time=start, stop_time=stop)
        seen = []
        while not seen or etree.QName(seen[-1]).localname != "notificationComplete":
            seen.append(event(other))
    assert [name_of(each) for each in seen if name_of(each)] == ["inside"]
    assert [etree.QName(each).localname for each in seen[-2:]] == [
        "replayComplete",
        "notificationComplete",
    ]


TOMORROW = (now() + timedelta(days=1)).isoformat()


@pytest.mark.parametrize(
    ("inner", "tag", "element"),
    [
        ("<stream>nowhere</stream>", "invalid-value", "stream"),
        (f"<startTime>{TOMORROW}</startTime>", "bad-element", "startTime"),
        (f"<stopTime>{TOMORROW}</stopTime>", "missing-element", "startTime"),
        (
            "<startTime>2024-01-02T00:00:00Z</startTime><stopTime>2024-01-01T00:00:00Z</stopTime>",
            "bad-element",
            "stopTime",
        ),
        ("<startTime>yesterday</startTime>", "invalid-value", "startTime"),
        ("<startTime>2024-01-02T00:00:00</startTime>", "invalid-value", "startTime"),
        ("<startTime>2024-02-30T00:00:00Z</startTime>", "invalid-value", "startTime"),
        ('<filter type="xpath"/>', "missing-attribute", "filter"),
        ('<filter type="xpath" select="/a["/>', "invalid-value", None),
        ("<colour>red</colour>", "unknown-element", "colour"),
    ],
    ids=[
        "stream",
        "start in the future",
        "stop without start",
        "stop before start",
        "no time",
        "no offset",
        "no day",
        "no xpath",
        "bad xpath",
        "unknown",
    ],
)
def test_a_subscription_that_cannot_be_is_refused_with_the_standards_error(
    client, sender, inner, tag, element
):
    assert refused(client, inner) == (tag, element)
    subscribe(client)
    sender("still possible")
    assert opened(client) == "still possible"


def forbid(session, module):
    """Let the operator do everything but see the module's notifications."""
    rule = {
        "name": "secret",
        "module-name": module,
        "notification-name": "*",
        "access-operations": "read",
        "action": "deny",
    }
    nacm = {
        "exec-default": "permit",
        "groups": {"group": [{"name": "all", "user-name": ["operator"]}]},
        "rule-list": [{"name": "all", "group": ["all"], "rule": [rule]}],
    }
    session.replace_config({"nacm": nacm}, "ietf-netconf-acm", strict=True)


def test_a_notification_that_the_user_may_not_see_is_left_out_and_counted(server, client, sender):
    before = denied_notifications()
    with sysrepo.SysrepoConnection() as connection, connection.start_session() as session:
        forbid(session, "door")
    subscribe(client)
    sender("secret")
    server.connect().close_session()
    assert names(client, 2) == ["netconf-session-start", "netconf-session-end"]
    assert denied_notifications() == before + 1


def denied_notifications():
    with sysrepo.SysrepoConnection() as connection, connection.start_session("operational") as all_:
        nacm = all_.get_data("/ietf-netconf-acm:nacm/denied-notifications")["nacm"]
    return nacm["denied-notifications"]


def test_a_session_has_one_subscription(client):
    subscribe(client)
    assert refused(client, "")[0] == "in-use"


def test_the_streams_are_listed_before_anybody_subscribes(client):
    streams = client.get(filter=("subtree", f'<netconf xmlns="{STREAMS}"><streams/></netconf>'))
    stream = streams.data.find(f".//{{{STREAMS}}}stream")
    assert stream.findtext(f"{{{STREAMS}}}name") == "NETCONF"
    assert stream.findtext(f"{{{STREAMS}}}replaySupport") == "true"
    created = datetime.fromisoformat(stream.findtext(f"{{{STREAMS}}}replayLogCreationTime"))
    assert now() - timedelta(hours=1) < created <= now()


def rpc(operation):
    base = "urn:ietf:params:xml:ns:netconf:base:1.0"
    return f'<rpc xmlns="{base}" message-id="1">{operation}</rpc>'.encode() + END_OF_MESSAGE


HELLO = messages.hello(["urn:ietf:params:netconf:base:1.0"], 1).replace(
    b"<session-id>1</session-id>", b""
)
SUBSCRIBE = rpc(f'<create-subscription xmlns="{NOTIFICATION}"/>')
CLOSE = rpc("<close-session/>")


def test_pipelined_requests_are_answered_in_order_after_a_subscription(server):
    async def talk():
        connection, reader, writer = await server.connect_raw()
        ask = rpc("<get-config><source><startup/></source></get-config>")
        writer.write(HELLO.rstrip() + END_OF_MESSAGE + SUBSCRIBE + ask * 5 + CLOSE)
        said = await reader.read()
        connection.close()
        return said.split(END_OF_MESSAGE)

    *_hello, last, end = asyncio.run(talk())
    assert end == b""
    assert b"<ok/>" in last
    replies = [each for each in _hello if b"<rpc-reply" in each]
    assert len(replies) == 6
    assert b"<ok/>" in replies[0]
    assert all(b"<data" in each for each in replies[1:])


def threads_and_descriptors(server):
    """Of all processes of the server, together."""
    processes = [Path("/proc") / str(pid) for pid in server.pids]
    return tuple(
        sum(len(list((process / what).iterdir())) for process in processes)
        for what in ("task", "fd")
    )


def test_two_hundred_subscriptions_leave_no_thread_and_no_descriptor_behind(server, client):
    async def subscribe_and_leave(politely):
        connection, reader, writer = await server.connect_raw()
        writer.write(HELLO.rstrip() + END_OF_MESSAGE + SUBSCRIBE)
        await reader.readuntil(b"<ok/>")
        if politely:
            writer.write(CLOSE)
            await reader.read()
        connection.close()
        await connection.wait_closed()

    async def rounds(count):
        for number in range(count):
            await subscribe_and_leave(number % 2)

    def idle():
        return server.log.count(" ends: ") == server.log.count(" opened") - 1

    asyncio.run(rounds(20))
    assert wait_until(idle)
    before = threads_and_descriptors(server)
    asyncio.run(rounds(200))
    assert wait_until(idle)
    # The event loop's own thread pool grows to its size, a few threads, in its own time.
    after = threads_and_descriptors(server)
    assert all(now < then + 20 for now, then in zip(after, before, strict=True)), (before, after)


def test_a_client_that_stops_reading_delays_nobody_and_is_let_go(server, client, sender):
    async def stop_reading(until):
        connection, reader, writer = await server.connect_raw()
        writer.write(HELLO.rstrip() + END_OF_MESSAGE + SUBSCRIBE)
        await reader.readuntil(b"<ok/>")
        reader.channel.pause_reading()
        await asyncio.to_thread(until)
        connection.abort()

    def flood():
        subscribe(client, filter=("xpath", "/door:opened"))
        for _ in range(12):
            sender("x" * 100_000, 10)
            for _ in range(10):
                assert len(name_of(event(client))) == 100_000
        assert wait_until(lambda: "reads its notifications too slowly" in server.log)
        assert client.get_config("running").ok

    asyncio.run(stop_reading(flood))
