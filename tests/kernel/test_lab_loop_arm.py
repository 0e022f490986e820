"""An arm whose tip follows a circle over a lab: by the plan, and in order of arrival."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from cnc import intent as intents
from cnc.loops.model import Loops
from cnc.model import NS_PER_S, Plan
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.talker import tai_ns
from cnc.testbed.cli.loop import loop as command
from cnc.testbed.experiments.control_loop import queues
from cnc.testbed.lab import Lab, lab
from cnc.testbed.traffic.flows import Flow
from cnc.testbed.traffic.loop import run
from cnc.testbed.traffic.loop.path_error import path_error

FILE = Path(__file__).parents[2] / "schedules" / "arm.yaml"
# 1,400 octets of payload take 115,360 ns of the arm's cable: this is 130 % of it.
OTHERS = Flow(
    name="others",
    talker="camera",
    listener="arm",
    traffic_class=0,
    ip_version=4,
    dscp=0,
    payload_octets=1_400,
    period_ns=115_360 * 100 // 130,
    offset_ns=0,
    latency_bound_ns=None,
)
AHEAD_NS = 100_000_000

pytestmark = pytest.mark.virtual_time


@pytest.fixture(scope="module")
def running() -> Iterator[Lab]:
    with lab(intents.load(FILE), timed_wires=True) as made:
        yield made


@pytest.fixture(scope="module")
def plan(running: Lab) -> Plan:
    return compute(running.intent)


def followed(running: Lab, plan: Plan, directory: Path) -> run.Curve:
    """The circle beside more other frames than the arm's cable carries."""
    loop = plan.intent[Loops].by_name["tip"]
    with running.quiet():
        return run.run(
            running, plan, loop, directory, others=[OTHERS], lead_ns=AHEAD_NS, drain_ns=AHEAD_NS
        )


def test_beside_too_much_an_arm_is_off_its_path_without_a_schedule_and_not_with_one(
    running: Lab, plan: Plan, tmp_path: Path
) -> None:
    loop = plan.intent[Loops].by_name["tip"]
    undisturbed = run.undisturbed_axes(loop)
    queues.fifo(running)
    fifo = followed(running, plan, tmp_path / "fifo")
    queues.remove(running)
    report = push(plan, connect=running.connect)
    time.sleep(max(0, (report.base_time_ns or 0) - tai_ns()) / NS_PER_S)
    scheduled = followed(running, plan, tmp_path / "scheduled")
    # To the last digit, of both joints.
    assert scheduled.axes == undisturbed
    assert (scheduled.missed, scheduled.lost_samples, scheduled.lost_commands) == (0, 0, 0)
    assert max(scheduled.delays_ns) <= plan.loops["tip"].total_ns
    by_plan, by_arrival = (path_error(loop, its.axes) for its in (scheduled, fifo))
    assert by_plan
    assert by_arrival
    print(f"path error by the plan {by_plan}, in order of arrival {by_arrival}")
    assert (by_arrival.maximum or 0) > 10 * (by_plan.maximum or 0)

    done = CliRunner().invoke(
        command, [str(FILE), "-o", str(tmp_path), "--json"], catch_exceptions=False
    )
    shown = json.loads(done.stdout)
    assert (done.exit_code, shown["violations"], shown["is_undisturbed"]) == (0, [], True)
    assert (shown["good"], shown["path_error"]["maximum"]) == (1, by_plan.maximum)
    assert (tmp_path / "path.svg").exists()
