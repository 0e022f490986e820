"""Which schedules stand still after a link went down or a clock was set, and which do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.mechanisms.gates.model import GateEntry, GateSchedule, Taprio, TaprioMode
from agent.model import Clock, OperStatus
from agent.run_context import STEP_MIN_NS, RunContext, assumed_context, run_context, stalled_ports
from agent.traffic_classes import QueueRange
from tests.stack.recording_kernel import altered, port

SCHEDULE = GateSchedule(0, 1_000_000, (GateEntry(1, 1_000_000),))
TAPRIO = Taprio((0,) * 16, (QueueRange(1, 0),), TaprioMode.SOFTWARE, Clock.TAI, SCHEDULE)
RUNNING = altered(port("p1"), taprio=TAPRIO, running=SCHEDULE, carrier_losses=4)
OFFSETS_NS = {Clock.TAI: 37_000_000_000, Clock.REALTIME: 0}
SECOND_NS = 10**9


def later(before, state, **moved_ns):
    """The run_context after clocks moved ahead, with the port as it is then."""
    offsets_ns = {clock: ns + moved_ns.get(clock, 0) for clock, ns in OFFSETS_NS.items()}
    states = {"p1": state} if state else {}
    return run_context(["p1"], states, offsets_ns, before)


@pytest.fixture
def before():
    return later(RunContext(), RUNNING)


def still(before, state=RUNNING, **moved_ns):
    return stalled_ports({"p1": state}, before, later(before, state, **moved_ns))


def test_nothing_stands_still_while_nothing_happens(before):
    assert still(before) == []


def test_what_nobody_has_seen_before_is_taken_to_run():
    assert still(RunContext()) == []


def test_a_clock_set_back_stops_the_schedules_on_it(before):
    assert still(before, tai=-SECOND_NS) == ["p1"]
    assert still(before, realtime=-SECOND_NS) == []


def test_a_clock_set_ahead_is_caught_up_by_the_kernel(before):
    assert still(before, tai=SECOND_NS) == []


def test_a_list_that_waits_for_its_first_base_time_only_waits_longer(before):
    waiting = altered(RUNNING, running=None, pending=SCHEDULE)
    assert still(before, waiting, tai=-SECOND_NS) == []


def test_a_lost_link_stops_the_schedule_once_it_is_back(before):
    gone = replace(RUNNING, oper_status=OperStatus.LOWER_LAYER_DOWN, carrier_losses=5)
    assert still(before, gone) == []
    back = replace(gone, oper_status=OperStatus.UP)
    assert still(later(before, gone), back) == ["p1"]
    assert still(later(later(before, gone), back), back) == []


def down(state):
    return replace(state, oper_status=OperStatus.DOWN)


def test_a_list_that_was_set_before_the_first_link_is_left_to_move():
    booted = later(later(RunContext(), down(RUNNING)), down(RUNNING))
    assert still(booted) == []
    flapped = replace(RUNNING, carrier_losses=RUNNING.carrier_losses + 1)
    assert still(booted, flapped) == ["p1"]


def test_a_port_that_was_taken_down_is_set_anew_also_if_no_loss_was_counted(before):
    assert still(later(before, down(RUNNING))) == ["p1"]
    assert still(later(later(before, down(RUNNING)), down(RUNNING))) == ["p1"]


def test_a_list_of_unknown_past_is_set_anew_at_the_next_link():
    states = {"p1": down(RUNNING), "p2": replace(RUNNING, name="p2")}
    before = later(assumed_context(states), down(RUNNING))
    assert still(before) == ["p1"]
    assert still(assumed_context({"p1": RUNNING})) == []


def test_a_loss_too_short_to_be_seen_is_known_by_the_kernels_count(before):
    assert still(before, replace(RUNNING, carrier_losses=5)) == ["p1"]


def test_an_interface_that_went_and_came_back_is_set_anew(before):
    assert still(later(before, None)) == ["p1"]


def test_a_driver_that_does_not_tell_of_its_link_counts_as_up(before):
    untold = replace(RUNNING, oper_status=OperStatus.UNKNOWN, carrier_losses=5)
    assert still(before, untold) == ["p1"]


@pytest.mark.parametrize(
    "state",
    [
        altered(RUNNING, taprio=None, running=None, carrier_losses=5),
        altered(RUNNING, taprio=replace(TAPRIO, mode=TaprioMode.FULL_OFFLOAD), carrier_losses=5),
    ],
    ids=["no gates", "gates of the hardware"],
)
def test_gates_that_no_timer_of_the_kernel_moves_are_left_alone(before, state):
    assert still(before, state, tai=-SECOND_NS) == []


def test_reading_errors_are_no_steps_and_do_not_add_up(before):
    seen = before
    for _ in range(3):
        now = later(seen, RUNNING, tai=STEP_MIN_NS - 1)
        assert seen.steps_ns(now) == {}
        seen = now
    assert seen.clock_offsets_ns == OFFSETS_NS


def test_a_step_is_told_once(before):
    stepped = later(before, RUNNING, tai=STEP_MIN_NS)
    assert before.steps_ns(stepped) == {Clock.TAI: STEP_MIN_NS}
    assert stepped.steps_ns(later(stepped, RUNNING, tai=STEP_MIN_NS)) == {}
