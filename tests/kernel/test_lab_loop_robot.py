"""A cart in MuJoCo that balances a pole over a lab: by the plan, and in order of arrival."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cnc import intent as intents
from cnc.loops.model import Loops
from cnc.model import NS_PER_S
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.talker import tai_ns
from cnc.testbed import experiments
from cnc.testbed.cli.loop import loop as command
from cnc.testbed.experiments.control_loop import ControlLoop
from cnc.testbed.experiments.control_loop.figures import FIFO, PRIORITY, SCHEDULE
from cnc.testbed.experiments.experiment import read_rows
from cnc.testbed.lab import Lab, lab
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.loop import run

SCHEDULES = Path(__file__).parents[2] / "schedules"
FILE = SCHEDULES / "pendulum.yaml"
FALLEN = math.radians(60)

pytestmark = pytest.mark.virtual_time


@pytest.fixture(scope="module")
def running() -> Iterator[Lab]:
    with lab(intents.load(FILE), timed_wires=True) as made:
        yield made


def test_beside_too_much_a_pole_falls_in_order_of_arrival_and_stands_over_the_schedule(
    running: Lab, tmp_path: Path
) -> None:
    file = SCHEDULES / "experiments" / "pendulum.yaml"
    experiment = experiments.experiment_of(experiments.load(file), file)
    assert isinstance(experiment, ControlLoop)
    few = experiment.description.model_copy(update={"loads": [0, 130]})
    smaller = replace(experiment, description=few, plan=compute(running.intent))
    smaller.run_in(running, tmp_path, print)
    assert smaller.report(tmp_path, Platform.here()).disagreements == []
    leaning: dict[tuple[str, str], float] = {}
    for row in read_rows(tmp_path):
        key = row["network"], row["load"]
        leaning[key] = max(leaning.get(key, 0.0), abs(float(row["output_2"])))
    fell = {key for key, most in leaning.items() if most > FALLEN}
    assert fell == {(FIFO, "130")}
    # To the last digit: the same at every load.
    assert leaning[SCHEDULE, "130"] == leaning[SCHEDULE, "0"] == leaning[FIFO, "0"]
    assert leaning[PRIORITY, "130"] < math.radians(10)


def test_two_runs_of_a_robot_are_equal_and_the_command_draws_them(
    running: Lab, tmp_path: Path
) -> None:
    plan = compute(running.intent)
    report = push(plan, connect=running.connect)
    time.sleep(max(0, (report.base_time_ns or 0) - tai_ns()) / NS_PER_S)
    loop = replace(plan.intent[Loops].by_name["balance"], duration_ns=NS_PER_S)
    with running.quiet():
        one, other = (
            run.run(running, plan, loop, tmp_path / name, modules=SCHEDULES)
            for name in ("one", "other")
        )
    assert one.periods == other.periods
    assert one.axes == run.undisturbed_axes(loop, SCHEDULES)
    assert (one.missed, one.lost_samples, one.lost_commands) == (0, 0, 0)
    words = [str(FILE), "-o", str(tmp_path), "--json"]
    done = CliRunner().invoke(command, words, catch_exceptions=False)
    found = json.loads(done.stdout)
    assert (done.exit_code, found["violations"], found["is_undisturbed"]) == (0, [], True)
    assert found["good"] == 1
    header = (tmp_path / run.FILE).read_text().splitlines()[0]
    assert header.endswith(",acting_sample,output_2")
    assert "angle" in (tmp_path / "step-response.svg").read_text()
