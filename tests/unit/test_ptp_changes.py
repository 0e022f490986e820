"""What an agent tells of the ptp4l that keeps its clock, and what a watch makes of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from agent.datastore.notifications import encode
from agent.events import PtpGrandmasterChange, PtpPortStateChange
from agent.kernel.clock_monitor import ManagedClock
from agent.kernel.ptp_management import Domain
from agent.mechanism import Observation
from agent.mechanisms.clock.kernel import PtpDaemonAdapter
from agent.model import PtpPortState, PtpStatus
from cnc.watch.messages import requires_poll
from cnc.watch.observer import Observer
from tests.unit.watched_switches import PLAN, received

GM, OTHER = "020000.fffe.000101", "020000.fffe.000102"
FOLLOWS = PtpStatus(OTHER, GM, GM, False, 40, {1: PtpPortState.SLAVE, 2: PtpPortState.MASTER})
LEADS = PtpStatus(OTHER, OTHER, OTHER, True, None, {1: PtpPortState.MASTER, 2: PtpPortState.MASTER})
CLOCK = ManagedClock(3, "/nowhere", Domain(1, 0))


@pytest.fixture
def observe(tmp_path, monkeypatch):
    """Observes a clock whose ptp4l says what is given, and returns the events."""
    adapter = PtpDaemonAdapter(tmp_path)
    monkeypatch.setattr(adapter, "_managed_ports", {1: "p1", 2: "p2"})

    def observe(status, clock=CLOCK):
        monkeypatch.setattr(adapter, "_monitor", SimpleNamespace(clock=clock, status=status))
        return adapter.observe(0)

    return observe


def test_what_a_ptp4l_says_first_is_no_change(observe):
    assert observe(FOLLOWS) == Observation()
    assert observe(FOLLOWS).events == ()


def test_another_grandmaster_and_other_states_are_told_once(observe):
    observe(FOLLOWS)
    assert observe(LEADS).events == (
        PtpGrandmasterChange(3, OTHER, GM, is_grandmaster=True),
        PtpPortStateChange(3, "p1", PtpPortState.MASTER, PtpPortState.SLAVE),
    )
    assert observe(LEADS).events == ()


def test_an_offset_that_changes_is_no_event(observe):
    observe(FOLLOWS)
    assert observe(replace(FOLLOWS, offset_from_master_ns=900)).events == ()


def test_a_ptp4l_that_is_started_again_is_compared_with_what_it_said_before(observe):
    observe(FOLLOWS)
    assert observe(None).events == ()
    assert [type(each) for each in observe(LEADS).events] == [
        PtpGrandmasterChange,
        PtpPortStateChange,
    ]


def test_another_instance_begins_anew(observe):
    observe(FOLLOWS)
    assert observe(LEADS, ManagedClock(4, "/nowhere", Domain(1, 0))).events == ()
    assert observe(LEADS, clock=None).events == ()


def leaves_of(event):
    """As they come over NETCONF: text."""
    name, content = encode(event)
    return name, {
        leaf.replace("-", "_"): str(value).lower() if isinstance(value, bool) else str(value)
        for leaf, value in content.items()
    }


@pytest.mark.parametrize(
    ("event", "kind", "port", "text"),
    [
        (
            PtpGrandmasterChange(0, OTHER, GM, is_grandmaster=True),
            *("ptp-grandmaster", ""),
            f"is the grandmaster now: {OTHER}, was {GM}",
        ),
        (
            PtpGrandmasterChange(0, GM, OTHER, is_grandmaster=False),
            *("ptp-grandmaster", ""),
            f"another grandmaster: {GM}, was {OTHER}",
        ),
        (
            PtpPortStateChange(0, "p1", PtpPortState.MASTER, PtpPortState.SLAVE),
            *("ptp-port-state", "p1"),
            "master, was slave",
        ),
    ],
)
def test_a_watch_tells_what_the_agent_has_sent_and_looks_at_the_switch(event, kind, port, text):
    name, leaves = leaves_of(event)
    notification = received("s1", name, **leaves)
    (told,) = Observer(PLAN, is_known=lambda _: True).take(notification)
    assert (told.kind, told.switch, told.port, told.text) == (kind, "s1", port, text)
    assert requires_poll(notification.notification)
