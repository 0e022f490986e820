"""All or nothing where filters and copies change: a sample of `scripts/long fault-matrix-guarded`.

A rollout adds, changes and removes stream filters and sequence functions; a second one removes what
streams with a new address have had. Streams that keep theirs are sent all the while.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.fault.network import Subject
from tests.fault.table import Fault, Recovery, Row
from tests.kernel.test_fault_matrix import Case, walked

# Until the decision to keep the new schedule is in the journal, every switch goes back by itself.
UNDECIDED: list[Case] = [
    ("cnc: before edit-config candidate", Fault.LINK),
    # Half of what changes at the switch is there.
    ("tsn-agent: before BPF load", Fault.AGENT),
    ("tsn-agent: after BPF delete", Fault.AGENT),
    ("netconf-broker: after fsync of confirmed-commit.new", Fault.BROKER),
]
DECIDED: list[Case] = [
    ("cnc: after journal decide", Fault.CONTROLLER),
    # The second rollout.
    ("cnc: after connect (2)", Fault.CONTROLLER),
    ("tsn-agent: before batch RTM_DELMDB", Fault.AGENT),
]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Case, Row]:
    """The sample, all on one lab."""
    return walked(Subject.GUARDED, UNDECIDED + DECIDED, tmp_path_factory.mktemp("guarded"))


@pytest.mark.virtual_time
@pytest.mark.parametrize(("step", "fault"), UNDECIDED)
def test_until_it_is_decided_every_fault_leaves_the_old_guards_and_costs_no_kept_frame(
    rows: Mapping[Case, Row], step: str, fault: Fault
) -> None:
    row = rows[step, fault]
    assert (row.outcome, row.recovery) == ("old", Recovery.NONE)
    assert_one_state(row)


@pytest.mark.virtual_time
@pytest.mark.parametrize(("step", "fault"), DECIDED)
def test_once_it_is_decided_every_fault_ends_on_one_state_of_guards_and_costs_no_kept_frame(
    rows: Mapping[Case, Row], step: str, fault: Fault
) -> None:
    row = rows[step, fault]
    assert row.outcome == ("old" if row.recovery is Recovery.ROLLBACK else "new")
    assert_one_state(row)


def assert_one_state(row: Row) -> None:
    assert row.attacks
    assert (row.forwarding, row.guards, row.strays) == (row.outcome, row.outcome, 0)
    assert row.frames_sent >= 1_500
    assert (row.frames_lost, row.frames_doubled) == (0, 0)
