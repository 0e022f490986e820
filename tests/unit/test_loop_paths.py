"""Drives against a fine integration of their equation, arms, paths, and the figures of a path."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc.errors import InputError
from cnc.loops.model import Accepted, Loop
from cnc.loops.paths import Circle, Line, Ramp, Sine
from cnc.testbed.traffic.loop import axes, run
from cnc.testbed.traffic.loop.parts import Drive, controller_of
from cnc.testbed.traffic.loop.path_error import PathError, path_error
from tests.unit.loop_curves import ARM, BELT, LOOP, curve

MS = 1_000_000
US = 1_000
HERE = (Decimal("0.45"), Decimal("0.1"))


class Integrated:
    """A drive whose equation is integrated in steps of 10 µs (Runge-Kutta, fourth order)."""

    def __init__(self, speed: float, time_constant_s: float, output: float = 0.0) -> None:
        self.speed, self.time_constant_s = speed, time_constant_s
        self.output, self.rate = output, 0.0

    def advance(self, duration_ns: int, command: float) -> None:
        steps = -(-duration_ns // (10 * US))
        h = duration_ns / 1e9 / steps if steps else 0.0

        def slope(rate: float) -> tuple[float, float]:
            return rate, (self.speed * command - rate) / self.time_constant_s

        for _ in range(steps):
            one = slope(self.rate)
            two = slope(self.rate + h / 2 * one[1])
            three = slope(self.rate + h / 2 * two[1])
            four = slope(self.rate + h * three[1])
            mean = [
                (a + 2 * b + 2 * c + d) / 6
                for a, b, c, d in zip(one, two, three, four, strict=True)
            ]
            self.output += h * mean[0]
            self.rate += h * mean[1]


# --- drives --------------------------------------------------------------------------------------


def test_a_belt_is_where_a_fine_integration_of_its_equation_has_it():
    exact, fine = Drive(0.8, 20 * MS), Integrated(0.8, 0.02)
    for duration_ns, command in ((MS, 1.0), (7 * MS, -2.5), (123 * US, 0.0), (40 * MS, 0.3)):
        exact.advance(duration_ns, command)
        fine.advance(duration_ns, command)
        assert exact.output == pytest.approx(fine.output, abs=1e-12)
        assert exact.rate == pytest.approx(fine.rate, abs=1e-12)


def test_a_belt_at_a_steady_command_lags_by_its_time_constant():
    belt = Drive(0.5, 20 * MS)
    belt.advance(1_000 * MS, command=1.0)
    assert belt.rate == pytest.approx(0.5)
    assert belt.output == pytest.approx(0.5 * (1 - 0.02))


def test_a_slow_belt_keeps_its_digits_in_a_short_time():
    belt = Drive(1.0, 3_600_000 * MS)
    belt.advance(1, command=1.0)
    assert belt.rate == pytest.approx(1e-9 / 3_600, rel=1e-12, abs=0)


@given(
    cuts=st.lists(st.integers(0, 30 * MS), min_size=1, max_size=8),
    command=st.floats(-5, 5),
)
def test_a_belt_is_where_it_is_however_its_time_is_cut(cuts: list[int], command: float):
    whole, cut = (Drive(0.8, 5 * MS, output=0.2, rate=-1.5) for _ in range(2))
    whole.advance(sum(cuts), command)
    for duration_ns in cuts:
        cut.advance(duration_ns, command)
    assert cut.output == pytest.approx(whole.output, abs=1e-11)
    assert cut.rate == pytest.approx(whole.rate, abs=1e-11)


# --- arms ----------------------------------------------------------------------------------------


@given(away=st.floats(0.1, 0.7), direction=st.floats(-math.pi, math.pi))
def test_the_angles_of_a_place_put_the_tip_there(away: float, direction: float):
    place = (away * math.cos(direction), away * math.sin(direction))
    assert ARM.tip(ARM.angles(place)) == pytest.approx(place, abs=1e-12)


@given(shoulder=st.floats(-3.1, 3.1), elbow=st.floats(0.001, 3.14))
def test_the_place_of_a_tip_gives_its_angles_back(shoulder: float, elbow: float):
    assert ARM.angles(ARM.tip((shoulder, elbow))) == pytest.approx((shoulder, elbow), abs=1e-9)


def test_an_arm_reaches_from_the_difference_of_its_links_to_their_sum():
    assert ARM.reach_m == pytest.approx((0.1, 0.7))
    assert ARM.angles((0.0, 0.7)) == pytest.approx((math.pi / 2, 0), abs=1e-7)
    assert ARM.angles((0.1, 0.0)) == pytest.approx((0, math.pi), abs=1e-7)
    assert ARM.tip((0.0, math.pi / 2)) == pytest.approx((0.4, 0.3))


# --- paths ---------------------------------------------------------------------------------------


def test_paths_are_where_their_names_say():
    assert Ramp(Decimal(-2)).at(25, 100) == (-0.5,)
    assert Sine(Decimal(3), 400).at(100, 1) == Sine(Decimal(3), 400).at(500, 1) == (3.0,)
    circle = Circle(HERE, Decimal("0.1"), 400)
    assert circle.at(0, 1) == pytest.approx((0.55, 0.1))
    assert circle.at(100, 1) == pytest.approx((0.45, 0.2))
    line = Line((Decimal(0), Decimal(1)), (Decimal(2), Decimal(0)))
    assert [line.at(n, 2) for n in range(3)] == [(0, 1), (1, 0.5), (2, 0)]


def test_a_line_begins_and_ends_at_rest():
    line = Line((Decimal(0), Decimal(0)), (Decimal(1), Decimal(0)))
    x = [line.at(n, 1_000)[0] for n in range(1_001)]
    speeds = [(after - before) * 1_000 for before, after in pairwise(x)]
    assert (speeds[0], speeds[-1]) == pytest.approx((0, 0), abs=1e-5)
    assert max(speeds) == pytest.approx(1.875, abs=1e-5)  # of the mean: 15/8


@pytest.mark.parametrize(
    ("begin", "end", "distances"),
    [
        ((3, 1), (3, -4), (3, 5)),  # past the shoulder
        ((3, 4), (6, 8), (5, 10)),  # away from it
        ((6, 8), (3, 4), (5, 10)),
    ],
)
def test_a_line_knows_how_near_and_how_far_it_comes(begin: Any, end: Any, distances: Any):
    begin, end = (tuple(map(Decimal, place)) for place in (begin, end))
    assert Line(begin, end).distances_m == pytest.approx(distances)


def test_a_circle_knows_how_near_and_how_far_it_comes():
    around = Circle((Decimal("0.3"), Decimal("0.4")), Decimal("0.6"), MS)
    assert around.distances_m == pytest.approx((0.1, 1.1))


def test_the_references_of_an_arm_lead_its_tip_along_the_path():
    wanted = axes.planned(LOOP)
    angles = axes.references(LOOP)["references"]
    assert len(wanted) == LOOP.periods == 500
    assert [*map(ARM.tip, angles)] == [pytest.approx(place, abs=1e-12) for place in wanted]
    assert axes.resting(LOOP) == angles[0]


def test_a_shoulder_goes_on_where_a_path_leads_around_it():
    around = Circle((Decimal(0), Decimal(0)), Decimal("0.5"), 500 * MS)
    shoulders = [each for each, _ in axes.references(replace(LOOP, path=around))["references"]]
    steps = [after - before for before, after in pairwise(shoulders)]
    assert steps == [pytest.approx(2 * math.pi / 500)] * 499


# --- loops ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", [BELT, replace(LOOP, duration_ns=60 * MS)], ids=["belt", "arm"])
def test_an_undisturbed_path_is_that_of_a_fine_integration(loop: Loop):
    found = run.undisturbed_axes(loop)
    assert found
    plants = axes.controlled(loop, "")["plants"]
    for axis, plant, outputs in zip(range(2), plants, found, strict=False):
        fine = Integrated(
            float(plant["speed_per_s"]), plant["time_constant_ns"] / 1e9, plant["resting"]
        )
        pi = controller_of(axes.numbers(loop.controller), loop.period_ns, "")
        wanted = [each[axis] for each in axes.references(loop)["references"]]
        command = before = 0.0
        for n, output in enumerate(outputs):
            fine.advance(0 if n == 0 else loop.period_ns - loop.deadline_ns, command)
            assert fine.output == pytest.approx(output, abs=1e-11)
            before, command = command, pi(wanted[n], fine.output)
            fine.advance(loop.deadline_ns, before)


def test_a_step_response_is_refused_of_a_loop_that_follows_a_path():
    with pytest.raises(InputError, match="loop tip follows a path, and has no step response"):
        run.undisturbed(LOOP)


def test_a_path_that_is_met_has_no_error():
    exact = curve(LOOP, axes.references(LOOP)["references"])
    assert path_error(LOOP, exact.axes) == PathError(
        pytest.approx(0, abs=1e-12), pytest.approx(0, abs=1e-12)
    )
    assert path_error(replace(LOOP, path=None), exact.axes) is None


def test_a_path_error_is_the_distance_at_each_sample():
    short = replace(BELT, path=Ramp(Decimal(4)), duration_ns=4 * MS)
    error = path_error(short, [[0, 1, 2, 2.9]])
    assert error == PathError(pytest.approx(0.05), pytest.approx(0.1))
    one_off = [(x + 3, y - 4) for x, y in axes.planned(LOOP)]
    two_numbers = replace(LOOP, plant=BELT.plant)  # whose outputs are not angles
    assert path_error(two_numbers, [*zip(*one_off, strict=True)]) == PathError(
        pytest.approx(5), pytest.approx(5)
    )


@pytest.mark.parametrize("beyond", [math.inf, math.nan])
def test_an_output_beyond_all_numbers_has_no_path_error(beyond: float):
    points = [*axes.references(LOOP)["references"]]
    points[7] = (beyond, 0.0)
    found = path_error(LOOP, curve(LOOP, points).axes)
    assert found == PathError(None, None)
    assert not found.is_good(Accepted(path_error=Decimal(1)))


def test_a_path_is_well_followed_within_what_the_operator_accepts():
    found = PathError(0.1, 0.25)
    assert found.is_good(Accepted(path_error=Decimal("0.25")))
    assert not found.is_good(Accepted(path_error=Decimal("0.249")))
    assert found.is_good(Accepted())
