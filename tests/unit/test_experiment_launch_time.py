"""How is judged when frames left, with a time of transmission and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc.errors import InputError
from cnc.testbed.experiments import description
from cnc.testbed.experiments.description import LaunchTimeDescription
from cnc.testbed.experiments.experiment import Report, write_rows
from cnc.testbed.experiments.launch_time import LaunchTimes
from cnc.testbed.experiments.launch_time.experiment import COLUMNS
from cnc.testbed.experiments.launch_time.figures import LAUNCHES, SLEEPS
from cnc.testbed.lab.platform import Platform
from tests.experiments import assert_file_is_refused

FILE = Path(__file__).parents[2] / "schedules/experiments/launch-time.yaml"
EXACT = Platform("Linux 6.12, user-mode Linux", "virtual time", exact=True)
ON_A_REAL_CLOCK = Platform("Linux 6.12, this machine's own kernel", "real time", exact=False)
ERROR_NS = 20_000


@pytest.fixture(scope="module")
def experiment() -> LaunchTimes:
    found = description.load(FILE)
    assert isinstance(found, LaunchTimeDescription)
    return LaunchTimes.of(found, FILE)


def reported(
    experiment: LaunchTimes, directory: Path, *launched: int | str, platform: Platform = EXACT
) -> Report:
    """The report of frames that left so late with a time of transmission, "" of one that did not,
    and 50 µs without one."""
    rows = [(SLEEPS, 0, 0, 50_000), *((LAUNCHES, 0, 0, late) for late in launched)]
    write_rows(directory, COLUMNS, rows)
    return experiment.report(directory, platform)


def test_one_of_the_plans_has_no_launch_time(experiment: LaunchTimes) -> None:
    assert experiment.error_ns == ERROR_NS
    stations = {way: its.intent.document["end-stations"] for way, its in experiment.plans.items()}
    assert "launch-time" in stations[LAUNCHES]["t1"]
    assert stations[SLEEPS]["t1"].keys() == {"management"}


def test_a_frame_within_the_launch_error_is_as_planned(
    experiment: LaunchTimes, tmp_path: Path
) -> None:
    found = reported(experiment, tmp_path, 0, ERROR_NS)
    assert found.disagreements == []
    sleeps, launches = found.summary["points"]
    assert (sleeps["p50_ns"], launches["p50_ns"], launches["max_ns"]) == (50_000, 0, ERROR_NS)


@pytest.mark.parametrize(
    ("late", "why"),
    [
        (ERROR_NS + 1, "a frame with a time of transmission left 20.001 µs late, 20 µs"),
        (-2_000, "a frame with a time of transmission left"),
        ("", "1 frames with a time of transmission did not leave"),
    ],
)
def test_what_leaves_too_late_too_soon_or_not_disagrees(
    experiment: LaunchTimes, tmp_path: Path, late: int | str, why: str
) -> None:
    (found,) = reported(experiment, tmp_path, 0, late).disagreements
    assert found.startswith(why)
    real = reported(experiment, tmp_path, 0, late, platform=ON_A_REAL_CLOCK)
    assert real.disagreements == []


def test_so_many_of_a_thousand_keep_to_a_figure(experiment: LaunchTimes, tmp_path: Path) -> None:
    found = reported(experiment, tmp_path, *range(1_000))
    assert {found.summary["points"][1][f"{key}_ns"] for key in ("p50", "p99", "p999", "max")} == {
        499,
        989,
        998,
        999,
    }


def test_a_program_later_than_its_lead_is_refused(tmp_path: Path) -> None:
    change = ("lead: 10ms", "lead: 1ms")
    why = "17: lateness[2]: found 1ms, expected less than the lead, 1ms"
    assert_file_is_refused(FILE, change, tmp_path, why)


@pytest.mark.parametrize("stream", ["other", "lonely"])
def test_a_stream_of_a_station_without_a_launch_time_is_refused(
    stream: str, tmp_path: Path
) -> None:
    network = tmp_path / "network.yaml"
    text = (FILE.parents[1] / "launch.yaml").read_text()
    lonely = "  lonely: {talker: l1, listeners: [t1], class: motion, period: 2ms, payload: 100B"
    lonely += ", max-latency: 1ms}\n"
    network.write_text(text + lonely)
    changed = {"network": str(network), "stream": stream}
    found = description.load(FILE)
    assert isinstance(found, LaunchTimeDescription)
    with pytest.raises(InputError, match="whose talker has a `launch-time`"):
        LaunchTimes.of(found.model_copy(update=changed), FILE)
