"""The log of notifications and a subscription's place in it, without sysrepo and without SSH."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest

from agent.netconfd import wire
from agent.netconfd.broker.connection import SessionConnection
from agent.netconfd.broker.events.log import EventLog, Stream
from agent.netconfd.broker.events.subscription import Subscription
from agent.netconfd.broker.sessions import SubscriptionParameters
from agent.netconfd.broker.subscriptions import Subscriptions, Terms
from agent.netconfd.errors import RpcError, RpcErrors
from agent.netconfd.session.notifications import message


@pytest.fixture
def path(tmp_path):
    return tmp_path / "notifications.sqlite"


@pytest.fixture
def log(path):
    log = EventLog(path, max_octets=800)
    yield log
    log.close()


def texts(log, after=0):
    return [event.notification for event in log.after(after, 1000)]


def test_notifications_come_back_in_order_from_any_place_on(log):
    for name in ("a", "b", "c"):
        log.append(1, name)
    assert texts(log) == ["a", "b", "c"]
    assert texts(log, after=1) == ["b", "c"]
    assert [event.number for event in log.after(1, 1)] == [2]


def test_a_full_log_forgets_its_oldest_and_never_holds_more_than_it_may(log):
    for number in range(500):
        log.append(number, f"{number:050}")
        kept = texts(log)
        assert sum(map(len, kept)) <= 800
        assert kept == [f"{each:050}" for each in range(log.first - 1, number + 1)]
    assert log.last == 500


def test_sessions_that_come_and_go_displace_no_other_notification(log):
    log.append(1, "<config-change/>")
    for number in range(500):
        log.append(number, f"<session>{number:040}</session>", of_sessions=True)
        assert sum(map(len, texts(log))) <= 800
    kept = texts(log)
    assert kept[0] == "<config-change/>"
    assert len(kept) > 2
    assert kept[-1] == f"<session>{499:040}</session>"
    assert (log.first, log.last) == (1, 501)


def test_other_notifications_displace_none_of_sessions(log):
    log.append(1, "<session/>", of_sessions=True)
    for number in range(500):
        log.append(number, f"{number:050}")
    assert texts(log)[0] == "<session/>"


def test_a_log_of_an_earlier_version_goes_on_and_is_good_for_that_version(path):
    schema = (
        "CREATE TABLE event (number INTEGER PRIMARY KEY AUTOINCREMENT, time_ns INTEGER NOT NULL, "
        "notification TEXT NOT NULL)"
    )
    insert = "INSERT INTO event (time_ns, notification) VALUES (1, ?)"
    with closing(sqlite3.connect(path)) as earlier, earlier:
        earlier.execute(schema)
        earlier.execute(insert, ("old",))
    log = EventLog(path)
    log.append(1, "new", of_sessions=True)
    log.close()
    with closing(sqlite3.connect(path)) as earlier, earlier:
        earlier.execute(insert, ("old again",))
    log = EventLog(path)
    assert texts(log) == ["old", "new", "old again"]
    log.close()


def test_a_notification_that_would_push_all_others_out_is_not_logged(log):
    log.append(1, "a")
    with pytest.raises(ValueError, match="101 octets"):
        log.append(2, "x" * 101)
    assert texts(log) == ["a"]


def test_the_log_and_its_numbers_go_on_after_a_restart(log, path):
    for number in range(30):
        log.append(number, f"{number:050}")
    first, last = log.first, log.last
    again = EventLog(path, max_octets=800)
    assert (again.first, again.last) == (first, last)
    assert texts(again) == texts(log)
    again.append(31, "next")
    assert again.last == last + 1
    again.close()


def test_only_its_owner_may_read_the_log(log, path):
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_broken_log_is_replaced(path):
    path.write_bytes(b"SQLite format 3\0" + b"rubbish" * 1000)
    log = EventLog(path)
    log.append(1, "a")
    assert texts(log) == ["a"]
    log.close()


def test_what_a_full_disk_keeps_out_of_the_log_does_not_count(path):
    log = EventLog(path, max_octets=80_000)
    database = log._database
    log.append(1, "a" * 5000)
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages}")
    for number in range(100):
        with pytest.raises(sqlite3.OperationalError, match="full"):
            log.append(number, "b" * 5000)
    database.execute("PRAGMA max_page_count = 1000")
    log.append(2, "c" * 5000)
    assert [text[0] for text in texts(log)] == ["a", "c"]
    assert (log.first, log.last) == (1, 2)
    log.close()


def test_a_log_that_cannot_be_opened_is_kept_in_memory(path, caplog):
    path.mkdir()
    log = EventLog(path)
    log.append(1, "a")
    assert texts(log) == ["a"]
    assert f"{path}: unable to open database file" in caplog.text
    log.close()


def test_an_event_time_is_exact_to_the_microsecond():
    assert b"<eventTime>2033-05-18T03:33:20.000123Z</eventTime>" in message(
        "<a/>", 2_000_000_000_000_123_999
    )


class Someone:
    """A session that may see everything; it remembers whether it was ended."""

    def __init__(self):
        self.ended = False
        self.datastores = SimpleNamespace(receivable=self._receivable)

    async def call(self, function, *args):
        return function(*args)

    @staticmethod
    def _receivable(notification):
        if notification == "no":
            raise RpcErrors([RpcError("access-denied", "not for you")])
        return notification

    def disconnect(self):
        self.ended = True


EVERYBODY = SimpleNamespace(count_denied_notification=lambda: None)


async def publish(stream, *notifications):
    for notification in notifications:
        await asyncio.to_thread(stream.publish, notification, 1)
    await asyncio.sleep(0)


def test_a_subscriber_whose_next_notification_is_forgotten_is_ended_and_no_other(log):
    async def run():
        stream = Stream(log)
        slow, quick = Someone(), Someone()
        Subscription(SubscriptionParameters(), stream, slow, EVERYBODY)
        reader = Subscription(SubscriptionParameters(), stream, quick, EVERYBODY).deliveries()
        for number in range(20):
            await publish(stream, f"{number:050}")
            assert (await anext(reader)).notification == f"{number:050}"
        await reader.aclose()
        return slow.ended, quick.ended

    assert asyncio.run(run()) == (True, False)


async def flooded_by_sessions(stream, count):
    for number in range(count):
        notification = f"<session>{number:040}</session>"
        await asyncio.to_thread(stream.publish, notification, 1, of_sessions=True)
    await asyncio.sleep(0)


def test_a_replay_passes_over_what_was_displaced_before_it_began(log):
    async def run():
        stream = Stream(log)
        await publish(stream, "<first/>")
        await flooded_by_sessions(stream, 50)
        await publish(stream, "<last/>")
        someone = Someone()
        reader = Subscription(
            SubscriptionParameters(start_ns=1), stream, someone, EVERYBODY
        ).deliveries()
        await publish(stream, "<new/>")
        seen = []
        while "<new/>" not in seen:
            seen.append((await anext(reader)).notification)
        await reader.aclose()
        return seen, someone.ended

    seen, ended = asyncio.run(run())
    assert (seen[0], seen[-3][:5], seen[-1]) == ("<first/>", "<last", "<new/>")
    assert not ended


@pytest.mark.parametrize("of_sessions", [False, True])
def test_a_subscriber_is_ended_for_what_it_loses_of_either_kind(log, of_sessions):
    async def run():
        stream = Stream(log)
        await flooded_by_sessions(stream, 50)
        slow = Someone()
        Subscription(SubscriptionParameters(start_ns=1), stream, slow, EVERYBODY)
        for number in range(20):
            notification = f"{number:050}"
            await asyncio.to_thread(stream.publish, notification, 1, of_sessions=of_sessions)
            await asyncio.sleep(0)
        return slow.ended

    assert asyncio.run(run())


def test_a_replay_longer_than_one_batch_keeps_its_order_and_ends_before_what_is_new(log):
    async def run():
        stream = Stream(log)
        await publish(stream, *(f"<{number}/>" for number in range(40)), "no")
        reader = Subscription(
            SubscriptionParameters(start_ns=1), stream, Someone(), EVERYBODY
        ).deliveries()
        await publish(stream, "<new/>")
        seen = [await anext(reader) for _ in range(42)]
        await reader.aclose()
        return seen

    seen = asyncio.run(run())
    assert [each.notification for each in seen[:40]] == [f"<{number}/>" for number in range(40)]
    assert "<replayComplete" in seen[40].notification
    assert seen[40].is_marker
    assert seen[41].notification == "<new/>"


class Client:
    """The other end of a session's connection: it acts as soon as it has the first answer."""

    def __init__(self, act):
        self.act = act
        self.messages = []
        self.has_both = asyncio.Event()

    def write(self, octets):
        is_answer = not self.messages
        self.messages.append(octets)
        if is_answer:
            self.act()
        else:
            self.has_both.set()

    async def drain(self):
        pass


@pytest.mark.parametrize("call", ["create-subscription", "subscribe-stream"])
def test_what_a_client_causes_once_it_knows_of_its_subscription_reaches_it(log, call):
    async def perform(*_):
        someone.subscription = SubscriptionParameters()
        return wire.Message({"reply": True}, b"1")

    async def settle():
        pass

    async def run():
        stream = Stream(log)
        subscriptions = Subscriptions(lambda: 1)
        services = SimpleNamespace(access=EVERYBODY, subscriptions=subscriptions)
        events = SimpleNamespace(settle=settle)
        notifications = SimpleNamespace(events=events, stream=stream)
        connection = SessionConnection(someone, services, notifications, lambda: 1000)
        connection._calls = SimpleNamespace(perform=perform)
        subscriptions.establish(someone, Terms())
        client = connection._writer = Client(lambda: log.append(1, "<caused/>"))
        await connection._take(wire.Message({"call": call}))
        await asyncio.wait_for(client.has_both.wait(), 30)
        return client.messages

    someone = Someone()
    answer, notification = asyncio.run(run())
    assert b'"reply"' in answer
    assert notification.endswith(b"<caused/>")
