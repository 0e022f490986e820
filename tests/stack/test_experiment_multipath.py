"""The experiments with two uplinks, each run in a kernel of its own, as the command does it: in one
that runs on, a second run would begin in another phase of its timers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cnc.testbed import experiments
from cnc.testbed.experiments.experiment import ROWS

EXPERIMENTS = Path(__file__).parents[2] / "schedules" / "experiments"
S = 1_000_000_000
pytestmark = pytest.mark.timeout(3600)


def measured(name: str, directory: Path, *changes: tuple[str, str]) -> Any:
    """The points of a shipped experiment in whose file these lines are changed; all are as
    expected."""
    text = (EXPERIMENTS / f"{name}.yaml").read_text()
    for change in (*changes, ("../uplinks.yaml", str(EXPERIMENTS.parent / "uplinks.yaml"))):
        assert text.count(change[0]) == 1
        text = text.replace(*change)
    directory.mkdir()
    file = directory / "experiment.yaml"
    file.write_text(text)
    report = experiments.measure(file, directory).report
    assert report.disagreements == []
    return report.summary["points"]


def measured_twice(name: str, directory: Path, *changes: tuple[str, str]) -> Any:
    one, other = (measured(name, directory / each, *changes) for each in ("one", "other"))
    assert (directory / "one" / ROWS).read_bytes() == (directory / "other" / ROWS).read_bytes()
    assert one == other
    return one


def test_two_paths_together_carry_what_each_carries_alone(tmp_path: Path):
    short = ("settle: 6s", "settle: 4s"), ("duration: 4s", "duration: 1s")
    points = measured_twice("aggregation", tmp_path, *short)
    assert len(points) == 8
    assert min(each["of_sum"] for each in points) >= 95


def test_a_transfer_goes_on_by_the_second_path_when_the_first_fails(tmp_path: Path):
    by_mode = {each["mode"]: each for each in measured_twice("reliability", tmp_path)}
    assert by_mode["single-path"]["stalled_ns"] > 10 * S
    for mode in ("reliability", "hassle-free"):
        assert by_mode[mode]["stalled_ns"] < 1 * S
        assert by_mode[mode]["outage_bps"] > 15_000_000
    assert by_mode["reliability"]["before_bps"] < 50_000_000 < by_mode["hassle-free"]["before_bps"]


def test_a_short_medium_is_played_alike_twice(tmp_path: Path):
    """The second path carries half of its first 20 s, whatever its length."""
    short = ("duration: 1200s", "duration: 180s"), ("share: 31", "share: 40")
    by_way = {each["way"]: each for each in measured_twice("on-demand", tmp_path, *short)}
    assert by_way["never"]["second_octets"] < 100_000


def test_a_medium_of_twenty_minutes_saves_by_a_second_path_on_demand(tmp_path: Path):
    by_way = {each["way"]: each for each in measured("on-demand", tmp_path / "out")}
    assert by_way["claimed"]["subflow_ns"] < 0.5 * by_way["always"]["subflow_ns"]
    # What the listing says saves nothing.
    assert by_way["printed"]["second_percent"] > 0.9 * by_way["always"]["second_percent"]


@pytest.mark.parametrize(
    ("rate", "share", "stall"),
    [("3.1Mbps", "70", "2s"), ("9.5Mbps", "1", "1s")],
    ids=["both", "the first"],
)
def test_a_medium_has_as_many_paths_as_it_needs(tmp_path: Path, rate: str, share: str, stall: str):
    changes = ("[6.2Mbps", f"[{rate}"), ("duration: 1200s", "duration: 300s")
    limits = ("share: 31", f"share: {share}"), ("stall: 1s", f"stall: {stall}")
    points = measured("on-demand", tmp_path / "out", *changes, *limits)
    by_way = {each["way"]: each for each in points}
    claimed, always = by_way["claimed"], by_way["always"]
    if share == "1":
        assert claimed["subflow_ns"] == 0
    else:
        assert claimed["second_percent"] == pytest.approx(always["second_percent"], abs=5)
