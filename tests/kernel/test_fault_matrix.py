"""All or nothing around the decision: a sample of the rows of scripts/fault-matrix.

The whole matrix takes long; its table is docs/lab/fault-matrix.md.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fault.network import Subject
from tests.fault.table import Fault, Recovery, Row, from_json

Case = tuple[str, Fault]

# Until the decision to keep the new schedule is in the journal, every switch goes back by itself;
# after it an operator says which way, unless the rollout ends by itself.
UNDECIDED: list[Case] = [
    ("cnc: after commit confirmed", Fault.CONTROLLER),
    ("cnc: before journal decide", Fault.CONTROLLER),
    ("cnc: before commit confirmed", Fault.LINK),
    ("cnc: before commit confirmed", Fault.LATE),
    # Between two ports of one switch.
    ("tsn-agent: after netlink RTM_NEWQDISC (3)", Fault.AGENT),
    ("netconf-broker: after fsync of confirmed-commit.new", Fault.BROKER),
    ("cnc: after commit confirmed", Fault.FRONT),
]
DECIDED: list[Case] = [
    ("cnc: after journal decide", Fault.CONTROLLER),
    ("cnc: before commit persist-id", Fault.LINK),
    ("cnc: before commit persist-id", Fault.LATE),
    ("cnc: before commit persist-id", Fault.FRONT),
    ("cnc: before commit persist-id", Fault.BROKER),
    ("cnc: after commit persist-id", Fault.AGENT),
]
# Where streams move, a second rollout follows; its steps are the second visits.
OF_BRIDGES: dict[Case, tuple[str, Recovery]] = {
    ("cnc: after commit confirmed", Fault.AGENT): ("old", Recovery.NONE),
    ("cnc: after connect (2)", Fault.CONTROLLER): ("new", Recovery.PUSH),
    ("cnc: before commit confirmed (2)", Fault.AGENT): ("new", Recovery.PUSH),
}

# Two streams of 100 frames a second; the timeouts of the switches alone are 8 s.
FRAMES_OF_BRIDGES = 1_500


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Case, Row]:
    """The sample, all on one lab."""
    return walked(Subject.LINE, UNDECIDED + DECIDED, tmp_path_factory.mktemp("matrix"))


@pytest.fixture(scope="module")
def rows_of_bridges(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Case, Row]:
    """The sample of the bridged network, all on one lab."""
    return walked(Subject.BRIDGED, [*OF_BRIDGES], tmp_path_factory.mktemp("bridged"))


def walked(subject: Subject, cases: list[Case], results: Path) -> Mapping[Case, Row]:
    wanted = [part for case in cases for part in ("--case", *case)]
    # Its programs are forks of one that must not have pytest in it.
    arguments = ["--network", subject, "--json", results / "rows.json", "--logs", results, *wanted]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fault", *arguments],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=1_800,  # in virtual time
        check=False,
    )
    logs = "\n".join(file.read_text() for file in results.glob("row-*.log"))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{logs}"
    return {(row.step, row.fault): row for row in from_json((results / "rows.json").read_text())}


@pytest.mark.virtual_time
@pytest.mark.parametrize(("step", "fault"), UNDECIDED)
def test_until_it_is_decided_every_fault_leaves_the_old_schedule_and_nothing_to_choose(
    rows: Mapping[Case, Row], step: str, fault: Fault
) -> None:
    row = rows[step, fault]
    assert row.attacks
    assert row.outcome == "old"
    assert row.recovery is Recovery.NONE
    # The new one never was in force anywhere, unless nobody was there to take a waiting list back.
    assert row.mixed_ns == 0 or fault is Fault.AGENT


@pytest.mark.virtual_time
@pytest.mark.parametrize(("step", "fault"), DECIDED)
def test_once_it_is_decided_every_fault_ends_on_one_schedule(
    rows: Mapping[Case, Row], step: str, fault: Fault
) -> None:
    row = rows[step, fault]
    assert row.attacks
    expected = {Recovery.NONE: "new", Recovery.RESUME: "new", Recovery.ROLLBACK: "old"}
    assert row.outcome == expected[row.recovery]


@pytest.mark.virtual_time
@pytest.mark.parametrize(("step", "fault"), OF_BRIDGES)
def test_where_streams_move_every_fault_ends_on_one_way_and_costs_no_frame(
    rows_of_bridges: Mapping[Case, Row], step: str, fault: Fault
) -> None:
    row = rows_of_bridges[step, fault]
    assert row.attacks
    assert row.strays == 0
    assert row.outcome == row.forwarding
    assert (row.outcome, row.recovery) == OF_BRIDGES[step, fault]
    assert row.frames_sent >= FRAMES_OF_BRIDGES
    assert (row.frames_lost, row.frames_doubled) == (0, 0)
