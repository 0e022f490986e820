"""A switch that lies to `cnc watch`, or floods it: the watch of the others goes on."""

from __future__ import annotations

import asyncio
import os
import queue
import re
import socket
import urllib.request
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from cnc.data_tree.tree import TSN_LINUX
from cnc.mechanisms.multipath.leaves import MULTIPATH
from cnc.rollout.history import History
from cnc.switch import ConnectOptions, subscription
from cnc.switch.device import DeviceError
from cnc.switch.push import SUBSCRIBED, YANG_PUSH, Change, Update
from cnc.switch.subscription import NETCONF_EVENTS, Notification, Subscription
from cnc.watch import Event, Watcher, following, metrics, watcher
from cnc.watch.following import Follower
from cnc.watch.observation import Neighbors, Poll, SwitchNotification, Unreachable
from cnc.watch.observer import Observer
from cnc.watch.sources import open_source
from tests.unit.lying_switches import (
    CAPABILITIES,
    PLAN,
    LyingSwitches,
    element,
    lying,
    state_data,
)
from tests.unit.strange_switch import BASE, END_OF_MESSAGE, HELLO, strange_switch
from tests.unit.watched_switches import received

NOTIFYING = HELLO.replace(
    "<capability>",
    "".join(f"<capability>{uri}</capability>" for uri in CAPABILITIES[-2:]) + "<capability>",
    1,
)
BOMB = '<!ENTITY a "' + "x" * 1000 + '"><!ENTITY b "' + "&a;" * 1000 + '"><!ENTITY e "&b;&b;">'
ID = f'<id xmlns="{SUBSCRIBED}">1</id>'
FOREIGN_UPDATE = f'<push-update xmlns="{YANG_PUSH}"><id>999</id></push-update>'
EVENT = (
    '<notification xmlns="urn:ietf:params:xml:ns:netconf:notification:1.0">'
    "<eventTime>2026-01-01T00:00:00Z</eventTime>{}</notification>"
)


@pytest.fixture
def observer():
    return Observer(PLAN, is_known=lambda _: True)


@pytest.mark.parametrize(
    ("step_ns", "told"),
    [
        ("text", "CLOCK_TAI moved (invalid literal for int() with base 10: 'text'), TAI offset 37"),
        ("9" * 5000, "CLOCK_TAI moved (step-ns is no number: it has 5000 characters), TAI off"),
        ("-1000", "CLOCK_TAI moved 1 µs back, TAI offset 37 s"),
    ],
)
def test_a_clock_step_that_is_no_number_is_told_as_such(observer, step_ns, told):
    (event,) = observer.take(received("s1", "clock-step", step_ns=step_ns, tai_offset="37"))
    assert event.text.startswith(told)


NAMES = st.sampled_from(
    [
        *((TSN_LINUX, n) for n in ("agent-started", "clock-step", "port-drift", "port-restored")),
        *((TSN_LINUX, n) for n in ("ptp-grandmaster-change", "ptp-port-state-change")),
        *((NETCONF_EVENTS, n) for n in ("netconf-config-change", "netconf-confirmed-commit")),
        *((MULTIPATH, n) for n in ("mode-changed", "fall-back", "path-demoted", "path-restored")),
        ("urn:x", "x"),
    ]
)
LEAVES = st.dictionaries(
    st.sampled_from(
        [
            *("pid", "step-ns", "tai-offset", "interface", "difference", "datastore"),
            *("confirm-event", "username", "changed-by/username", "changed-by/source-host"),
        ]
    ),
    st.sampled_from(["", "-1", "9" * 4300, "s2", "timeout", "cancel", "running", "\x9b\u202e"]),
)


@given(st.lists(st.tuples(NAMES, LEAVES), max_size=5))
def test_no_notification_ends_the_watch(notifications):
    observer = Observer(PLAN, is_known=lambda _: True)
    now = datetime.now(UTC)
    for (namespace, name), leaves in notifications:
        told = observer.take(SwitchNotification("s1", now, Notification(namespace, name, leaves)))
        assert all(isinstance(event, Event) for event in told)


def test_of_a_long_text_in_a_notification_the_beginning_is_kept():
    event = element("t:port-drift", element("t:difference", "x" * 100_000))
    leaves = subscription.parse(EVENT.format(etree.tostring(event).decode())).leaves
    assert leaves == {"difference": "x" * 4000 + "…"}


