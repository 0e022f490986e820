"""A circle tells what is free as looking at every nanosecond of all periods would."""

from __future__ import annotations

from math import lcm

from hypothesis import given
from hypothesis import strategies as st

from cnc.planner.circle import Circle
from tests.unit.planner_networks import examples

LENGTHS = (6, 8, 9, 12, 24)
COMMON = lcm(*LENGTHS)

Reservation = tuple[int, int, int]  # start, duration, period
reservations = st.tuples(st.integers(0, 40), st.integers(1, 6), st.sampled_from(LENGTHS))
lengths = st.sampled_from(LENGTHS)
anywhere = st.integers(0, 60)


def instants(start: int, duration: int, period: int) -> set[int]:
    """Every nanosecond of the common period that is taken."""
    return {(start + i + k) % COMMON for k in range(0, COMMON, period) for i in range(duration)}


def taken_by(reserved: list[Reservation]) -> set[int]:
    return {instant for reservation in reserved for instant in instants(*reservation)}


def busy_phases(reserved: list[Reservation], length: int) -> set[int]:
    return {instant % length for instant in taken_by(reserved)}


@examples(max_examples=300)
@given(st.lists(reservations, max_size=6), lengths, anywhere, st.integers(1, 8))
def test_the_delay_is_the_least_after_which_a_frame_meets_nobody_in_any_period(
    reserved: list[Reservation], length: int, start: int, duration: int
) -> None:
    taken = taken_by(reserved)
    free = [
        delay
        for delay in range(length)
        if duration <= length and not taken & instants(start + delay, duration, length)
    ]
    expected = free[0] if free else None
    assert Circle(length, reserved).delay(start, duration) == expected


@examples(max_examples=300)
@given(st.lists(reservations, max_size=8), lengths)
def test_reservations_added_one_by_one_make_the_circle_that_is_built_at_once(
    reserved: list[Reservation], length: int
) -> None:
    grown = Circle(length, ())
    for reservation in reserved:
        grown.add(*reservation)
    built = Circle(length, reserved)
    assert (grown.starts, grown.ends) == (built.starts, built.ends)


@examples(max_examples=200)
@given(st.lists(reservations, max_size=8), lengths)
def test_intervals_are_disjoint_in_order_and_cover_what_is_busy(
    reserved: list[Reservation], length: int
) -> None:
    circle = Circle(length, reserved)
    edges = [edge for pair in zip(circle.starts, circle.ends, strict=True) for edge in pair]
    assert edges == sorted(set(edges))
    covered = {
        phase
        for start, end in zip(circle.starts, circle.ends, strict=True)
        for phase in range(start, end)
    }
    assert covered == busy_phases(reserved, length)


@examples(max_examples=300)
@given(st.lists(reservations, max_size=6), lengths, anywhere)
def test_a_gap_reaches_to_the_next_busy_interval_and_to_its_end(
    reserved: list[Reservation], length: int, instant: int
) -> None:
    busy = busy_phases(reserved, length)

    def busy_until(phase: int) -> int:
        """The end of a busy interval; those over the end of the circle are two."""
        return next(end for end in range(phase, length + 1) if end == length or end not in busy)

    phase = instant % length
    ahead = [step for step in range(length) if (phase + step) % length in busy]
    if not ahead:
        expected = 0, length, length
    elif ahead[0] == 0:
        expected = (busy_until(phase) - phase,) * 3
    else:
        start = (phase + ahead[0]) % length
        expected = 0, ahead[0], ahead[0] + busy_until(start) - start
    assert Circle(length, reserved).gap(instant) == expected


def test_a_frame_as_long_as_its_period_fits_only_where_nobody_is() -> None:
    assert Circle(10, []).delay(3, 10) == 0
    assert Circle(10, [(4, 1, 10)]).delay(3, 10) is None
    assert Circle(10, [(4, 1, 10)]).delay(3, 9) == 2


def test_periods_that_do_not_divide_each_other_meet_at_their_greatest_common_divisor() -> None:
    """A frame every 6 ns seen every 4 ns: each odd or each even nanosecond of 2 is taken."""
    circle = Circle(4, [(1, 1, 6)])
    assert list(zip(circle.starts, circle.ends, strict=True)) == [(1, 2), (3, 4)]
    assert circle.delay(1, 1) == 1
    assert circle.delay(0, 2) is None
