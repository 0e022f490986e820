"""When a class with a backlog is starved, and when it only waits."""

from __future__ import annotations

import pytest

from cnc.data_tree.tree import ClassTraffic, KernelSchedule
from cnc.mechanisms.gates.starvation import Starvation
from cnc.model import ClassRole, GateControlList, GateEntry
from tests.unit.places import changed
from tests.unit.watched_switches import PLAN, poll

SCHEDULED, BEST_EFFORT = (
    PLAN.intent.classes_with(role)[0].number
    for role in (ClassRole.SCHEDULED, ClassRole.BEST_EFFORT)
)
OPEN_ALWAYS = GateControlList(1_000_000, (GateEntry(0xFF, 1_000_000),))


@pytest.fixture
def starvation() -> Starvation:
    return Starvation(PLAN.intent, "s2")


def state(after_s, sent=7, backlog=1000, number=SCHEDULED, **changes):
    """What s2 answers; its port s3 has sent and holds back frames of one class."""
    traffic = {number: ClassTraffic(sent, backlog)}

    def ports(reports):
        report = changed(reports["s3"], traffic=traffic)
        return {**reports, "s3": changed(report, **changes)}

    return poll("s2", after_s, ports=ports).state


def test_a_backlog_that_has_sent_nothing_for_two_seconds_is_starved(starvation):
    assert starvation.update(state(0)) == {}
    assert starvation.next_poll_s == 2
    assert starvation.update(state(2)) == {
        "s3": f"class {SCHEDULED} has 1000 frames waiting and sent none in 2 s"
    }
    assert "10 s" in starvation.update(state(10))["s3"]


def test_one_frame_is_no_frames(starvation):
    starvation.update(state(0))
    assert "has 1 frame waiting" in starvation.update(state(2, backlog=1))["s3"]


def test_polls_that_are_too_close_say_nothing(starvation):
    starvation.update(state(0))
    assert starvation.update(state(1.99)) == {}
    assert starvation.update(state(2)) != {}


def test_three_cycles_have_to_pass_where_they_are_longer_than_two_seconds(starvation):
    slow = GateControlList(10**9, (GateEntry(1 << SCHEDULED, 10**8), GateEntry(1, 9 * 10**8)))
    schedule = KernelSchedule(0, slow)
    starvation.update(state(0, running=schedule))
    assert starvation.next_poll_s == 3
    assert starvation.update(state(2.9, running=schedule)) == {}
    assert starvation.update(state(3, running=schedule)) != {}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({}, {"sent": 8}, id="a frame was sent"),
        pytest.param({}, {"sent": 0}, id="the counters began again"),
        pytest.param({}, {"backlog": 0}, id="the talker pauses"),
        pytest.param(
            {"running": KernelSchedule(0, GateControlList(10**6, (GateEntry(1, 10**6),)))},
            {},
            id="another list",
        ),
        pytest.param(
            {"pending": KernelSchedule(10**18, OPEN_ALWAYS)}, {}, id="the list was pending"
        ),
        pytest.param({"oper_status": "down"}, {}, id="the link was down"),
    ],
)
def test_a_class_that_was_served_or_could_not_be_is_not_starved_yet(starvation, before, after):
    assert starvation.update(state(0, **before)) == {}
    assert starvation.update(state(2, **after)) == {}


@pytest.mark.parametrize(
    "always",
    [
        pytest.param({"number": BEST_EFFORT}, id="best effort"),
        pytest.param({"running": KernelSchedule(0, OPEN_ALWAYS)}, id="open all the time"),
        pytest.param({"running": None}, id="no list"),
        pytest.param({"running": None, "pending": KernelSchedule(0, OPEN_ALWAYS)}, id="pending"),
        pytest.param({"oper_status": "lower-layer-down"}, id="no link"),
    ],
)
def test_what_is_not_held_back_by_the_schedule_is_not_judged(starvation, always):
    assert starvation.update(state(0, **always)) == {}
    assert starvation.next_poll_s == 0
    assert starvation.update(state(60, **always)) == {}


def test_a_pause_between_two_backlogs_begins_anew(starvation):
    starvation.update(state(0))
    starvation.update(state(1, backlog=0))
    assert starvation.update(state(2)) == {}
    assert starvation.update(state(4)) != {}
