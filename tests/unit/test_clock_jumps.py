"""A clock that somebody sets while a schedule runs, or waits for its start."""

from __future__ import annotations

from contextlib import closing

import pytest

from agent.datastore.changes import SETTLE_MIN_S, Changes
from agent.datastore.open_change import Request
from agent.datastore.watch import Watch
from agent.events import ClockStep
from agent.mechanisms.gates.history import first_cycle_ns
from agent.mechanisms.gates.model import GateEntry, GateSchedule
from agent.model import Clock
from tests.stack.recording_kernel import RecordingKernel, port
from tests.stack.sysrepo_client import NOW_NS, entry, gated

CONFIGURED = {"ietf-interfaces:interfaces": {"interface": [gated("p1")]}}
QUARTERS = (entry(0, 0b10, 250_000), entry(1, 0b01, 750_000))
S = 10**9
HOUR = 3600 * S
# By how much CLOCK_REALTIME and CLOCK_TAI move: the TAI offset is set without a step of UTC.
JUMPS = {
    "1 s back": (-S, -S),
    "1 s ahead": (S, S),
    "1 h back": (-HOUR, -HOUR),
    "1 h ahead": (HOUR, HOUR),
    "TAI offset lost": (0, -37 * S),
    "TAI offset set": (0, 37 * S),
}


@pytest.fixture
def kernel():
    return RecordingKernel(port("p1"), now_ns=NOW_NS)


@pytest.fixture
def changes(kernel):
    serving = Changes(kernel, lambda: CONFIGURED)
    serving.reconcile(CONFIGURED)
    kernel.log.clear()
    return serving


@pytest.fixture
def events():
    return []


@pytest.fixture
def look(kernel, changes, events):
    """Looks at the switch; nothing else wakes the watch."""
    with closing(Watch(kernel, changes, events.append)) as watch:
        yield watch._poll


def jump(kernel, jumped):
    realtime_ns, tai_ns = JUMPS[jumped]
    kernel.offsets_ns[Clock.REALTIME] += realtime_ns
    kernel.offsets_ns[Clock.TAI] += tai_ns
    kernel.time_ns += tai_ns


@pytest.mark.parametrize("jumped", JUMPS)
def test_a_jump_is_told_once_and_a_schedule_starts_again_if_it_would_stand_still(
    jumped, kernel, look, events
):
    _, tai_ns = JUMPS[jumped]
    jump(kernel, jumped)
    look()
    look()
    assert events == [ClockStep(37, tai_ns)]
    assert kernel.log == (["restart p1"] if tai_ns < 0 else [])


def test_a_clock_that_jumps_there_and_back_is_told_twice(kernel, look, events):
    for jumped in ("1 h ahead", "1 h back"):
        jump(kernel, jumped)
        look()
    assert [event.step_ns for event in events] == [HOUR, -HOUR]
    assert kernel.log == ["restart p1"]


@pytest.mark.parametrize("jumped", JUMPS)
def test_after_any_jump_a_list_takes_over_at_a_whole_number_of_cycles(jumped):
    """So that it is in phase with the switches whose clocks are right, once this one is, too."""
    cycle_ns = 1_500_000
    schedule = GateSchedule(NOW_NS, cycle_ns, (GateEntry(1, cycle_ns),))
    now_ns = NOW_NS + JUMPS[jumped][1]
    taken_over_ns = first_cycle_ns(schedule, now_ns)
    assert (taken_over_ns - schedule.base_time_ns) % cycle_ns == 0
    assert taken_over_ns >= max(now_ns, schedule.base_time_ns)


@pytest.mark.parametrize("jumped", JUMPS)
def test_an_unfinished_change_is_taken_back_within_its_time_whatever_the_clock_said(
    jumped, kernel, changes, monkeypatch
):
    """The timer itself is monotonic; only how long it is depends on the clock of the base time."""
    kernel.log.clear()
    started = []
    monkeypatch.setattr(changes, "_start_timer", lambda _, patience_s: started.append(patience_s))
    jump(kernel, jumped)
    soon_s = NOW_NS // S + 8
    port_soon = gated("p1", QUARTERS, base_time_s=soon_s)
    changes.change(
        Request("ietf-interfaces", 1), {"ietf-interfaces:interfaces": {"interface": [port_soon]}}
    )
    (patience_s,) = started
    assert SETTLE_MIN_S <= patience_s <= changes._settle_timeout_s
    changes.abort(Request("ietf-interfaces", 1))
    assert kernel.log == ["apply p1", "undo p1"]
