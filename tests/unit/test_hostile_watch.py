"""A switch that lies to `cnc watch`, or floods it: the watch of the others goes on."""

from __future__ import annotations

import asyncio
import queue
import re
import socket
import urllib.request
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from cnc.rollout.history import History
from cnc.switch import ConnectOptions, subscription
from cnc.switch.subscription import NETCONF_EVENTS, Notification
from cnc.switch.tree import TSN_LINUX
from cnc.watch import Event, Watcher, following, metrics, watcher
from cnc.watch.following import Follower
from cnc.watch.observation import SwitchNotification, Unreachable
from cnc.watch.observer import Observer
from tests.unit.lying_switches import CAPABILITIES, PLAN, element
from tests.unit.strange_switch import BASE, END_OF_MESSAGE, HELLO, strange_switch
from tests.unit.watched_switches import received

NOTIFYING = HELLO.replace(
    "<capability>",
    "".join(f"<capability>{uri}</capability>" for uri in CAPABILITIES[-2:]) + "<capability>",
    1,
)
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
        *((NETCONF_EVENTS, n) for n in ("netconf-config-change", "netconf-confirmed-commit")),
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


def test_a_switch_that_sends_notifications_without_end_loses_its_session(tmp_path, monkeypatch):
    monkeypatch.setattr(following, "NOTIFICATIONS_MAX", 50)
    reported = queue.SimpleQueue()

    async def flood(process):
        """Answer the subscription, and never stop after that."""
        request = (await process.stdin.readuntil(END_OF_MESSAGE)).decode()
        number = re.search(r'message-id="([^"]*)"', request)[1]
        reply = f'<rpc-reply xmlns="{BASE}" message-id="{number}"><ok/></rpc-reply>'
        process.stdout.write(reply.encode() + END_OF_MESSAGE)
        event = EVENT.format('<e xmlns="urn:x"/>').encode() + END_OF_MESSAGE
        while not process.channel.is_closing():
            process.stdout.write(event * 10)
            await asyncio.sleep(0.01)

    with strange_switch(tmp_path, hello=NOTIFYING, talk=flood) as switch:
        follower = Follower(
            switch.managed,
            ["s2"],
            connect=switch.options(),
            interval_s=60.0,
            report=reported.put,
        )
        follower.start()
        observation = reported.get(timeout=30)
        follower.stop()
        follower.join(30)
    assert isinstance(observation, Unreachable)
    assert "it sent more than 50 notifications within 10 s" in observation.reason
    assert follower._retry_s == following.LONGEST_RETRY_S


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
