"""When one gate control list takes over from another (802.1Q 8.6.9), as the kernel does it."""

from __future__ import annotations

import pytest
from pyroute2 import IPRoute

from agent.mechanisms.gates import taprio
from agent.mechanisms.gates.model import GateState
from agent.model import Clock
from tests.kernel.test_taprio_gates import CYCLES, closed_ns
from tests.stack.recording_kernel import configured

HOUR_NS = 3600 * 10**9
MS = 1_000_000
LONG = (0x1, 300 * MS), (0x3, 200 * MS)
LONG_OTHER = (0x3, 400 * MS), (0x1, 100 * MS)
CYCLE_NS = 500 * MS
# Its first and last states are the same: see the test of a restart.
WINDOW = (0x1, 200_000), (0x2, 200_000), (0x1, 600_000)


@pytest.fixture
def apply(kernel):
    return lambda taprio: kernel.apply({"p1": configured("p1", taprio)})


@pytest.fixture
def takeover(kernel, eventually):
    """The instants between which a schedule took over (TAI ns)."""

    def watch(schedule):
        last_waiting_ns = 0

        def runs():
            nonlocal last_waiting_ns
            before_ns = kernel.ports.now_ns(Clock.TAI)
            if kernel.read()["p1"][GateState].running == schedule:
                return True
            last_waiting_ns = before_ns
            return False

        eventually(runs)
        return last_waiting_ns, kernel.ports.now_ns(Clock.TAI)

    return watch


def next_start_ns(base_time_ns, now_ns):
    return base_time_ns + ((now_ns - base_time_ns) // CYCLE_NS + 1) * CYCLE_NS


@pytest.mark.virtual_time
def test_a_base_time_long_past_starts_at_the_next_whole_cycle(kernel, two_classes, apply, takeover):
    late = two_classes(*LONG, base_time_ns=7 * MS)
    start_ns = next_start_ns(7 * MS, kernel.ports.now_ns(Clock.TAI))
    apply(late)
    assert kernel.read()["p1"][GateState].pending == late.schedule
    waiting_ns, running_ns = takeover(late.schedule)
    assert waiting_ns < start_ns <= running_ns


@pytest.mark.virtual_time
def test_with_a_list_running_too_it_starts_at_the_next_whole_cycle(
    kernel, two_classes, apply, takeover, eventually
):
    """6.12 changes over when the old list's last entry begins, so that may be one entry early."""
    first, second = two_classes(*LONG), two_classes(*LONG_OTHER)
    apply(first)
    takeover(first.schedule)
    start_ns = next_start_ns(0, kernel.ports.now_ns(Clock.TAI))
    apply(second)
    state = kernel.read()["p1"]
    assert (state[GateState].running, state[GateState].pending) == (first.schedule, second.schedule)
    waiting_ns, running_ns = takeover(second.schedule)
    assert waiting_ns < start_ns
    assert running_ns >= start_ns - first.schedule.entries[-1].interval_ns


@pytest.mark.virtual_time
def test_the_gates_move_on_through_a_restart_at_a_whole_cycle(
    kernel, two_classes, apply, eventually, send_both_classes
):
    """Half of the traffic meets the old list, half the new one."""
    first = two_classes(*WINDOW)
    apply(first)
    eventually(lambda: kernel.read()["p1"][GateState].running == first.schedule)
    cycle_ns = first.schedule.cycle_time_ns
    middle_ns = (kernel.ports.now_ns(Clock.TAI) // cycle_ns + CYCLES // 2) * cycle_ns
    second = two_classes(*WINDOW, base_time_ns=middle_ns)
    ifindex = kernel.read()["p1"].ifindex
    with IPRoute(ext_ack=True) as ipr:
        taprio.change(ipr, "p1", ifindex, first, second)
    assert kernel.read()["p1"][GateState].pending == second.schedule
    traffic = send_both_classes(CYCLES, cycle_ns)
    assert kernel.read()["p1"][GateState].running == second.schedule
    assert len(traffic.frames) == traffic.sent
    assert max(closed_ns(frame, first.schedule) for frame in traffic.frames) < 1000


def test_a_waiting_list_gives_way_to_another_before_it_starts(kernel, two_classes, apply, takeover):
    now_ns = kernel.ports.now_ns(Clock.TAI)
    first = two_classes(*LONG)
    apply(first)
    takeover(first.schedule)
    never = two_classes(*LONG_OTHER, base_time_ns=now_ns + HOUR_NS)
    instead = two_classes(*LONG, base_time_ns=now_ns + 4 * CYCLE_NS)
    apply(never)
    apply(instead)
    state = kernel.read()["p1"]
    assert (state[GateState].running, state[GateState].pending) == (
        first.schedule,
        instead.schedule,
    )
    takeover(instead.schedule)
    assert kernel.read()["p1"][GateState].pending is None


def test_a_waiting_list_is_withdrawn_by_asking_for_the_running_one(
    kernel, two_classes, apply, takeover, eventually
):
    first = two_classes(*LONG)
    apply(first)
    takeover(first.schedule)
    later_ns = kernel.ports.now_ns(Clock.TAI) + HOUR_NS
    apply(two_classes(*LONG_OTHER, base_time_ns=later_ns))
    apply(first)
    assert kernel.read()["p1"][GateState].running == first.schedule
    eventually(lambda: kernel.read()["p1"][GateState].pending is None)
    assert kernel.read()["p1"][GateState].running == first.schedule


def test_a_waiting_list_goes_with_the_gates(kernel, two_classes, apply):
    later_ns = kernel.ports.now_ns(Clock.TAI) + HOUR_NS
    apply(two_classes(*LONG, base_time_ns=later_ns))
    kernel.apply({})
    state = kernel.read()["p1"]
    assert (state[GateState].taprio, state[GateState].running, state[GateState].pending) == (
        None,
        None,
        None,
    )
