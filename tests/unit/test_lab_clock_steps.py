"""How a lab of kernels has its nodes' clocks set."""

from __future__ import annotations

import math

import pytest

from cnc.model import NS_PER_S
from cnc.testbed.intent.lab_model import ClockStep
from cnc.testbed.lab.kernels.steps import command


def test_a_program_waits_for_each_step_from_the_one_before():
    steps = [
        ClockStep(0, 1_000),
        ClockStep(10 * NS_PER_S, -NS_PER_S),
        ClockStep(12_500_000_000, 1_000_000),
    ]
    assert command(steps) == [
        *("phc_ctl", "-q", "CLOCK_REALTIME", "--"),
        *("adj", "0.0000010005"),
        *("wait", "10.0000000005", "adj", "-1.0000000005"),
        *("wait", "2.5000000005", "adj", "0.0010000005"),
    ]


@pytest.mark.parametrize("by_ns", [1, 10, 1_001, 999_999_999, NS_PER_S, 1_000 * NS_PER_S - 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_step_is_exact_to_the_nanosecond_as_a_double_of_which_the_rest_is_cut_off(
    by_ns: int, sign: int
):
    """As phc_ctl reads it: seconds as a double, times 10^9, to a whole number (phc_ctl.c)."""
    *_, seconds = command([ClockStep(0, sign * by_ns)])
    assert math.trunc(float(seconds) * 1e9) == sign * by_ns
