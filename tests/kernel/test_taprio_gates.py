"""Frames against gates: what a closed gate holds back, on an exact clock and on a real one."""

from __future__ import annotations

import statistics

import pytest

from agent.mechanisms.gates.model import GateState
from tests.stack.recording_kernel import configured

CYCLES = 1100


def closed_ns(frame, schedule):
    """How far into a closed window of its class a frame left; 0 when its gate was open."""
    phase_ns = (frame.arrived_ns - schedule.base_time_ns) % schedule.cycle_time_ns
    begin_ns = 0
    for entry in schedule.entries:
        end_ns = begin_ns + entry.interval_ns
        if begin_ns <= phase_ns < end_ns:
            if entry.gate_states >> frame.class_ & 1:
                return 0
            return min(phase_ns - begin_ns, end_ns - phase_ns)
        begin_ns = end_ns
    raise AssertionError("the list is shorter than its cycle")


def run(kernel, taprio, send, eventually):
    kernel.apply({"p1": configured("p1", taprio)})
    eventually(lambda: kernel.read()["p1"][GateState].running == taprio.schedule)
    traffic = send(CYCLES, taprio.schedule.cycle_time_ns)
    assert len(traffic.frames) == traffic.sent
    held = [frame for frame in traffic.frames if frame.arrived_ns - frame.sent_ns > 1000]
    assert {frame.class_ for frame in held} == {0, 1}, "the gates held nothing back"
    return traffic


@pytest.mark.virtual_time
def test_no_frame_leaves_in_a_closed_window_of_its_class(
    kernel, two_classes, send_both_classes, eventually
):
    taprio = two_classes((0x1, 200_000), (0x2, 200_000), (0x1, 600_000))
    traffic = run(kernel, taprio, send_both_classes, eventually)
    assert max(closed_ns(frame, taprio.schedule) for frame in traffic.frames) < 1000


@pytest.mark.virtual_time
def test_a_frame_waits_exactly_until_its_gate_opens(
    kernel, two_classes, send_both_classes, eventually
):
    taprio = two_classes((0x1, 200_000), (0x2, 200_000), (0x1, 600_000))
    for frame in run(kernel, taprio, send_both_classes, eventually).frames:
        phase_ns = frame.sent_ns % 1_000_000
        in_window = 200_000 <= phase_ns < 400_000
        if frame.class_ == 1:
            wait_ns = 0 if in_window else (200_000 - phase_ns) % 1_000_000
        else:
            wait_ns = 400_000 - phase_ns if in_window else 0
        assert frame.arrived_ns - frame.sent_ns == pytest.approx(wait_ns, abs=1000)


@pytest.mark.real_time
def test_frames_leave_in_closed_windows_by_no_more_than_the_wake_up_error(
    kernel, two_classes, send_both_classes, eventually, capsys
):
    """A software gate is as exact as the kernel's timers: 99 % of both are compared."""
    taprio = two_classes((0x1, 2_000_000), (0x2, 2_000_000), (0x1, 6_000_000))
    traffic = run(kernel, taprio, send_both_classes, eventually)
    wakeup_ns = statistics.quantiles(traffic.wakeup_errors_ns, n=100)[-1]
    closed = [closed_ns(frame, taprio.schedule) for frame in traffic.frames]
    gate_ns = statistics.quantiles(closed, n=100)[-1]
    with capsys.disabled():  # the figure belongs into the output of every run
        print(f"\nreal time: 99 % of wake-ups within {wakeup_ns:.0f} ns, of gates {gate_ns:.0f} ns")
    assert gate_ns <= wakeup_ns