def flooding(subscribed, event):
    """A switch that answers the first request by `subscribed`, and the next by `event` for ever."""
    message = EVENT.format(event).encode() + END_OF_MESSAGE

    async def flood(process):
        request = (await process.stdin.readuntil(END_OF_MESSAGE)).decode()
        number = re.search(r'message-id="([^"]*)"', request)[1]
        reply = f'<rpc-reply xmlns="{BASE}" message-id="{number}">{subscribed}</rpc-reply>'
        process.stdout.write(reply.encode() + END_OF_MESSAGE)
        await process.stdin.readuntil(END_OF_MESSAGE)
        while not process.channel.is_closing():
            process.stdout.write(message * 10)
            await process.stdout.drain()
            await asyncio.sleep(0.01)

    return flood


@contextmanager
def followed(switch, interval_s=60.0):
    """A follower of the switch, and the queue of what it reports."""
    reported = queue.SimpleQueue()
    follower = Follower(
        switch.managed,
        ["s2"],
        connect=switch.options(timeout_s=60.0),
        interval_s=interval_s,
        report=reported.put,
    )
    follower.start()
    try:
        yield follower, reported
    finally:
        follower.stop()
        follower.join(60)
    assert not follower.is_alive()


@pytest.mark.parametrize("event", ['<e xmlns="urn:x"/>', FOREIGN_UPDATE])
def test_a_switch_that_sends_notifications_without_end_loses_its_session(
    tmp_path, monkeypatch, event
):
    monkeypatch.setattr(following, "NOTIFICATIONS_MAX", 50)
    talk = flooding(ID, event)
    with (
        strange_switch(tmp_path, hello=NOTIFYING, talk=talk) as switch,
        followed(switch) as (follower, reported),
    ):
        observation = reported.get(timeout=60)
    assert isinstance(observation, Unreachable)
    assert "it sent more than 50 notifications" in observation.reason
    assert follower._retry_s == following.LONGEST_RETRY_S


def test_a_few_notifications_of_enormous_size_end_the_session_as_many_do(tmp_path, monkeypatch):
    monkeypatch.setattr(following, "NOTIFICATIONS_MAX", 10**9)
    monkeypatch.setattr(following, "NOTIFIED_MAX_CHARACTERS", 100_000)
    event = f"<e xmlns='urn:x'>{'x' * 10_000}</e>"
    talk = flooding(ID, event)
    with (
        strange_switch(tmp_path, hello=NOTIFYING, talk=talk) as switch,
        followed(switch) as (_, reported),
    ):
        observation = reported.get(timeout=60)
    assert "or 100000 characters in them, within 10 s" in observation.reason


