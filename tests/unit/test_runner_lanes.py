"""What a lane runs where, and what a run makes of its lanes' ends."""

from __future__ import annotations

import time
from pathlib import Path

from tests.runner import lanes
from tests.runner.lanes import Options, Run
from tests.runner.pool import Ended, Job
from tests.runner.speed import REFERENCE_S, Speed
from tests.runner.table import Cost, Lane

REPORT = '<testsuites><testsuite tests="3" failures="0" errors="0" skipped="0"/></testsuites>'
REST = {
    "when_changed": False,
    "once_in": 1,
    "needs": (),
    "processes": 1,
    "repeats": (),
    "environment": {},
}


def lane(name: str = "one", place: str = "host", **how) -> Lane:
    values = {"tests": ("tests/unit/",), "when": (), "short": True, "first": False}
    return Lane(name, place, **{**values, **REST, **how}, cost=Cost(10, 10))


def ended(directory: Path, one: Lane, *, cpu_s: float = 1.0, options: Options) -> Run:
    """A run in which a lane ended with three tests passed."""
    run = Run([one], options, directory)
    report(directory, one)
    run._ended(Ended(Job(one.name, []), 0, 2.0, cpu_s))
    return run


def report(directory: Path, one: Lane) -> None:
    """What pytest leaves of three tests that passed."""
    (directory / one.name).mkdir()
    (directory / one.name / lanes.REPORT).write_text(REPORT)


def test_a_lane_of_this_machine_is_a_pytest_with_the_options_at_its_end(tmp_path):
    command = lanes.command(lane(), tmp_path, Options(pytest=["-k", "x"]), virtual=True)
    assert command[0] == "pytest"
    assert command[-2:] == ["-k", "x"]
    assert "tests/unit/" in command


def test_a_kernel_lane_runs_in_virtual_time_and_without_it_under_qemu(tmp_path):
    one = lane(place="uml")
    assert "--virtual-time" in lanes.command(one, tmp_path, Options(), virtual=True)
    emulated = lanes.command(one, tmp_path, Options(), virtual=False)
    assert "--qemu" in emulated
    assert "--virtual-time" not in emulated


def test_a_lane_on_a_real_clock_runs_in_the_same_kernel_and_without_it_under_qemu(tmp_path):
    one = lane(place="uml-real-time")
    command = lanes.command(one, tmp_path, Options(), virtual=True)
    assert "--uml" in command
    assert "--virtual-time" not in command
    assert "--qemu" in lanes.command(one, tmp_path, Options(), virtual=False)


def test_the_report_of_a_guest_is_written_where_we_can_see_it(tmp_path):
    command = lanes.command(lane(place="uml"), tmp_path, Options(), virtual=True)
    assert command[command.index("--out") + 1] == str(tmp_path)
    assert command[command.index("--junit-xml") + 1] == f"/mnt/out/{lanes.REPORT}"


def test_a_short_lane_above_its_budget_fails_the_run(tmp_path):
    run = ended(tmp_path, lane(), cpu_s=16.0, options=Options())
    assert run.accounts[0].bad


def test_a_short_lane_has_more_on_a_machine_that_was_slow_while_it_ran(tmp_path):
    run = Run([lane()], Options(), tmp_path)
    now_s = time.monotonic()
    run.speed.samples += [(now_s - 0.5, 2 * REFERENCE_S), (now_s - 3_600, 9 * REFERENCE_S)]
    report(tmp_path, lane())
    run._ended(Ended(Job("one", []), 0, 60.0, 16.0))
    assert not run.accounts[0].bad
    run._ended(Ended(Job("one", []), 0, 60.0, 31.0))
    assert run.accounts[1].bad


def test_the_speed_of_a_machine_is_known_as_soon_as_it_is_measured():
    speed = Speed()
    with speed.measuring():
        pass
    assert speed.samples
    assert speed.slowness(60.0) >= 1.0


def test_a_machine_that_is_faster_or_not_measured_has_the_budget_as_it_is():
    assert Speed().slowness(60.0) == 1.0
    assert Speed([(time.monotonic(), REFERENCE_S / 2)]).slowness(60.0) == 1.0


def test_the_budget_is_not_judged_for_other_lanes_nor_where_that_was_asked(tmp_path):
    for name, one, options in (
        ("other", lane("other", short=False), Options()),
        ("busy", lane("busy"), Options(judge_cost=False)),
    ):
        run = ended(tmp_path, one, cpu_s=16.0, options=options)
        assert not run.accounts[0].bad, name


def test_what_is_made_before_counts_as_no_test(tmp_path):
    run = Run([lane(needs=("package",))], Options(), tmp_path)
    run._ended(Ended(Job("package", []), 0, 2.0, 1.0))
    run._ended(Ended(Job("one", []), None, 0.0, 0.0))
    outcome = lanes.Outcome(tuple(run.accounts), ())
    assert (outcome.passed, outcome.failed) == (0, 1)


def test_nothing_run_is_no_success():
    assert not lanes.Outcome((), ()).good
