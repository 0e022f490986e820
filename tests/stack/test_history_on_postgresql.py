"""The history of rollouts in a PostgreSQL: what holds with a file holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc.rollout.history import DATABASE
from tests.unit.test_history_store import (  # noqa: F401
    history,
    test_a_history_knows_its_rollouts_by_the_id_on_the_switches,
    test_a_journal_that_is_closed_early_leaves_its_rollout_to_be_finished,
    test_a_killed_controller_leaves_its_rollout_to_be_finished,
    test_a_number_that_there_is_not_is_bad_input,
    test_a_result_of_a_switch_that_is_not_in_the_rollout_is_refused,
    test_a_rollout_can_be_kept_without_a_plan,
    test_a_rollout_ends_in_one_of_the_phases_that_are_an_end,
    test_a_rollout_that_has_begun_is_there_for_the_next_controller,
    test_a_rollout_that_has_ended_cannot_be_reopened,
    test_controllers_that_begin_at_once_each_get_a_number_of_their_own,
    test_every_step_of_a_rollout_can_be_read_as_soon_as_it_is_written,
    test_of_a_service_the_plans_of_its_newest_rollouts_are_kept,
    test_results_can_be_written_by_many_threads_at_once,
    test_rollouts_come_newest_first_and_can_be_chosen,
    test_times_are_kept_in_utc_whatever_zone_they_came_in,
    test_unfinished_are_those_that_touch_one_of_the_switches,
)


@pytest.fixture
def path(tmp_path: Path, database: str) -> Path:
    """A name in the state directory of a service whose state is in a database."""
    (tmp_path / DATABASE).write_text(database)
    return tmp_path / "any"
