"""What a watch takes from a switch that pushes its state, and what it asks for all the same."""

from __future__ import annotations

import os
import time
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from cnc.clocks.offsets import timed
from cnc.data_tree.tree import AgentReport
from cnc.model import NS_PER_S
from cnc.switch.device import ConnectOptions, DeviceError
from cnc.switch.push import Stopped
from cnc.switch.subscription import Subscription, parse
from cnc.watch import sources
from cnc.watch.sources import Polling, Pushing, open_source
from tests.stack.netconfd_process import wait_until
from tests.unit.lying_switches import NAMESPACES, PLAN, element, leaves, lying, state_data
from tests.unit.places import changed
from tests.unit.watched_switches import poll

SWITCH = PLAN.intent.network.bridges["s1"]
PORTS = ["s2"]  # of its two
OPTIONS = ConnectOptions(Path(os.devnull), Path(os.devnull), 30.0)
EVENTS, STATE, CONFIGURATION, FOREIGN = 1, 2, 3, 4
ALL = ("stream", "periodic", "on-change")
LOOK = ["get-data", "get-config", "get-data"]
MS = 1_000_000


@pytest.fixture
def switches(monkeypatch):
    switches = lying(monkeypatch)
    switches.subscriptions = ALL
    return switches


def subscribed():
    return Subscription(SWITCH, OPTIONS, on_received=lambda *_: None, on_end=lambda _: None)


def opened(interval_s=10.0):
    return open_source(subscribed(), PORTS, interval_s, OPTIONS.timeout_s)


def looked(switches, interval_s=10.0):
    """A source that has looked once; what it asked for that is forgotten."""
    source = opened(interval_s)
    source.look()
    switches.asked.clear()
    return source


def received(event):
    """The event of a notification that arrives now."""
    envelope = element("nc:notification")
    envelope.tag = "{urn:ietf:params:xml:ns:netconf:notification:1.0}notification"
    envelope.append(event)
    return parse(etree.tostring(envelope, encoding="unicode"))


def update(number=STATE, *, data=None, incomplete=False):
    contents = element(
        "yp:datastore-contents", *deepcopy(state_data("s1") if data is None else data)
    )
    event = element("yp:push-update", *leaves("yp", id=number), contents)
    if incomplete:
        event.append(element("yp:incomplete-update"))
    return received(event)


def observed(source):
    """The first observation of a switch that pushes over and over; the first updates may have been
    read before the last look ended."""
    return wait_until(lambda: source.take(update()))


