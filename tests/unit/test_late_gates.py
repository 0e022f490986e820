"""Lists whose gates open late, of the lab's tests: late by no more than asked, and shut on time."""

from __future__ import annotations

from itertools import accumulate
from random import Random

import pytest

from agent.mechanisms.gates.model import GateEntry, GateSchedule
from tests.kernel.late_gates import LONGEST_LIST, SHORTEST_NS, LateSchedule, late_schedule

LATE_NS = 50_000
# Gates that stay open from one entry to the next, and ones that open together.
STATES = (0x81, 0x80, 0xC0, 0xA0, 0x80, 0xC1)
LONG = (300_000, 62_338, 115_000, 69_169, 104_331, 349_162)
# Windows that are shorter than gates may be late; the last one begins again with the cycle.
SHORT = (300_000, 1_094, 22_000, 9_169, 104_331, 563_406)


def schedule(intervals_ns: tuple[int, ...], base_time_ns: int = 7) -> GateSchedule:
    entries = tuple(map(GateEntry, STATES, intervals_ns))
    return GateSchedule(base_time_ns, sum(intervals_ns), entries)


def late(intervals_ns: tuple[int, ...], late_ns: int = LATE_NS, seed: int = 1) -> LateSchedule:
    random = Random(seed)  # noqa: S311  not a secret
    return late_schedule(schedule(intervals_ns), late_ns, random, 10**9)


def open_times(entries: tuple[GateEntry, ...], gate: int) -> list[tuple[int, int]]:
    """From when to when a gate is open, from the begin of the list to its end."""
    edges = [0, *accumulate(entry.interval_ns for entry in entries)]
    found: list[tuple[int, int]] = []
    for begin, end, entry in zip(edges, edges[1:], entries, strict=False):
        if not entry.gate_states >> gate & 1:
            continue
        goes_on = found and found[-1][1] == begin
        found.append((found.pop()[0] if goes_on else begin, end))
    return found


def planned_and_late(intervals_ns: tuple[int, ...], gate: int) -> tuple[list[tuple[int, int]], ...]:
    """When a gate is open by the list, in as many cycles, and when by the one that is late."""
    punctual, found = schedule(intervals_ns), late(intervals_ns).schedule
    cycles = found.cycle_time_ns // punctual.cycle_time_ns
    return open_times(punctual.entries * cycles, gate), open_times(found.entries, gate)


@pytest.mark.parametrize("gate", [0, 5, 6])
def test_a_gate_opens_late_by_another_time_in_each_cycle_and_shuts_when_the_list_says(gate: int):
    planned, found = planned_and_late(LONG, gate)
    assert [end for _, end in found] == [end for _, end in planned]
    lateness_ns = [begin - due for (begin, _), (due, _) in zip(found, planned, strict=True)]
    later_ns = lateness_ns[1:]  # the first may begin with the list
    assert 0 <= min(later_ns) < 0.05 * LATE_NS
    assert 0.95 * LATE_NS < max(later_ns) <= LATE_NS
    assert 0.45 * LATE_NS < sum(later_ns) / len(later_ns) < 0.55 * LATE_NS


def test_a_gate_that_is_always_open_stays_open():
    found = late(LONG).schedule
    assert open_times(found.entries, 7) == [(0, found.cycle_time_ns)]


@pytest.mark.parametrize("gate", [5, 6])
def test_a_window_that_is_over_when_its_timer_runs_is_left_out(gate: int):
    planned, found = planned_and_late(SHORT, gate)
    assert 0 < len(found) < len(planned)
    for begin, end in found:
        assert any(due <= begin <= due + LATE_NS and end == shut for due, shut in planned)


@pytest.mark.parametrize("intervals_ns", [LONG, SHORT])
@pytest.mark.parametrize("late_ns", [0, LATE_NS, 3 * LATE_NS])
def test_the_kernel_can_take_the_list_and_runs_it_in_step(
    intervals_ns: tuple[int, ...], late_ns: int
):
    punctual, found = schedule(intervals_ns), late(intervals_ns, late_ns).schedule
    assert len(found.entries) <= LONGEST_LIST
    assert min(entry.interval_ns for entry in found.entries) >= SHORTEST_NS
    assert sum(entry.interval_ns for entry in found.entries) == found.cycle_time_ns < 2**31
    assert 0 <= found.base_time_ns - 10**9 < punctual.cycle_time_ns
    assert (found.base_time_ns - punctual.base_time_ns) % punctual.cycle_time_ns == 0


def test_a_seed_draws_the_same_list_again():
    assert late(LONG) == late(LONG)
    assert late(LONG) != late(LONG, seed=2)
    assert max(late(LONG).openings_ns) <= LATE_NS
