"""The watch tells cables that are not where the intent has them, as switches hear it over LLDP."""

from __future__ import annotations

import itertools
import os
import queue
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from cnc.switch.device import ConnectOptions, DeviceError
from cnc.switch.subscription import Subscription
from cnc.switch.topology import TopologyReport
from cnc.watch import following, metrics
from cnc.watch.condition import Event
from cnc.watch.following import Follower
from cnc.watch.observation import Neighbors, Observation, Poll
from cnc.watch.observer import Observer
from tests.unit.heard_neighbors import reports
from tests.unit.lying_switches import LyingSwitches, lying
from tests.unit.watched_switches import PLAN, START, poll, unreachable

NETWORK = PLAN.intent.network
AS_PLANNED = {
    "s1": {"t1": ("t1", "eth0"), "t2": ("t2", "eth0"), "s2": ("s2", "s1")},
    "s2": {"s1": ("s1", "s2"), "s3": ("s3", "s2")},
    "s3": {"s2": ("s2", "s3"), "l1": ("l1", "eth0"), "l2": ("l2", "eth0")},
}
SWAPPED = {
    **AS_PLANNED,
    "s1": {**AS_PLANNED["s1"], "t1": ("t2", "eth0"), "t2": ("t1", "eth0")},
}
MOVED = {
    "s1": {**AS_PLANNED["s1"], "s2": ("s3", "s2")},
    "s2": {"s3": ("s3", "l1")},
    "s3": {**AS_PLANNED["s3"], "s2": ("s1", "s2"), "l1": ("s2", "s3")},
}


class Watched:
    """An observer, which is told what switches hear."""

    def __init__(self) -> None:
        self.observer = Observer(PLAN, is_known=lambda _: True)
        self._seconds = itertools.count()

    def hears(self, switch: str, report: TopologyReport) -> list[Event]:
        at = START + timedelta(seconds=next(self._seconds))
        return self.observer.take(Neighbors(switch, at, report))

    def all_hear(self, heard: Mapping[str, Mapping[str, tuple[str, str]]]) -> list[Event]:
        told = reports(NETWORK, heard)
        return [event for name, report in told.items() for event in self.hears(name, report)]


@pytest.fixture
def watched() -> Watched:
    return Watched()


def told(events: list[Event]) -> list[tuple[str, str, str, str]]:
    return [(its.what, its.kind, its.switch, its.port) for its in events]


BEGAN = [("began", "cabling", "s1", "t1"), ("began", "cabling", "s1", "t2")]
ENDED = [("ended", *rest) for _, *rest in BEGAN]


def test_cables_that_are_where_they_belong_are_no_news_in_whatever_order_switches_tell() -> None:
    for order in itertools.permutations(AS_PLANNED):
        assert Watched().all_hear({name: AS_PLANNED[name] for name in order}) == []


def test_swapped_cables_are_told_once_and_once_more_when_they_are_right_again(
    watched: Watched,
) -> None:
    watched.all_hear(AS_PLANNED)
    events = watched.all_hear(SWAPPED)
    assert told(events) == BEGAN
    assert [its.text for its in events] == [
        "LLDP hears end station t2 there, the intent has t1/eth0",
        "LLDP hears end station t1 there, the intent has t2/eth0",
    ]
    assert watched.all_hear(SWAPPED) == []
    assert told(watched.all_hear(AS_PLANNED)) == ENDED


def test_a_cable_between_switches_is_judged_by_what_all_of_them_hear(watched: Watched) -> None:
    watched.all_hear(AS_PLANNED)
    events = watched.all_hear(MOVED)
    assert {its.what for its in events} == {"began"}
    assert {(its.switch, its.port): its.text for its in events} == {
        ("s1", "s2"): "LLDP hears s3/s2 there, the intent has s2/s1",
        ("s2", "s3"): "LLDP hears s3/l1 there, the intent has s3/s2",
        ("s3", "s2"): "LLDP hears s1/s2 there, the intent has s2/s3",
        ("s3", "l1"): "LLDP hears s2/s3 there, the intent has l1/eth0",
    }