def with_clock_moved(by_ns):
    """The state of the switch, its clock set ahead by `by_ns`."""
    data = state_data("s1")
    for shown in data.iterfind(".//g:current-time", NAMESPACES):
        seconds, nanoseconds = shown.find("g:seconds", NAMESPACES), shown[1]
        now_ns = int(seconds.text) * NS_PER_S + int(nanoseconds.text) + by_ns
        seconds.text, nanoseconds.text = str(now_ns // NS_PER_S), str(now_ns % NS_PER_S)
    return data


def test_a_switch_that_pushes_its_state_is_asked_once_for_everything(switches):
    source = opened()
    asked = source.look()
    assert switches.asked == ["establish-subscription"] * 3 + LOOK
    pushed = observed(source)
    assert switches.asked[:6] == ["establish-subscription"] * 3 + LOOK
    assert (pushed.stored, pushed.counters) == (asked.stored, asked.counters)
    assert pushed.state.agent == asked.state.agent
    assert set(pushed.state.ports) == {"s2"}


def test_a_switch_without_subscriptions_of_rfc_8639_is_polled(switches):
    switches.subscriptions = ()
    source = opened(interval_s=0.0)
    assert isinstance(source, Polling)
    assert switches.asked == ["establish-subscription", "create-subscription"]
    for _ in range(2):
        switches.asked.clear()
        source.look()
        assert switches.asked == LOOK
        assert source.due_s <= time.monotonic()


def test_a_switch_that_does_not_push_its_state_is_polled_in_the_same_session(switches):
    switches.subscriptions = ("stream", "on-change")
    assert isinstance(opened(), Polling)
    assert switches.asked == ["establish-subscription"] * 2


@pytest.mark.parametrize("refusals", [{}, {"delete-subscription": "access denied"}])
def test_a_switch_that_tells_no_changes_is_polled_and_shall_not_push_either(switches, refusals):
    switches.subscriptions = ("stream", "periodic")
    switches.refusals = refusals
    assert isinstance(opened(), Polling)
    assert switches.asked == ["establish-subscription"] * 3 + ["delete-subscription"]


def test_a_subscription_that_fails_without_a_refusal_is_an_error(switches):
    switches.reply = lambda *_: "<"
    with pytest.raises(DeviceError):
        opened()


def test_a_reply_without_the_id_of_the_subscription_is_an_error(monkeypatch, switches):
    monkeypatch.setattr(switches, "_subscribed", lambda _: element("nc:ok"))
    with pytest.raises(DeviceError, match="no id of a subscription"):
        opened()


def test_after_a_change_of_the_configuration_everything_is_asked_for(switches):
    source = looked(switches)
    change = element("yp:push-change-update", *leaves("yp", id=CONFIGURATION))
    assert source.take(received(change)) is None
    assert source.due_s <= time.monotonic()
    switches.change = lambda data: data.clear()
    assert source.look().stored.ports == {}
    assert source.due_s > time.monotonic()


def test_subscriptions_of_others_and_ids_that_were_not_given_are_ignored(switches):
    source = looked(switches)
    due_s = source.due_s
    for number in (FOREIGN, EVENTS, CONFIGURATION, -1, 2**64):
        assert source.take(update(number, data=[])) is None
    for number in (FOREIGN, STATE):
        change = element("yp:push-change-update", *leaves("yp", id=number))
        assert source.take(received(change)) is None
    assert source.after(Stopped(FOREIGN, "x", is_final=True)) is source
    assert (source.due_s, switches.asked) == (due_s, [])


def test_an_update_that_leaves_something_out_is_followed_by_a_look(switches):
    source = looked(switches)
    assert source.take(update(incomplete=True)) is None
    assert source.due_s <= time.monotonic()


def test_what_was_read_before_a_change_or_a_look_is_no_observation(switches):
    source = looked(switches)
    former = update()
    assert observed(source)
    source.look_now()
    assert source.take(update()) is None
    source.look()
    assert source.take(former) is None
    assert source.due_s > time.monotonic()
    assert observed(source)


def test_an_update_that_is_late_is_asked_for_and_a_switch_has_no_longer_to_answer_than_a_polled_one(
    monkeypatch, switches
):
    waited_s = []
    monkeypatch.setattr(Subscription, "wait_at_most", lambda _, each_s: waited_s.append(each_s))
    source = looked(switches, interval_s=-sources.PATIENCE_S)
    assert waited_s == [OPTIONS.timeout_s] * 2
    assert source.due_s <= time.monotonic()
    source.look()
    assert waited_s[2:] == [OPTIONS.timeout_s - sources.PATIENCE_S, OPTIONS.timeout_s]


def test_the_patience_with_a_late_update_is_half_of_a_short_time_out(monkeypatch, switches):
    short = ConnectOptions(OPTIONS.identity, OPTIONS.known_hosts, 0.5)
    session = Subscription(SWITCH, short, on_received=lambda *_: None, on_end=lambda _: None)
    source = open_source(session, PORTS, -0.25, short.timeout_s)
    source.look()
    waited_s = []
    monkeypatch.setattr(Subscription, "wait_at_most", lambda _, each_s: waited_s.append(each_s))
    source.look()
    assert waited_s == [0.25, 0.5]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("subscription-terminated", STATE),
        ("subscription-terminated", CONFIGURATION),
        ("subscription-suspended", CONFIGURATION),
    ],
)
def test_a_switch_that_stops_a_subscription_is_polled_from_now_on(switches, name, number):
    source = looked(switches)
    stopped = received(element(f"sn:{name}", *leaves("sn", id=number, reason="sn:some-reason")))
    assert (stopped.id, stopped.reason) == (number, "some-reason")
    rest = source.after(stopped)
    assert isinstance(rest, Polling)
    assert rest.due_s <= time.monotonic()
    assert rest.take(update()) is None
    assert rest.after(stopped) is rest


def test_updates_of_the_state_that_are_suspended_are_asked_for_like_late_ones(switches):
    source = looked(switches)
    due_s = source.due_s
    suspended = element("sn:subscription-suspended", *leaves("sn", id=STATE))
    assert source.after(received(suspended)) is source
    assert source.due_s == due_s


