"""A switch with a wrong clock, as the right clock sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc.errors import InputError
from cnc.model import GateControlList, GateEntry
from cnc.testbed.experiments import description, planned
from cnc.testbed.experiments.clock_error.experiment import (
    COLUMNS,
    ClockError,
    at_their_slowest,
    early,
)
from cnc.testbed.experiments.description import ClockErrorDescription
from cnc.testbed.experiments.experiment import Report, write_rows
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.recording import Frame, Recording

FILE = Path(__file__).parents[2] / "schedules/experiments/clock-error.yaml"
EXACT = Platform("Linux 6.12, user-mode Linux", "virtual time", exact=True)
ON_A_REAL_CLOCK = Platform("Linux 6.12, this machine's own kernel", "real time", exact=False)
GATES = GateControlList(
    20, (GateEntry(0x81, 5), GateEntry(0x80, 4), GateEntry(0xC0, 3), GateEntry(0x81, 8))
)


@pytest.fixture(scope="module")
def experiment() -> ClockError:
    found = description.load(FILE)
    assert isinstance(found, ClockErrorDescription)
    return ClockError.of(found, FILE)


def states(gates: GateControlList) -> list[int]:
    """The gates' states at every nanosecond of the cycle."""
    return [entry.gate_states for entry in gates.entries for _ in range(entry.interval_ns)]


def reported(
    experiment: ClockError, directory: Path, late: set[int], platform: Platform = EXACT
) -> Report:
    """The report of one frame of each stream at each error, late at those of `late`."""
    rows: list[tuple[object, ...]] = []
    for error_ns in experiment.errors_ns:
        frames = []
        for flow in experiment.sent:
            assert flow.latency_bound_ns is not None
            received_ns = flow.offset_ns + flow.latency_bound_ns + (error_ns in late)
            frames.append(Frame(flow.name, 0, flow.offset_ns, flow.offset_ns, received_ns))
        rows += [(error_ns, *row) for row in planned.frame_rows(Recording(0, tuple(frames)))]
    write_rows(directory, COLUMNS, rows)
    return experiment.report(directory, platform)


@pytest.mark.parametrize("ahead_ns", range(-45, 46))
def test_a_clock_ahead_has_every_gate_early_by_so_much_at_every_instant(ahead_ns: int):
    turned = early(GATES, ahead_ns, 0)
    right = states(GATES)
    assert turned.cycle_ns == 20
    assert states(turned) == [right[(instant + ahead_ns) % 20] for instant in range(20)]


@pytest.mark.parametrize("ahead_ns", range(-20, 21))
def test_only_the_entry_under_way_at_the_cycles_begin_is_cut(ahead_ns: int):
    turned = early(GATES, ahead_ns, 0)
    assert all(entry.interval_ns > 0 for entry in turned.entries)
    on_an_edge = ahead_ns % 20 in {0, 5, 9, 12}
    assert len(turned.entries) == len(GATES.entries) + (not on_an_edge)


@pytest.mark.parametrize("ahead_ns", range(-20, 21))
def test_a_piece_shorter_than_the_port_takes_joins_its_neighbour(ahead_ns: int):
    turned = early(GATES, ahead_ns, 3)
    right = states(GATES)
    assert all(entry.interval_ns >= 3 for entry in turned.entries)
    assert turned.cycle_ns == sum(entry.interval_ns for entry in turned.entries) == 20
    exact = [right[(instant + ahead_ns) % 20] for instant in range(20)]
    assert sum(a != b for a, b in zip(states(turned), exact, strict=True)) <= 2 + 2


@pytest.mark.parametrize("ahead_ns", [0, 20, -40])
def test_a_clock_that_is_right_or_wrong_by_whole_cycles_changes_nothing(ahead_ns: int):
    assert early(GATES, ahead_ns, 0) == GATES


def test_only_lists_of_switches_with_wrong_clocks_are_turned(experiment: ClockError):
    plan = experiment.with_error(-2_000)
    turned = {
        port.node for port, gates in plan.gates.items() if gates != experiment.plan.gates[port]
    }
    assert turned == {"s2"}
    assert plan.streams == experiment.plan.streams


def test_every_error_is_tried_behind_and_ahead_and_none_at_all_once(experiment: ClockError):
    errors_ns = experiment.errors_ns
    assert errors_ns == sorted(set(errors_ns))
    assert {abs(error_ns) for error_ns in errors_ns} == set(experiment.description.errors_ns)
    assert errors_ns == [-error_ns for error_ns in reversed(errors_ns)]


def test_the_emulated_switches_take_as_long_as_they_may(experiment: ClockError):
    for bridge in at_their_slowest(experiment.plan.intent).network.bridges.values():
        assert bridge.processing_min_ns == bridge.processing_max_ns == 5_000


def test_frames_that_are_late_beyond_the_planned_error_are_no_disagreement(
    experiment: ClockError, tmp_path: Path
):
    report = reported(experiment, tmp_path, late={-10_000, -4_000, 5_000})
    assert report.disagreements == []
    by_error = {point["error_ns"]: point for point in report.summary["points"]}
    assert by_error[-4_000]["late"] == by_error[-4_000]["frames"] == 4
    assert by_error[-4_000]["worst_over_bound_ns"] == 1
    assert by_error[0]["late"] == by_error[0]["worst_over_bound_ns"] == 0
    assert report.summary["planned_clock_error_ns"] == 1_000


def test_a_late_frame_within_the_planned_error_is_a_disagreement(
    experiment: ClockError, tmp_path: Path
):
    report = reported(experiment, tmp_path, late={-2_000, -1_000})
    assert report.disagreements == [
        "a clock error of -1 µs is within the planned 1 µs, but of 4 frames 4 were late and 0 lost"
    ]


def test_nothing_is_judged_on_a_real_clock(experiment: ClockError, tmp_path: Path):
    report = reported(experiment, tmp_path, {0}, ON_A_REAL_CLOCK)
    assert report.disagreements == []
    assert "shown, not judged" in report.remarks[-1]


def test_the_report_says_up_to_which_error_no_frame_is_late(experiment: ClockError, tmp_path: Path):
    remarks = reported(experiment, tmp_path, late={-10_000, -4_000}).remarks
    assert "Clocks behind: no frame is late up to 2 µs; at 4 µs 4 of 4 are." in remarks
    assert "Clocks ahead: no frame is late." in remarks


def test_a_switch_that_the_network_does_not_have_is_bad_input(experiment: ClockError):
    other = experiment.description.model_copy(update={"switches": ["s2", "s4"]})
    with pytest.raises(InputError, match="switches: clock-error has no switch s4") as refused:
        ClockError.of(other, FILE)
    assert refused.value.hint == "its switches are s1, s2, s3"