def test_a_switch_that_hears_nobody_begins_no_condition_and_ends_none(watched: Watched) -> None:
    deaf = replace(reports(NETWORK, AS_PLANNED)["s1"], lldp=None)
    silent = reports(NETWORK, {**AS_PLANNED, "s1": {}})["s1"]
    assert watched.hears("s1", deaf) == watched.hears("s1", silent) == []
    assert told(watched.all_hear(SWAPPED)) == BEGAN
    assert watched.hears("s1", deaf) == watched.hears("s1", silent) == []
    assert told(watched.all_hear(AS_PLANNED)) == ENDED


def test_what_is_told_of_a_switch_lasts_while_it_does_not_answer(watched: Watched) -> None:
    watched.all_hear(SWAPPED)
    assert told(watched.observer.take(unreachable("s1"))) == [("began", "unreachable", "s1", "")]
    assert watched.all_hear({name: SWAPPED[name] for name in ("s2", "s3")}) == []
    assert told(watched.observer.take(poll("s1", 30))) == [("ended", "unreachable", "s1", "")]
    assert told(watched.all_hear(AS_PLANNED)) == ENDED


def test_a_switch_that_does_not_answer_is_still_known_at_the_ports_of_others(
    watched: Watched,
) -> None:
    watched.all_hear(AS_PLANNED)
    watched.observer.take(unreachable("s3"))
    now = {**AS_PLANNED["s1"], "t1": ("s3", "l1")}
    (event,) = watched.all_hear({"s1": now})
    assert event.text == "LLDP hears s3/l1 there, the intent has t1/eth0"


def test_the_ports_are_a_metric(watched: Watched) -> None:
    watched.all_hear(SWAPPED)
    registry = CollectorRegistry()
    registry.register(metrics.Network(watched.observer.snapshot))
    for port in ("t1", "t2"):
        line = f'tsn_condition{{kind="cabling",port="{port}",switch="s1"}} 1.0'
        assert line in generate_latest(registry).decode().splitlines()


@contextmanager
def followed(name: str = "s1") -> Iterator[queue.SimpleQueue[Observation]]:
    """What is reported of a switch that is asked for its state ten times a second."""
    reported: queue.SimpleQueue[Observation] = queue.SimpleQueue()
    follower = Follower(
        NETWORK.managed[name],
        ["s2"],
        connect=ConnectOptions(Path(os.devnull), Path(os.devnull), 30.0),
        interval_s=0.1,
        report=reported.put,
    )
    follower.start()
    try:
        yield reported
    finally:
        follower.stop()
        follower.join(60)


@pytest.fixture
def switches(monkeypatch: pytest.MonkeyPatch) -> LyingSwitches:
    return lying(monkeypatch)


def kinds(reported: queue.SimpleQueue[Observation], count: int) -> list[type[Observation]]:
    return [type(reported.get(timeout=60)) for _ in range(count)]


def test_a_switch_is_asked_for_its_neighbours_at_the_start_and_then_once_in_a_while(
    switches: LyingSwitches, monkeypatch: pytest.MonkeyPatch
) -> None:
    with followed() as reported:
        assert kinds(reported, 6) == [Poll, Neighbors, Poll, Poll, Poll, Poll]
    monkeypatch.setattr(following, "NEIGHBORS_INTERVAL_S", 0.0)
    with followed() as reported:
        assert kinds(reported, 6) == [Poll, Neighbors] * 3


def test_a_switch_that_tells_no_neighbours_goes_on_to_be_watched(
    switches: LyingSwitches, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Subscription) -> TopologyReport:
        raise DeviceError("s1", "unexpected reply to get: an interface without a name")

    monkeypatch.setattr(Subscription, "topology", refused)
    with followed() as reported:
        assert kinds(reported, 3) == [Poll] * 3


def test_a_session_that_ends_meanwhile_is_told_as_any_other(
    switches: LyingSwitches, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hangs(session: Subscription) -> TopologyReport:
        session.abandon()
        raise DeviceError("s1", "no answer to get in time")

    monkeypatch.setattr(Subscription, "topology", hangs)
    with followed() as reported:
        assert kinds(reported, 1) == [Poll]
        assert reported.get(timeout=60).reason == "s1: no answer to get in time"


def test_why_a_session_has_ended_before_is_not_hidden_by_a_request(
    switches: LyingSwitches,
) -> None:
    options = ConnectOptions(Path(os.devnull), Path(os.devnull), 30.0)
    session = Subscription(
        NETWORK.managed["s1"], options, on_received=lambda *_: None, on_end=lambda _: None
    )
    assert session.topology_if_told()
    session.abandon()
    assert session.topology_if_told() is None
