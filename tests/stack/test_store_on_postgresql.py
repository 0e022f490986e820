"""The store of a service, and the core on it, in a PostgreSQL: what holds with files holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc.rollout.history import DATABASE
from tests.unit.test_service_core import (  # noqa: F401
    test_a_cuc_goes_with_all_its_streams,
    test_a_decision_whose_asker_goes_is_made_and_rolled_out_all_the_same,
    test_a_failed_rollout_leaves_the_stream_planned_with_the_reason_and_is_tried_again,
    test_a_put_stream_is_there_after_a_restart_and_in_its_place,
    test_a_rollout_that_is_on_its_way_ends_before_the_service_does,
    test_a_stream_that_changes_has_its_new_place_or_keeps_its_old_one,
    test_an_operator_puts_another_intent_and_the_streams_of_cucs_stay,
    test_documents_are_there,
    test_every_change_is_in_the_audit_log_with_who_and_its_rollout,
    test_nothing_is_accepted_while_the_store_cannot_be_written,
    test_what_was_decided_and_not_rolled_out_is_rolled_out_after_a_restart,
    test_who_decides_by_what_is_not_any_more_is_refused,
    test_who_follows_gets_what_was_and_what_comes_of_its_own,
)
from tests.unit.test_service_once import (  # noqa: F401
    test_a_repeated_request_with_the_same_key_is_done_once,
    test_what_was_refused_is_not_placed_when_a_copy_of_it_comes_late,
    test_what_was_there_already_is_not_put_again_when_a_copy_comes_late,
)
from tests.unit.test_service_store import (  # noqa: F401
    store,
    test_a_decision_writes_what_it_changed_and_the_plan_is_what_was_decided,
    test_a_plan_comes_back_as_it_was,
    test_nothing_of_a_decision_that_fails_is_kept,
    test_what_switches_run_is_news_once_and_what_came_later_is_not_yet,
)


@pytest.fixture
def tmp_path(tmp_path: Path, database: str) -> Path:
    """The state directory of a service whose state is in a database."""
    (tmp_path / DATABASE).write_text(database)
    return tmp_path
