"""The list configuration state machine of IEEE 802.1Q 8.6.9, case by case."""

from __future__ import annotations

import dataclasses

import pytest

from agent.mechanisms.gates.history import GateHistory, first_cycle_ns, history_after
from agent.mechanisms.gates.model import GateEntry, GateSchedule, GateState, Taprio, TaprioMode
from agent.model import Clock
from agent.traffic_classes import QueueRange
from tests.stack.recording_kernel import altered, configured, port

CYCLE_NS = 100
ENTRIES = (GateEntry(1, 60), GateEntry(2, 40))
OTHER_ENTRIES = (GateEntry(2, 60), GateEntry(1, 40))


def taprio(base_time_ns, entries=ENTRIES, clock=Clock.TAI):
    return Taprio(
        priority_map=(0,) * 16,
        queues=(QueueRange(1, 0), QueueRange(1, 1)),
        mode=TaprioMode.SOFTWARE,
        clock=clock,
        schedule=GateSchedule(base_time_ns, CYCLE_NS, entries),
    )


def running(now):
    return altered(port("p1"), taprio=now, running=now.schedule)


def waiting(first, then):
    """The kernel runs `first` (None: nothing yet), and `then` waits for its base time."""
    return altered(port("p1"), taprio=then, running=first and first.schedule, pending=then.schedule)


def after(state, asked, past=None, now_ns=0):
    """What is remembered of p1, a port in `state`, once `asked` is in force."""
    history = {} if past is None else {"p1": past}
    desired = {"p1": configured("p1", asked)}
    return history_after(history, {"p1": state}, desired, lambda _: now_ns).get("p1")


def test_a_base_time_ahead_is_when_the_list_changes_and_no_error():
    asked = taprio(5000, OTHER_ENTRIES)
    assert after(running(taprio(100)), asked, now_ns=1030) == GateHistory(asked.schedule, 5000, 0)


def test_a_base_time_past_is_no_error_for_the_first_list_which_starts_with_its_next_cycle():
    asked = taprio(120)
    assert after(port("p1"), asked, now_ns=1030) == GateHistory(asked.schedule, 1120, 0)


def test_a_base_time_past_is_an_error_while_another_list_runs_and_it_starts_with_its_next_cycle():
    past = GateHistory(taprio(100).schedule, 100, change_errors=4)
    asked = taprio(120, OTHER_ENTRIES)
    changed = after(running(taprio(100)), asked, past, now_ns=1030)
    assert changed == GateHistory(asked.schedule, 1120, change_errors=5)


def test_a_base_time_past_is_no_error_while_the_first_list_still_waits():
    asked = taprio(120, OTHER_ENTRIES)
    assert after(waiting(None, taprio(9000)), asked, now_ns=1030).change_errors == 0


def test_a_waiting_list_is_replaced_by_one_that_starts_at_another_time():
    first, second, third = taprio(100), taprio(9000, OTHER_ENTRIES), taprio(5000, OTHER_ENTRIES)
    past = GateHistory(second.schedule, 9000)
    changed = after(waiting(first, second), third, past, now_ns=1030)
    assert changed == GateHistory(third.schedule, 5000, 0)


def test_a_waiting_list_is_replaced_by_a_late_one_which_is_an_error_while_another_runs():
    first, second = taprio(100), taprio(9000, OTHER_ENTRIES)
    past = GateHistory(second.schedule, 9000)
    changed = after(waiting(first, second), taprio(1000, OTHER_ENTRIES), past, now_ns=1030)
    assert (changed.change_time_ns, changed.change_errors) == (1100, 1)


def test_the_same_list_from_a_later_congruent_base_time_starts_anew_then():
    past = GateHistory(taprio(100).schedule, 100)
    changed = after(running(taprio(100)), taprio(5000), past, now_ns=1030)
    assert changed == GateHistory(taprio(5000).schedule, 5000, 0)


def test_the_same_list_from_a_congruent_base_time_past_is_an_error_like_any_late_list():
    past = GateHistory(taprio(100).schedule, 100)
    changed = after(running(taprio(100)), taprio(900), past, now_ns=1030)
    assert (changed.change_time_ns, changed.change_errors) == (1100, 1)


def test_after_a_congruent_restart_the_same_request_again_changes_nothing():
    past = GateHistory(taprio(900).schedule, 1100, change_errors=1)
    assert after(running(taprio(100)), taprio(900), past, now_ns=7777) == past


def test_asking_once_more_for_what_runs_or_waits_changes_nothing():
    past = GateHistory(taprio(120).schedule, 1120, change_errors=2)
    assert after(running(taprio(120)), taprio(120), past, now_ns=7777) == past
    assert after(waiting(None, taprio(9000)), taprio(9000)).change_time_ns == 9000


def test_a_draft_after_a_congruent_restart_changes_nothing():
    past = GateHistory(taprio(900).schedule, 1100, change_errors=1)
    state = running(taprio(100))
    assert after(state, state[GateState].taprio, past, now_ns=7777) == past


def test_other_classes_are_no_change_of_the_list():
    past = GateHistory(taprio(120).schedule, 1120)
    asked = dataclasses.replace(taprio(120), priority_map=(1,) * 16)
    assert after(running(taprio(120)), asked, past, now_ns=7777) == past


def test_another_clock_starts_the_list_anew():
    past = GateHistory(taprio(120).schedule, 1120)
    asked = taprio(120, clock=Clock.MONOTONIC)
    assert after(running(taprio(120)), asked, past, now_ns=7777).change_time_ns == 7820


def test_a_list_that_runs_already_when_the_agent_starts_changed_at_its_base_time_without_error():
    assert after(running(taprio(100)), taprio(900), now_ns=1030) == GateHistory(
        taprio(900).schedule, 100, 0
    )


def test_closed_gates_keep_their_errors_and_the_next_list_goes_on_counting():
    past = GateHistory(taprio(120).schedule, 1120, change_errors=3)
    disabled = after(running(taprio(120)), None, past)
    assert (disabled.schedule, disabled.change_errors) == (None, 3)
    assert after(port("p1"), taprio(120), disabled, now_ns=1030).change_errors == 3


def test_a_port_without_gates_has_no_history():
    assert after(port("p1"), None) is None


def test_a_history_of_another_list_than_the_kernels_is_not_believed():
    past = GateHistory(taprio(120, OTHER_ENTRIES).schedule, 1120, change_errors=3)
    assert after(running(taprio(100)), taprio(100), past).change_errors == 0
    assert after(running(taprio(100)), None, past) is None


def test_a_history_is_not_believed_while_the_kernel_waits_for_another_base_time_than_its():
    waits = waiting(taprio(100), taprio(9000, OTHER_ENTRIES))
    past = GateHistory(taprio(5000, OTHER_ENTRIES).schedule, 5000, change_errors=3)
    assert after(waits, waits[GateState].taprio, past) == GateHistory(
        waits[GateState].pending, 9000, 0
    )


def test_a_port_that_went_away_is_forgotten():
    past = GateHistory(taprio(120).schedule, 1120)
    assert history_after({"p1": past}, {}, {}, lambda _: 0) == {}


@pytest.mark.parametrize(
    ("now_ns", "first_ns"), [(99, 100), (100, 100), (101, 110), (110, 110), (119, 120)]
)
def test_a_late_schedule_takes_over_at_the_next_cycle(now_ns, first_ns):
    assert first_cycle_ns(GateSchedule(100, 10, (GateEntry(255, 10),)), now_ns) == first_ns
