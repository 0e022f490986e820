"""When control classes send more than the plan allows for, and when they do not."""

from __future__ import annotations

import pytest

from cnc.data_tree.tree import ClassTraffic
from cnc.mechanisms.gates.control_traffic import ControlTraffic
from cnc.mechanisms.second_look import second_look
from cnc.model import ClassRole
from tests.unit.places import changed
from tests.unit.watched_switches import PLAN, poll

(CONTROL,) = (each.number for each in PLAN.intent.classes_with(ClassRole.CONTROL))
OCTETS = 124  # of a frame of 128 without its FCS: 148 on the wire
# A tenth of 1 Gb/s is 12.5 MB a second: so many frames of 148 octets on the wire.
IN_A_SECOND = 12_500_000 // 148


@pytest.fixture
def control() -> ControlTraffic:
    return ControlTraffic(PLAN.intent, "s2")


def state(after_s, frames, *, octets=OCTETS, number=CONTROL, **reported):
    """What s2 answers; its port s3 has sent frames of one class."""
    sent = None if octets is None else frames * octets
    traffic = {number: ClassTraffic(frames, 0, sent)}

    def ports(reports):
        return {**reports, "s3": changed(reports["s3"], traffic=traffic, **reported)}

    return poll("s2", after_s, ports=ports).state


def test_control_within_its_rate_is_as_planned(control):
    assert control.update(state(0, 0)) == {}
    assert control.update(state(10, 10 * IN_A_SECOND)) == {}


def test_control_beyond_its_rate_is_told_with_both_rates(control):
    control.update(state(0, 0))
    assert control.update(state(10, 20 * IN_A_SECOND)) == {
        "s3": "control classes sent 199.999 Mb/s in 10 s, the plan allows for 100 Mb/s: scheduled "
        "frames behind it may be late"
    }
    assert control.update(state(20, 21 * IN_A_SECOND)) == {}


def test_a_burst_may_come_beside_the_rate(control):
    burst = PLAN.intent.control_burst_octets() // 148
    control.update(state(0, 0))
    assert control.update(state(1, IN_A_SECOND + burst)) == {}
    # Behind a frame of best effort it waits for, at most 16 octets more come: no frame.
    assert control.update(state(2, 2 * IN_A_SECOND + 3 * burst + 2))


@pytest.mark.parametrize(
    "before",
    [
        pytest.param({"frames": 10**9}, id="the counters began again"),
        pytest.param({"frames": 0, "number": 0}, id="another class"),
        pytest.param({"frames": 0, "octets": None}, id="no octets are reported"),
    ],
)
def test_what_cannot_be_compared_is_not_judged(control, before):
    control.update(state(0, **before))
    assert control.update(state(1, 10 * IN_A_SECOND)) == {}


@pytest.mark.parametrize(("seconds", "wait_s"), [(0.5, 0), (2, 2)])
def test_a_second_look_is_taken_where_more_was_sent_than_since_the_list_began(
    control, seconds, wait_s
):
    """Most of it may have been sent before: the counters are older than the list."""
    control.update(state(0, round(seconds * IN_A_SECOND), current_time_ns=10**9))
    assert control.next_poll_s == wait_s


def test_a_look_that_finds_a_flood_looks_again_and_tells(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _s: None)
    first = state(0, 2 * IN_A_SECOND, current_time_ns=10**9)
    later = state(2, 6 * IN_A_SECOND, current_time_ns=3 * 10**9)
    found = second_look("s2", lambda _ports: later, first, PLAN.intent)
    ((trouble,),) = found.values()
    assert trouble.text.startswith("control-rate: control classes sent 199.999 Mb/s in 2 s")
    assert "`rate`" in trouble.followed.hint
