"""The search for PI gains whose curves tell round-trip times apart."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.loops.model import Loop, Loops, PiController
from cnc.testbed.experiments import description
from cnc.testbed.experiments.step_responses.figures import (
    computed,
    over,
)
from cnc.testbed.experiments.step_responses.tuning import (
    Comparison,
    Gains,
    compare,
    search,
    separation_s,
)

LOOP = intents.load(Path(__file__).parents[2] / "schedules" / "touch.yaml")[Loops].by_name["press"]
MS = 1_000_000


def gains(kp: str, ki: str) -> Gains:
    return Gains(Decimal(kp), Decimal(ki))


UNIT = (Decimal(0), Decimal(2)), (Decimal(0), Decimal(400))


def hill(at_kp: float, at_ki: float):
    def height(its: Gains) -> float:
        return -((float(its.kp) - at_kp) ** 2) - ((float(its.ki_per_s) - at_ki) / 200) ** 2

    return height


@pytest.mark.parametrize("top", [(1.2345, 77.7), (0.0, 400.0), (2.0, 0.0), (1.99, 399.0)])
def test_the_search_finds_a_maximum_within_its_ranges(top: tuple[float, float]):
    found = search(hill(*top), *UNIT)
    assert found.gains is not None
    assert float(found.gains.kp) == pytest.approx(top[0], abs=2 / 16 / 8**3)
    assert float(found.gains.ki_per_s) == pytest.approx(top[1], abs=400 / 16 / 8**3)
    assert len(found.surface) == 17**2
    assert found == search(hill(*top), *UNIT)


def test_the_search_stays_where_gains_are_allowed():
    def allowed_below_1(its: Gains) -> float | None:
        return float(its.kp) if its.kp < 1 else None

    found = search(allowed_below_1, *UNIT)
    assert found.gains is not None
    assert Decimal("0.999") < found.gains.kp < 1
    assert found.gains.ki_per_s == 0  # of equal ones the least
    assert found.surface[gains("1", "0")] is None
    nothing = search(lambda _: None, *UNIT)
    assert (nothing.gains, nothing.separation_s) == (None, None)
    assert len(nothing.surface) == 17**2


def test_the_two_curves_that_are_least_apart_count():
    both = [
        separation_s(LOOP, gains("0.2", "150"), pair) for pair in ([0, 5 * MS], [5 * MS, 10 * MS])
    ]
    of_three = separation_s(LOOP, gains("0.2", "150"), [0, 5 * MS, 10 * MS])
    assert None not in both
    assert of_three == min(filter(None, both))
    one, other = (computed(over(LOOP, round_trip_ns)) for round_trip_ns in (0, 5 * MS))
    by_hand = sum(abs(y - z) for y, z in zip(one, other, strict=True)) / 1000
    assert both[0] == pytest.approx(by_hand)


def test_the_separation_is_in_parts_of_the_step():
    tenfold = replace(LOOP, reference=Decimal(-10))
    both = (separation_s(its, gains("0.2", "150"), [0, 5 * MS]) for its in (LOOP, tenfold))
    assert next(both) == pytest.approx(next(both))


def test_gains_whose_curves_run_away_or_are_not_good_are_not_allowed():
    assert separation_s(LOOP, gains("0.2", "150"), [0, 20 * MS]) is None
    assert separation_s(LOOP, gains("0.2", "150"), [0, 10 * MS]) is not None
    # At 10 ms it overshoots by 20.6 %, and 20 % are accepted.
    assert separation_s(LOOP, gains("0.2", "150"), [10 * MS, 11 * MS]) is None
    # Within 40 ms and without overshoot, but after 82 % it is at 22, and at 73 again.
    assert separation_s(LOOP, gains("1.5", "150"), [0, 5 * MS]) is None


def test_the_gains_that_are_found_separate_the_curves_more_than_those_of_the_loop():
    found = compared(LOOP, 120 * MS, tuning("0.1", "0.9", "75", "235"))
    assert found.found is not None
    assert found.own.separation_s is not None
    assert found.found.separation_s > found.own.separation_s
    assert found.disagreement() is None
    better_own = replace(found, own=replace(found.own, separation_s=1.0))
    assert better_own.disagreement() == "tuning: the gains of the loop separate its curves more"
    elsewhere = replace(better_own, tune=tuning("0.5", "0.9", "75", "235"))
    assert elsewhere.disagreement() is None


def tuning(kp: str, to_kp: str, ki: str, to_ki: str) -> description.Tuning:
    return description.Tuning.model_validate(
        {
            "kp": {"from": float(kp), "to": float(to_kp)},
            "ki": {"from": float(ki), "to": float(to_ki)},
            "round-trips": ["0ms", "5ms"],
        }
    )


def compared(loop: Loop, duration_ns: int, tune: description.Tuning) -> Comparison:
    assert isinstance(loop.controller, PiController)
    return compare(replace(loop, duration_ns=duration_ns), loop.controller, tune)


def test_a_search_in_vain_is_told():
    found = compared(LOOP, 20 * MS, tuning("0", "0.1", "0", "1"))
    assert found.found is None
    assert found.disagreement() == (
        "tuning: with no gains of the first grid the curve at 0 ns is good and steady, and all "
        "curves settle"
    )
    assert found.document()["found"] is None
