"""Control loops over a lab: in time, beside too much, and with samples lost."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cnc import __version__
from cnc import intent as intents
from cnc.loops.model import Loops
from cnc.model import NS_PER_S, Plan
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.talker import tai_ns
from cnc.testbed import experiments
from cnc.testbed.cli.loop import loop as command
from cnc.testbed.experiments.control_loop import ControlLoop
from cnc.testbed.experiments.control_loop.figures import FIFO, SCHEDULE
from cnc.testbed.lab import Lab, lab
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.loop import run

SCHEDULES = Path(__file__).parents[2] / "schedules"
FILE = SCHEDULES / "loop.yaml"
MS = 1_000_000

pytestmark = pytest.mark.virtual_time


def pushed(running: Lab) -> Plan:
    plan = compute(running.intent)
    report = push(plan, connect=running.connect)
    time.sleep(max(0, (report.base_time_ns or 0) - tai_ns()) / NS_PER_S)
    return plan


@pytest.fixture(scope="module")
def unscheduled() -> Iterator[Lab]:
    """The lab of loop.yaml, to which no test before those of `scheduled` has pushed anything."""
    with lab(intents.load(FILE), timed_wires=True) as running:
        yield running


@pytest.fixture(scope="module")
def scheduled(unscheduled: Lab) -> tuple[Lab, Plan]:
    return unscheduled, pushed(unscheduled)


def test_beside_too_much_the_schedule_alone_keeps_the_curve_of_an_idle_network(
    unscheduled: Lab, tmp_path: Path
) -> None:
    file = SCHEDULES / "experiments" / "control-loop.yaml"
    experiment = experiments.experiment_of(experiments.load(file), file)
    assert isinstance(experiment, ControlLoop)
    few = experiment.description.model_copy(update={"loads": [0, 130]})
    smaller = replace(experiment, description=few, plan=compute(unscheduled.intent))
    smaller.run_in(unscheduled, tmp_path, print)
    report = smaller.report(tmp_path, Platform.here())
    assert report.disagreements == []
    by_point = {(each["network"], each["load_percent"]): each for each in report.summary["points"]}
    assert by_point[FIFO, 0]["is_undisturbed"]
    assert by_point[FIFO, 130]["absolute_error_s"] > 0.05
    alike = ("absolute_error_s", "overshoot", "rise_time_ns", "settling_time_ns", "missed")
    idle, full = by_point[SCHEDULE, 0], by_point[SCHEDULE, 130]
    assert {key: idle[key] for key in alike} == {key: full[key] for key in alike}


def test_two_runs_are_equal_and_keep_the_delay_that_the_plan_states(
    scheduled: tuple[Lab, Plan], tmp_path: Path
) -> None:
    running, plan = scheduled
    loop = plan.intent[Loops].by_name["axis"]
    with running.quiet():
        one, other = (run.run(running, plan, loop, tmp_path / name) for name in ("one", "other"))
    assert (tmp_path / "one" / run.FILE).read_text() == (tmp_path / "other" / run.FILE).read_text()
    assert one.outputs == run.undisturbed(loop)
    assert (one.missed, one.lost_samples, one.lost_commands) == (0, 0, 0)
    assert max(one.delays_ns) <= plan.loops["axis"].total_ns
    assert one.periods == other.periods


def test_the_command_judges_a_loop_and_keeps_its_curve(
    scheduled: tuple[Lab, Plan], tmp_path: Path
) -> None:
    words = [str(FILE), "-o", str(tmp_path), "--json"]
    done = CliRunner().invoke(command, words, catch_exceptions=False)
    found = json.loads(done.stdout)
    assert (done.exit_code, found["violations"], found["other_lists"]) == (0, [], [])
    assert found["is_undisturbed"]
    assert found["good"] == 1
    assert found["delay"]["max_ns"] <= sum(found["planned"].values())
    assert len((tmp_path / "loop.csv").read_text().splitlines()) == 1 + found["periods"]
    for kind in ("svg", "png", "pdf"):
        assert (tmp_path / f"step-response.{kind}").exists()
    made_by = json.loads((tmp_path / "platform.json").read_text())
    assert (made_by["clock"], made_by["version"]) == ("virtual time", __version__)


def test_the_last_sample_is_held_where_one_is_lost(
    scheduled: tuple[Lab, Plan], tmp_path: Path
) -> None:
    running, plan = scheduled
    loop = replace(plan.intent[Loops].by_name["axis"], duration_ns=40 * MS)
    # Every fourth, by the last octet of the number that is behind IP header, UDP header and flow.
    fourth = "protocol ip u32 match ip dport 5006 0xffff match u8 0 3 at 33 action drop"

    def tc(words: str) -> None:
        subprocess.run(running.command("l1", ["tc", *words.split()]), check=True)

    tc("qdisc add dev eth0 clsact")
    tc(f"filter add dev eth0 egress {fourth}")
    try:
        with running.quiet():
            curve = run.run(running, plan, loop, tmp_path)
    finally:
        tc("qdisc del dev eth0 clsact")
    assert curve.lost_samples == curve.missed == 10
    answered = [period.answered for period in curve.periods]
    assert answered[:6] == [None, 1, 2, 3, 3, 5]
    assert curve.lost_commands == 0
