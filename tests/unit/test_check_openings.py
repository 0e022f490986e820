"""The judge's tables of a gate control list say what a look at every nanosecond says."""

from __future__ import annotations

from math import lcm

from hypothesis import assume, given
from hypothesis import strategies as st

from cnc.account.openings import GateCycle
from cnc.model import GateControlList, GateEntry

BEST_EFFORT, SLOW, FAST = 0, 1, 2
CONTROL = 3  # not gated: no gate need be shut for it
GUARD_NS = 3

lists = st.lists(
    st.builds(GateEntry, st.integers(0, 2**4 - 1), st.integers(1, 5)), min_size=1, max_size=8
).map(lambda entries: GateControlList(sum(e.interval_ns for e in entries), tuple(entries)))
classes = st.sampled_from([BEST_EFFORT, SLOW, FAST])
times = st.integers(-20, 60)
periods = st.integers(1, 30)


def tables(gates: GateControlList) -> GateCycle:
    return GateCycle(gates, gated=0b0111, best_effort=1 << BEST_EFFORT, guard_ns=GUARD_NS)


class EveryNanosecond:
    """The states of the gates, one after the other."""

    def __init__(self, gates: GateControlList) -> None:
        self._states = [e.gate_states for e in gates.entries for _ in range(e.interval_ns)]

    def is_open(self, number: int, time_ns: int) -> bool:
        return bool(self._states[time_ns % len(self._states)] >> number & 1)

    def is_ever_shut(self, number: int) -> bool:
        return not all(self.is_open(number, time) for time in range(len(self._states)))

    def any_open(self, number: int, start_ns: int, end_ns: int) -> bool:
        return any(self.is_open(number, time) for time in range(start_ns, end_ns))

    def is_alone(self, number: int, time_ns: int) -> bool:
        return [c for c in (BEST_EFFORT, SLOW, FAST) if self.is_open(c, time_ns)] == [number]

    def is_clear(self, number: int, start_ns: int, end_ns: int) -> bool:
        """Whether no other is open then, and best effort was not for the guard time before."""
        if not all(self.is_alone(number, time) for time in range(start_ns, end_ns)):
            return False
        since = start_ns
        while self.is_alone(number, since - 1):
            since -= 1
        return not self.any_open(BEST_EFFORT, since - GUARD_NS, since)


@given(lists, classes, times, st.integers(0, 60))
def test_open_time_is_counted(
    gates: GateControlList, number: int, start: int, duration: int
) -> None:
    every = EveryNanosecond(gates)
    expected = sum(every.is_open(number, start + k) for k in range(duration))
    assert tables(gates).open_ns(number, start, start + duration) == expected


@given(lists, classes, times, st.integers(0, 40), periods)
def test_the_earliest_start_is_the_first_open_moment_of_any_period(
    gates: GateControlList, number: int, earliest: int, wait: int, period: int
) -> None:
    every = EveryNanosecond(gates)
    planned = earliest + wait
    shifts = range(0, lcm(gates.cycle_ns, period), period)
    expected = next(
        (
            time
            for time in range(earliest, planned)
            if any(every.is_open(number, time + shift) for shift in shifts)
        ),
        planned,
    )
    found = tables(gates).gate(number).earliest_start_ns(earliest, planned, period)
    assert found == expected


@given(lists, classes, times, st.integers(1, 12), periods)
def test_a_frame_is_beyond_doubt_where_its_gate_is_open_alone_after_its_guard_time(
    gates: GateControlList, number: int, offset: int, duration: int, period: int
) -> None:
    every = EveryNanosecond(gates)
    assume(every.is_ever_shut(number))
    assume(number != BEST_EFFORT)
    shifts = range(0, lcm(gates.cycle_ns, period), period)
    expected = [
        shift
        for shift in shifts
        if not every.is_clear(number, offset + shift, offset + shift + duration)
    ]
    assert list(tables(gates).gate(number).doubtful(offset, duration, period)) == expected


@given(lists, classes)
def test_runs_last_from_one_shut_moment_to_the_next(gates: GateControlList, number: int) -> None:
    every = EveryNanosecond(gates)
    assume(every.is_ever_shut(number))
    shut = next(time for time in range(gates.cycle_ns) if not every.is_open(number, time))
    states = "".join(
        "1" if every.is_open(number, time) else " " for time in range(shut, shut + gates.cycle_ns)
    )
    bit = 1 << number
    assert list(tables(gates).runs_ns(bit, bit)) == [len(run) for run in states.split()]