def test_a_switch_that_floods_a_session_that_is_refused_does_not_end_the_watch(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(following, "NOTIFICATIONS_MAX", 50)
    talk = flooding("<ok/>", '<e xmlns="urn:x"/>')
    with (
        strange_switch(tmp_path, hello=NOTIFYING, talk=talk) as switch,
        followed(switch) as (follower, reported),
    ):
        for _ in range(2):
            assert isinstance(reported.get(timeout=60), Unreachable)
        assert follower.is_alive()


def pushing(*messages):
    """A switch with YANG push that answers every request, and sends `messages` after each look."""
    switches = LyingSwitches()
    switches.subscriptions = ("stream", "on-change", "periodic")

    async def talk(process):
        while True:
            request = (await process.stdin.readuntil(END_OF_MESSAGE))[
                : -len(END_OF_MESSAGE)
            ].decode()
            process.stdout.write(switches.reply("s1", request).encode() + END_OF_MESSAGE)
            if switches.asked[-3:] == ["get-data", "get-config", "get-data"]:
                for message in messages:
                    process.stdout.write(message.encode() + END_OF_MESSAGE)

    return talk


def update(contents):
    """A push-update of the state; the subscription to events has the id 1."""
    contents = f"<datastore-contents>{contents}</datastore-contents>"
    return EVENT.format(f'<push-update xmlns="{YANG_PUSH}"><id>2</id>{contents}</push-update>')


def test_an_update_that_is_too_large_ends_the_session(tmp_path, monkeypatch):
    monkeypatch.setattr("cnc.switch.framing.MESSAGE_MAX_OCTETS", 200_000)
    talk = pushing(update("x" * 200_000))
    with (
        strange_switch(tmp_path, hello=NOTIFYING, talk=talk) as switch,
        followed(switch) as (_, reported),
    ):
        assert isinstance(reported.get(timeout=60), Poll)
        observation = reported.get(timeout=60)
    assert isinstance(observation, Unreachable)
    assert "a message of more than 200000 octets" in observation.reason


@pytest.mark.parametrize(
    "entity",
    ['<!ENTITY e "x">', '<!ENTITY e SYSTEM "file:///etc/hostname">', BOMB],
    ids=["internal", "external", "nested"],
)
def test_no_entity_in_an_update_is_expanded(tmp_path, entity):
    event = '<event xmlns="urn:x"><text>&e;</text></event>'
    doctype = f"<!DOCTYPE x [{entity}]>"
    talk = pushing(doctype + update("<x>&e;</x>"), doctype + EVENT.format(event))
    with (
        strange_switch(tmp_path, hello=NOTIFYING, talk=talk) as switch,
        followed(switch, interval_s=5.0) as (_, reported),
    ):
        assert isinstance(reported.get(timeout=60), Poll)
        observation = reported.get(timeout=60)
        if isinstance(observation, Neighbors):  # asked for after the first look
            observation = reported.get(timeout=60)
    match observation:
        case SwitchNotification():
            assert observation.notification.leaves == {}
        case _:
            assert isinstance(observation, Unreachable | Poll)


def test_of_updates_that_wait_the_newest_alone_is_kept_in_the_place_of_the_first():
    inbox = following._Inbox()
    for number in range(3):
        inbox.put(Update(3, number, is_complete=True, received_ns=number))
        inbox.put(Change(number))
    assert inbox.get(0).received_ns == 2
    assert [inbox.get(0).id for _ in range(3)] == [0, 1, 2]
    with pytest.raises(queue.Empty):
        inbox.get(0)


TEXTS = ("-1", "", "9" * 4301, "1e5", "text", "\u009b31m\u202e", "x" * 100_000)


@given(st.integers(0), st.sampled_from(TEXTS), st.booleans())
def test_an_update_with_any_wrong_leaf_is_an_observation_or_an_error_of_the_switch(
    number, text, is_left_out
):
    with pytest.MonkeyPatch.context() as monkeypatch:
        lying(monkeypatch).subscriptions = ("stream", "on-change", "periodic")
        session = Subscription(
            PLAN.intent.network.bridges["s1"],
            ConnectOptions(Path(os.devnull), Path(os.devnull)),
            on_received=lambda *_: None,
            on_end=lambda _: None,
        )
        source = open_source(session, ["s2"], 10.0, 30.0)
        source.look()
        data = state_data("s1")
        wrong = list(data.iter("*"))[1:]
        wrong = wrong[number % len(wrong)]
        wrong.text = text
        if is_left_out:
            wrong.getparent().remove(wrong)
        contents = "".join(etree.tostring(child).decode() for child in data)
        with suppress(DeviceError):
            observation = source.take(subscription.parse(update(contents)))
            assert observation is None or isinstance(observation, Poll)


def test_a_scraper_that_says_nothing_loses_its_connection_and_another_is_answered(
    monkeypatch, observer
):
    monkeypatch.setattr(metrics, "SCRAPE_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    close = metrics.serve("127.0.0.1", port, observer.snapshot)
    try:
        with socket.create_connection(("127.0.0.1", port), 30) as silent:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as scrape:
                assert b"tsn_rollout_unfinished" in scrape.read()
            assert silent.recv(1) == b""
    finally:
        close()


def test_observations_that_nobody_has_judged_yet_are_not_piled_up(tmp_path):
    with History(tmp_path / "history") as history:
        watching = Watcher(
            PLAN,
            connect=ConnectOptions(tmp_path, tmp_path),
            history=history,
            interval_s=10.0,
            tell=lambda _: None,
        )
        for number in range(watcher.OBSERVATIONS_MAX):
            watching._followers[0]._report(number)
        with pytest.raises(queue.Full):
            watching._seen.put_nowait("one more")
