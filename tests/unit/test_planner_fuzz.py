"""A few of the random networks of `planner_fuzz`, among them each that once showed a fault."""

from __future__ import annotations

import pytest

from tests.unit.planner_fuzz import first_faults, kept_plan, live_plans, single_plan, ticked_plan


@pytest.mark.parametrize("seed", [*range(1, 9), 47, 92, 116])
def test_a_plan_by_the_default_algorithm_is_sound(seed: int) -> None:
    assert first_faults(single_plan(seed)) == []


@pytest.mark.parametrize("seed", [56, 493, 541, 603])
def test_a_plan_around_kept_streams_is_sound(seed: int) -> None:
    assert first_faults(kept_plan(seed)) == []


@pytest.mark.parametrize("seed", [1, 2, 3, 83, 103, 144, 176])
def test_a_live_plan_stays_sound_event_by_event(seed: int) -> None:
    assert first_faults(live_plans(seed)) == []


@pytest.mark.parametrize("seed", [*range(1, 9), 56])
def test_ports_that_count_in_ticks_carry_what_has_a_place_with_two_ticks_of_slack(
    seed: int,
) -> None:
    assert first_faults(ticked_plan(seed)) == []
