"""What the control plane took, from the rows of a run to figures beside the paper's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from cnc.errors import CncError, InputError
from cnc.testbed import experiments
from cnc.testbed.experiments.control_overhead import experiment as control_overhead
from cnc.testbed.experiments.control_overhead.experiment import COLUMNS, MACHINE
from cnc.testbed.experiments.control_overhead.figures import STEPS
from cnc.testbed.experiments.control_overhead.published import PUBLISHED
from cnc.testbed.experiments.description import ControlOverheadDescription, load
from cnc.testbed.experiments.experiment import Report, write_rows
from cnc.testbed.lab import rehearsal
from cnc.testbed.lab.platform import Platform

EXAMPLE = Path(__file__).parents[2] / "schedules/experiments/control-overhead.yaml"
MS = 1_000_000

DESCRIPTION = """
kind: control-overhead
name: line
title: A line
switches: {switches}
rounds: {rounds}
cycle: 1ms
"""

# One switch, one push: 100 ms in all, and the paper's 173 ms for a seventh of that.
ROW = {
    "plan_ns": 1 * MS,
    "payload_ns": 1 * MS,
    "netconf_ns": 20 * MS,
    "apply_ns": 2 * MS,
    "push_ns": 70 * MS,
    **{f"{step}_ns": 10 * MS for step in STEPS},
    "machine_cpu_ns": 135 * MS,
    "controller_cpu_ns": 30 * MS,
    "netconfd_cpu_ns": 40 * MS,
    "agent_cpu_ns": 5 * MS,
}


def file(tmp_path: Path, switches: object = 10, rounds: object = 3) -> Path:
    path = tmp_path / "line.yaml"
    path.write_text(DESCRIPTION.format(switches=switches, rounds=rounds))
    return path


def run_of(tmp_path: Path, *pushes: Mapping[str, Mapping[str, int]]) -> Path:
    """What a run leaves: pushes of one round each, by switch what differs from `ROW`."""
    directory = tmp_path / "out"
    directory.mkdir()
    rows = [
        [{"switches": len(push), "round": 1, "switch": name, **ROW, **its}[c] for c in COLUMNS]
        for push in pushes
        for name, its in push.items()
    ]
    write_rows(directory, COLUMNS, rows)
    machine = {"cpu": "a CPU", "cores": "2", "memory": "4 GB", "kernel": "6.12", "software": "-"}
    (directory / MACHINE).write_text(json.dumps({**machine, "ports": "in memory"}))
    return directory


def report_of(tmp_path: Path, directory: Path) -> Report:
    path = file(tmp_path)
    return experiments.experiment_of(load(path), path).report(directory, Platform.here())


def reported(tmp_path: Path, *pushes: Mapping[str, Mapping[str, int]]) -> Report:
    return report_of(tmp_path, run_of(tmp_path, *pushes))


def test_the_example_repeats_the_papers_experiment():
    found = load(EXAMPLE)
    assert isinstance(found, ControlOverheadDescription)
    assert (found.switches, found.rounds, found.cycle_ns) == (10, 3, MS)


@pytest.mark.parametrize(
    ("switches", "rounds", "words"),
    [(11, 3, "switches"), (0, 3, "switches"), (10, 0, "rounds"), ("many", 3, "switches")],
)
def test_what_cannot_be_measured_is_refused(
    tmp_path: Path, switches: object, rounds: object, words: str
):
    with pytest.raises(InputError, match=rf"line\.yaml:\d+: {words}"):
        load(file(tmp_path, switches, rounds))


def test_the_paper_had_up_to_ten_switches_and_needed_1_83_s_for_them():
    assert list(PUBLISHED) == list(range(1, 11))
    assert PUBLISHED[10].total_s == pytest.approx(1.829)
    assert PUBLISHED[1].ratio == pytest.approx(4.9, abs=0.05)
    assert PUBLISHED[10].ratio == pytest.approx(66, abs=0.05)


def test_a_point_stands_beside_the_papers(tmp_path: Path):
    [point] = reported(tmp_path, {"s1": {}}).summary["points"]
    assert point["switches"] == 1
    found = {k: point[k] for k in ("generation_s", "netconf_s", "parsing_s", "total_s")}
    assert found == {
        "generation_s": 0.002,
        "netconf_s": 0.02,
        "parsing_s": 0.002,
        "total_s": 0.024,
    }
    assert point["paper"] == {
        "generation_s": 0.128,
        "netconf_s": 0.026,
        "parsing_s": 0.019,
        "total_s": 0.173,
    }


def test_the_slowest_switch_decides_and_all_of_them_compute(tmp_path: Path):
    slow = {"payload_ns": 3 * MS, "netconf_ns": 25 * MS, "apply_ns": 4 * MS}
    [point] = reported(tmp_path, {"s1": {}, "s2": slow}).summary["points"]
    assert (point["generation_s"], point["netconf_s"], point["parsing_s"]) == (0.004, 0.025, 0.004)
    assert point["push_s"] == 0.07
    assert point["cpu_s"] == {
        "controller": 0.03,
        "agents": 0.01,
        "NETCONF servers": 0.08,
        "others": 0.015,
    }


def test_a_figure_is_the_median_of_its_rounds(tmp_path: Path):
    directory = run_of(tmp_path, {"s1": {}})
    rows = [
        [
            {"switches": 1, "round": number, "switch": "s1", **ROW, "netconf_ns": t * MS}[c]
            for c in COLUMNS
        ]
        for number, t in enumerate((90, 10, 20), start=1)
    ]
    write_rows(directory, COLUMNS, rows)
    report = report_of(tmp_path, directory)
    assert [point["netconf_s"] for point in report.summary["points"]] == [0.02]


def test_the_ratio_is_judged_with_the_number_of_switches_that_is_worst(tmp_path: Path):
    # The paper's is 4.92 with one, 10.7 with two switches; ours 0.1 and 0.05.
    quick = {"netconf_ns": 40 * MS}
    report = reported(tmp_path, {"s1": {}}, {"s1": quick, "s2": quick})
    goal = report.summary["goals"]["generation_to_netconf"]
    assert goal == {"goal": 100, "figure": 49.2, "reached": False}


@pytest.mark.parametrize(("netconf_ns", "reached"), [(150 * MS, True), (190 * MS, False)])
def test_the_total_is_judged_with_ten_switches_and_disagrees_with_nothing(
    tmp_path: Path, netconf_ns: int, reached: bool
):
    ten = {f"s{number}": {"netconf_ns": netconf_ns} for number in range(1, 11)}
    report = reported(tmp_path, ten)
    assert report.summary["goals"]["total"]["reached"] is reached
    assert any("ten switches" in line for line in report.remarks)
    assert not report.disagreements


def test_shorter_lines_are_not_compared_with_the_papers_longest(tmp_path: Path):
    assert "total" not in reported(tmp_path, {"s1": {}}).summary["goals"]


def test_both_machines_are_named_and_where_the_ports_are(tmp_path: Path):
    report = reported(tmp_path, {"s1": {}})
    machines = report.summary["machines"]
    assert (machines["here"]["cpu"], machines["here"]["ports"]) == ("a CPU", "in memory")
    assert (machines["paper"]["cores"], machines["paper"]["kernel"]) == ("8", "5.4.0-139")
    assert any(line.startswith("Ports in memory: ") for line in report.remarks)


def test_a_laptop_without_sysrepo_hears_what_to_do_and_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rehearsal, "tools_path", lambda: str(tmp_path))
    monkeypatch.setattr(control_overhead, "own_kernel_has_taprio", lambda: False)
    monkeypatch.setattr(rehearsal.tempfile, "mkdtemp", lambda **_: pytest.fail("it begins"))
    with pytest.raises(CncError, match="sysrepo, which is not installed") as refused:
        experiments.measure(file(tmp_path), tmp_path / "out")
    assert "scripts/setup" in str(refused.value.hint)


def test_virtual_time_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TSN_VM", "uml")
    monkeypatch.setenv("TSN_VIRTUAL_TIME", "1")
    monkeypatch.setattr(control_overhead, "own_kernel_has_taprio", lambda: pytest.fail("it begins"))
    with pytest.raises(CncError, match="in virtual time computing takes no time"):
        experiments.measure(file(tmp_path), tmp_path / "out")
