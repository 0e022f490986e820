"""Computed step responses, which frames are drawn as lost, and figures of curves."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.loops.model import Accepted, Loops
from cnc.testbed.experiments.step_responses.figures import (
    NOTHING,
    Cell,
    Lost,
    Measured,
    computed,
    draw,
    has_settled,
    order_disagreements,
    over,
)
from cnc.testbed.experiments.step_responses.impairment import Impairment
from cnc.testbed.experiments.step_responses.sheets import grid
from cnc.testbed.experiments.step_responses.tuning import Gains
from cnc.testbed.traffic.loop import run
from cnc.testbed.traffic.loop.response import step_responses
from cnc.testbed.traffic.loop.run import Curve, Period

LOOP = intents.load(Path(__file__).parents[2] / "schedules" / "touch.yaml")[Loops].by_name["press"]
MS = 1_000_000


def gains(kp: str, ki: str) -> Gains:
    return Gains(Decimal(kp), Decimal(ki))


# --- the recursion -------------------------------------------------------------------------------


def test_an_integral_part_alone_closes_the_same_share_of_the_error_in_each_period():
    outputs = computed(gains("0", "150").of(LOOP))
    share = 0.5 * 150 * 0.001  # of the plant's gain, in a period
    expected = [1 - (1 - share) ** n for n in range(LOOP.periods)]
    assert outputs == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_over_a_network_that_loses_nothing_it_is_the_curve_that_the_lab_compares_with():
    for round_trip_ns in (0, 5 * MS, 20 * MS):
        loop = over(LOOP, round_trip_ns)
        assert computed(loop) == run.undisturbed(loop)


@pytest.mark.parametrize(
    ("round_trip_ms", "overshoot"), [(0, 0.0), (5, 0.0), (10, 0.206), (20, 0.956)]
)
def test_a_longer_round_trip_makes_more_overshoot(round_trip_ms: int, overshoot: float):
    loop = over(LOOP, round_trip_ms * MS)
    (found,) = step_responses(computed(loop), loop)
    assert found.overshoot == pytest.approx(overshoot, abs=5e-4)


def test_nothing_is_felt_of_a_step_before_its_round_trip_is_over():
    outputs = computed(over(LOOP, 10 * MS))
    assert outputs[:11] == [0.0] * 11
    assert outputs[11] == pytest.approx(0.5 * (0.2 + 0.15))


def test_what_is_lost_is_held_on_both_ways():
    lost = Lost(samples=frozenset({0, 3}), commands=frozenset({1, 4}))
    outputs = computed(replace(LOOP, duration_ns=7 * MS), lost)
    y, felt, pushed, integral, expected = 0.0, 0.0, 0.0, 0.0, []
    for n in range(7):
        expected.append(y)
        felt = felt if n in lost.samples else y
        integral += 150 * 0.001 * (1 - felt)
        pushed = pushed if n in lost.commands else 0.2 * (1 - felt) + integral
        y = 0.5 * pushed
    assert outputs == pytest.approx(expected, rel=1e-12)
    assert outputs[2] == outputs[1]  # command 1 never came


# --- the draw ------------------------------------------------------------------------------------


def test_a_seed_draws_the_same_frames_and_another_one_others():
    one, again, other = (draw(400, 30, seed) for seed in (1, 1, 2))
    assert one == again
    assert one != other
    assert one.samples != one.commands
    for its in (one.samples, one.commands, other.samples, other.commands):
        assert 90 <= len(its) <= 150  # 120 of 400, and three standard deviations


def test_what_is_lost_at_one_percentage_is_lost_at_every_greater_one():
    for fewer, more in pairwise(draw(400, percent, 7) for percent in (0, 10, 30, 99)):
        assert fewer.samples < more.samples
        assert fewer.commands < more.commands
    assert draw(400, 0, 7) == draw(400, 50, None) == NOTHING


def test_frames_are_dropped_by_their_number_and_the_others_delayed():
    found = Impairment("r", "eth0", 4, 2_500_000, {3, 65_538})
    drop = (
        "filter add dev eth0 egress prio 1 protocol ip u32 match u16 0x138e 0xffff at 22 "
        "match u16 {} 0xffff at 30 match u16 {} 0xffff at 32 action drop"
    )
    assert [*found.commands()] == [
        "qdisc add dev eth0 root netem limit 100000 delay 2500.0us",
        "qdisc add dev eth0 clsact",
        drop.format("0x0000", "0x0003"),
        drop.format("0x0001", "0x0002"),
    ]
    assert [*found.removal()] == ["qdisc del dev eth0 root", "qdisc del dev eth0 clsact"]
    of_version_6 = [*replace(found, ip_version=6, lost={1}).commands()][-1]
    assert "protocol ipv6" in of_version_6
    assert "0x138e 0xffff at 42 match u16 0x0000 0xffff at 50" in of_version_6
    untouched = replace(found, delay_ns=0, lost=())
    assert [*untouched.commands(), *untouched.removal()] == []


# --- figures -----------------------------------------------------------------------------------


def cell(round_trip_ns: int, outputs: list[float]) -> Cell:
    loop = replace(LOOP, duration_ns=len(outputs) * MS)
    periods = [
        Period(n, n * MS, output, n * MS, n, n * MS, 0.0, n, n) for n, output in enumerate(outputs)
    ]
    curve = Curve(loop, periods)
    return Cell(round_trip_ns, 0, [Measured(round_trip_ns, 0, None, curve, NOTHING, outputs)])


def test_an_overshoot_that_falls_with_the_round_trip_is_told():
    more, less, running_away = [0, 1.3, 1, 1], [0, 1.2, 1, 1], [0, 1.4, 1, 0.5]
    assert order_disagreements([cell(0, less), cell(5 * MS, more)]) == []
    assert order_disagreements([cell(0, more), cell(5 * MS, less)]) == [
        "round trip 5 ms: overshoot 20.0 %, less than 30.0 % at 0 ns"
    ]
    assert order_disagreements([cell(0, running_away), cell(5 * MS, less)]) == []


@pytest.mark.parametrize(
    ("last", "settled"), [([1.0, 1.0], True), ([1.3, 1.0], False), ([1.0, 1.3], False)]
)
def test_a_curve_that_only_passes_by_at_its_end_has_not_settled(last: list[float], settled: bool):
    loop = replace(LOOP, duration_ns=8 * MS)
    (response,) = step_responses([0, 1.3, 1, 1.3, 1, 1.3, *last], loop)
    assert has_settled(response, loop) is settled


def test_a_row_has_the_spread_of_all_seeds_and_a_dash_for_what_never_came():
    never, soon = cell(0, [0, 0.5, 0.5, 0.5]), cell(0, [0, 1.2, 1, 1])
    both = Cell(0, 30, [*soon.curves, *never.curves])
    (row,) = grid([both], Accepted(overshoot_percent=10)).rows
    dash = "\N{EN DASH}"
    its = [f"1 … {dash}", "0.0 … 20.0", f"2 … {dash}", "1.20 … 2.50"]
    assert row == ["0", "30", "1 of 2", *its, "0", "0", "yes"]
