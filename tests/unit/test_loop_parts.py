"""Plants against the solutions of their equations, controllers, and figures of step responses."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc import intent as intents
from cnc.loops.model import Accepted, Loops
from cnc.testbed.traffic.loop import run
from cnc.testbed.traffic.loop.parts import (
    ACT,
    SAMPLE,
    FirstOrderPlant,
    Pi,
    SecondOrderPlant,
    controller_of,
    events,
    reference_at,
)
from cnc.testbed.traffic.loop.response import StepResponse, step_response, step_responses

LOOP = intents.load(Path(__file__).parents[2] / "schedules" / "loop.yaml")[Loops].by_name["axis"]
MS = 1_000_000


def test_a_plant_of_order_1_goes_63_percent_of_a_step_in_its_time_constant():
    plant = FirstOrderPlant(gain=2.0, time_constant_ns=5 * MS)
    plant.advance(5 * MS, command=1.5)
    assert plant.output == pytest.approx(3 * (1 - math.exp(-1)), rel=1e-15)


@pytest.mark.parametrize("damping", [0.0, 0.2, 0.999, 1.0, 1.5, 40.0])
def test_a_plant_of_order_2_answers_a_step_as_its_equation_says(damping: float):
    plant, omega = SecondOrderPlant(1.0, 2 * MS, damping), 500.0
    for n in range(1, 40):
        plant.advance(MS // 2, command=1.0)
        t = n * 0.0005
        decay = math.exp(-damping * omega * t)
        if damping < 1:
            root = omega * math.sqrt(1 - damping**2)
            mixed = math.cos(root * t) + damping * omega / root * math.sin(root * t)
            expected = 1 - decay * mixed
        elif damping == 1:
            expected = 1 - decay * (1 + omega * t)
        else:
            root = math.sqrt(damping**2 - 1)
            slow, fast = omega * (root - damping), omega * (-root - damping)
            expected = 1 + (fast * math.exp(slow * t) - slow * math.exp(fast * t)) / (slow - fast)
        assert plant.output == pytest.approx(expected, abs=1e-11)


def test_the_first_peak_of_a_plant_that_oscillates_is_where_and_as_high_as_in_the_textbook():
    damping = 0.4
    plant = SecondOrderPlant(1.0, MS, damping)
    peak_ns = round(math.pi * MS / math.sqrt(1 - damping**2))
    plant.advance(peak_ns, command=1.0)
    overshoot = math.exp(-math.pi * damping / math.sqrt(1 - damping**2))
    assert plant.output - 1 == pytest.approx(overshoot, abs=1e-9)
    assert plant.rate == pytest.approx(0, abs=1)  # of up to 1,000 a second


@given(
    damping=st.floats(0, 5),
    cuts=st.lists(st.integers(1, 3 * MS), min_size=1, max_size=8),
    command=st.floats(-5, 5),
)
def test_a_plant_is_where_it_is_however_its_time_is_cut(
    damping: float, cuts: list[int], command: float
):
    whole, cut = (SecondOrderPlant(1.0, MS, damping, output=0.3, rate=-200.0) for _ in range(2))
    whole.advance(sum(cuts), command)
    for duration_ns in cuts:
        cut.advance(duration_ns, command)
    assert cut.output == pytest.approx(whole.output, abs=1e-6)
    assert cut.rate == pytest.approx(whole.rate, abs=1e-3)


def test_nothing_overflows_where_a_plant_is_slow_and_time_is_long():
    plant = SecondOrderPlant(1.0, 1_000, damping=1_000.0)
    plant.advance(3_600_000 * MS, command=1.0)
    assert plant.output == pytest.approx(1)


def test_a_pi_controller_adds_up_the_error():
    controller = Pi(kp=2.0, ki_per_s=100.0, period_ns=MS)
    assert [controller(1.0, sample) for sample in (0.0, 0.5, 1.5)] == pytest.approx(
        [2.1, 1.15, -0.9]
    )


def test_where_the_command_is_cut_the_integral_stands():
    controller = Pi(kp=0.0, ki_per_s=1_000.0, period_ns=MS, limit=2.0)
    assert [controller(1.0, 0.0) for _ in range(5)] == [1, 2, 2, 2, 2]
    assert controller(0.0, 1.0) == 1  # at once, not after three periods


def test_a_controller_of_the_operator_is_called_with_the_period(tmp_path: Path):
    (tmp_path / "loop_of_mine.py").write_text(
        "def make(period_s):\n    return lambda reference, sample: reference - sample + period_s\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.path", ["/"])
        controller = controller_of({"function": "loop_of_mine:make"}, 2 * MS, str(tmp_path))
    assert controller(1.0, 0.25) == 0.752


def test_a_command_acts_at_its_deadline_and_a_sample_of_that_instant_comes_first():
    assert [*events(2, period_ns=10, deadline_ns=3)] == [
        (0, SAMPLE, 0),
        (3, ACT, 0),
        (10, SAMPLE, 1),
        (13, ACT, 1),
    ]
    assert [*events(3, period_ns=10, deadline_ns=10)][1:3] == [(10, SAMPLE, 1), (10, ACT, 0)]


def test_the_reference_goes_up_and_back():
    stepping = {"reference": "2.5", "periods_a_step": 2}
    assert [reference_at(n, stepping) for n in range(6)] == [2.5, 2.5, 0, 0, 2.5, 2.5]


def test_a_loop_over_a_network_that_is_in_time_is_the_recursion_of_its_equations():
    short = replace(LOOP, duration_ns=20 * MS)
    outputs = run.undisturbed(short)
    kept, fast = (math.exp(-part / 5) for part in (0.25, 0.75))  # of 1 ms, in parts of 5 ms
    y, u, integral, expected = 0.0, 0.0, 0.0, []
    for _ in range(20):
        expected.append(y)
        integral += 250 * (1 - y) * 0.001
        answer = (1 - y) + integral
        y = u + (y - u) * kept
        u = answer
        y = u + (y - u) * fast
    assert outputs == pytest.approx(expected, rel=1e-12)


# --- figures -------------------------------------------------------------------------------------


def test_figures_of_a_step():
    outputs = [0, 1, 1.7, 1.9, 2.3, 2.02, 1.98, 2, 2, 2]
    assert step_response(outputs, 0, 2, MS) == StepResponse(
        rise_time_ns=3 * MS,
        overshoot=pytest.approx(0.15),
        settling_time_ns=5 * MS,
        absolute_error_s=pytest.approx(0.00187),
    )


def test_a_step_back_has_figures_of_its_own():
    both = replace(LOOP, duration_ns=4 * MS, steps=2)
    there, back = step_responses([0, 0.5, 1, 1, 1, 0.5, 0, 0], both)
    assert there == back


def test_an_output_that_never_comes_so_far_has_no_rise_time():
    found = step_response([0.0, 0.5, 0.6], 0, 1, MS)
    assert (found.rise_time_ns, found.settling_time_ns, found.overshoot) == (None, None, 0)
    beyond = step_response([0.0, 5.0, math.inf], 0, 1, MS)
    assert beyond == StepResponse(None, None, None, None)


def test_a_response_is_good_within_what_the_operator_accepts():
    found = step_response([0, 0.95, 1.1, 1, 1], 0, 1, MS)
    assert found.is_good(Accepted(rise_time_ns=MS, overshoot_percent=11))
    assert not found.is_good(Accepted(rise_time_ns=MS - 1))
    assert not found.is_good(Accepted(overshoot_percent=9))
    assert not step_response([math.nan], 0, 1, MS).is_good(Accepted(overshoot_percent=9))
