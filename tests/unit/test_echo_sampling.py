"""When echo commands are enough: the confidence interval, and the rule that ends sampling."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc.testbed.traffic.echo.sampling import Sample, Sampling

MS = 1_000_000


def sample_of(values_ns: list[int]) -> Sample:
    sample = Sample()
    for value_ns in values_ns:
        sample.add(value_ns)
    return sample


@given(st.lists(st.integers(-(10**9), 10**12), min_size=2, max_size=50))
def test_the_interval_is_that_of_the_textbook(values_ns: list[int]):
    sample = sample_of(values_ns)
    standard_error = statistics.stdev(values_ns) / math.sqrt(len(values_ns))
    assert sample.mean_ns == pytest.approx(statistics.mean(values_ns))
    assert sample.margin_ns == pytest.approx(1.959964 * standard_error, rel=1e-6)


def test_nineteen_of_twenty_intervals_have_the_true_mean_in_them():
    chance = random.Random(1)  # noqa: S311  repeatable, not a secret
    hits = 0
    for _ in range(2_000):
        sample = sample_of([round(chance.gauss(MS, MS / 4)) for _ in range(100)])
        hits += abs(sample.mean_ns - MS) <= sample.margin_ns
    assert hits / 2_000 == pytest.approx(0.95, abs=0.015)


def test_one_value_says_nothing_of_the_mean():
    assert sample_of([MS]).margin_ns == math.inf
    assert not sample_of([MS]).is_precise
    assert not Sample().is_precise


def test_an_interval_is_precise_within_a_twentieth_of_the_mean_whatever_its_sign():
    # Two values d off the mean to either side have a standard error of d.
    assert sample_of([1_000_000 - 25_500, 1_000_000 + 25_500]).is_precise  # 49,979
    assert not sample_of([1_000_000 - 25_520, 1_000_000 + 25_520]).is_precise  # 50,018
    assert sample_of([-1_000_000 - 25_500, -1_000_000 + 25_500]).is_precise


def test_equal_rounds_end_at_the_least_number():
    sampling = Sampling(points=3, least=30, most=100)
    while not sampling.is_over:
        sampling.add([MS, 2 * MS, 4 * MS])
    assert (sampling.rounds, sampling.is_precise) == (30, True)
    assert [each.mean_ns for each in sampling.points] == [MS, 2 * MS, 4 * MS]
    assert [each.mean_ns for each in sampling.differences] == [MS, 2 * MS]


def test_sampling_goes_on_until_the_last_difference_is_precise():
    sampling = Sampling(points=3, least=30, most=10_000)
    while not sampling.is_over:
        off_ns = MS // 2 if sampling.asked % 2 else -MS // 2
        sampling.add([MS, 2 * MS, 3 * MS + off_ns])
    # The standard error is half of the difference over the root of N.
    assert sampling.rounds == pytest.approx((1.96 * 0.5 / 0.05) ** 2, abs=2)
    assert all(each.is_precise for each in sampling.differences)


def test_what_all_points_have_in_common_is_in_no_difference():
    sampling = Sampling(points=2, least=30, most=100)
    for n in range(30):
        sampling.add([MS + n * MS, 2 * MS + n * MS])  # the machine slows down all the while
    assert sampling.differences[0].mean_ns == MS
    assert sampling.differences[0].margin_ns == 0
    assert not sampling.points[0].is_precise
    assert sampling.is_precise


def test_the_greatest_number_ends_what_is_not_precise():
    sampling = Sampling(points=2, least=30, most=100)
    while not sampling.is_over:
        sampling.add([MS, 2 * MS if sampling.asked % 2 else 100 * MS])
    assert (sampling.asked, sampling.is_precise) == (100, False)


def test_a_round_with_a_lost_echo_counts_towards_the_most_and_towards_nothing_else():
    sampling = Sampling(points=2, least=2, most=4)
    sampling.add([MS, 2 * MS])
    sampling.add([MS, None])
    assert (sampling.asked, sampling.rounds, sampling.is_over) == (2, 1, False)
    sampling.add([None, None])
    sampling.add([None, 2 * MS])
    assert (sampling.rounds, sampling.is_precise, sampling.is_over) == (1, False, True)