def test_a_session_that_gets_no_more_events_is_over(switches):
    session = subscribed()
    session.refuse_end_of_events(Stopped(FOREIGN, "x", is_final=True))
    with pytest.raises(DeviceError, match="s1: it sends no more events: suspension-timeout"):
        session.refuse_end_of_events(Stopped(EVENTS, "suspension-timeout", is_final=True))


def test_a_clock_that_was_set_ahead_contradicts_its_last_reading_and_is_asked_for(switches):
    source = looked(switches)
    assert source.take(update(data=with_clock_moved(NS_PER_S))) is None
    assert source.due_s <= time.monotonic()


def test_a_clock_that_was_set_back_is_read_again(monkeypatch, switches):
    source = looked(switches)
    monkeypatch.setattr("tests.unit.lying_switches.time", Moved(-NS_PER_S))
    before_ns = time.time_ns() - time.monotonic_ns()
    pushed = observed(source)
    assert set(switches.asked) == {"get-data"}
    low_ns, high_ns = pushed.state.tai_minus_monotonic_ns()
    assert low_ns <= before_ns + 36 * NS_PER_S + MS
    assert high_ns >= before_ns + 36 * NS_PER_S - MS


class Moved:
    """The module `time`, of which the clock has been set."""

    def __init__(self, by_ns):
        self._by_ns = by_ns

    def time_ns(self):
        return time.time_ns() + self._by_ns


def test_a_switch_without_agent_pushes_no_clock_and_is_not_asked_for_it(switches):
    source = looked(switches)
    pushed = source.take(update(data=[]))
    assert pushed.state.agent is None
    assert pushed.state.ports == {}
    assert switches.asked == []


def test_an_update_that_cannot_be_read_is_an_error_of_the_switch(switches):
    source = looked(switches)
    data = state_data("s1")
    data.find(".//t:base-time-ns", NAMESPACES).text = "text"
    with pytest.raises(DeviceError, match="unexpected reply to push-update: invalid literal"):
        source.take(update(data=data))


@given(
    request_ns=st.integers(0, 50 * MS),
    read_after_ns=st.integers(0, 50 * MS),
    age_ns=st.integers(0, 3600 * NS_PER_S),
    way_ns=st.integers(0, 10 * NS_PER_S),
    drift_ppm=st.integers(-100, 100),
)
def test_a_pushed_state_was_read_between_its_bounds(
    request_ns, read_after_ns, age_ns, way_ns, drift_ppm
):
    """Whatever the way of messages took, if the clock drifts by 100 ppm at most."""
    read_after_ns = min(request_ns, read_after_ns)
    reading = state_at(shown_ns=read_after_ns, asked_ns=0, answered_ns=request_ns)
    read_ns = request_ns + age_ns
    shown_ns = read_ns + (read_ns - read_after_ns) * drift_ppm // 1_000_000
    pushed = state_at(shown_ns=shown_ns, asked_ns=read_ns + way_ns, answered_ns=read_ns + way_ns)
    state = timed(pushed, reading)
    assert state is not None
    assert state.asked_ns <= read_ns <= state.answered_ns


def state_at(*, shown_ns, asked_ns, answered_ns):
    state = poll("s1", shown_ns / NS_PER_S).state
    ports = {name: changed(port, current_time_ns=shown_ns) for name, port in state.ports.items()}
    return type(state)(AgentReport(37, 100), ports, asked_ns, answered_ns)


def test_the_bounds_of_a_pushed_state_are_as_close_as_request_and_way_were(switches):
    reading = state_at(shown_ns=4 * MS, asked_ns=0, answered_ns=5 * MS)
    at_ns = 10 * NS_PER_S
    pushed = state_at(shown_ns=at_ns, asked_ns=at_ns + 3 * MS, answered_ns=at_ns + 3 * MS)
    state = timed(pushed, reading)
    # 4 ms of the request, 3 ms of the update, 100 ppm of 10 s.
    assert 7 * MS <= state.answered_ns - state.asked_ns <= 8 * MS + MS // 100


def test_a_state_is_not_timed_by_a_reading_without_a_clock(switches):
    reading = poll("s1", agent=None).state
    assert timed(poll("s1").state, reading) is None
    assert isinstance(opened(), Pushing)
