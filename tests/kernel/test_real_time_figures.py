"""A trace and a control loop on a real clock: they run, their rows add up, and both say how late
the machine was.

Nothing here is said of any time: a busy machine may be late by any.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from cnc import intent as intents
from cnc.plans import file as planfile
from cnc.testbed.cli.loop import loop
from cnc.testbed.cli.trace import trace
from cnc.testbed.lab import lab
from cnc.testbed.traffic.loop import run
from cnc.testbed.traffic.trace import table
from tests.bridged_networks import stream
from tests.json_documents import documented
from tests.kernel.test_lab_trace_kernel import instances
from tests.kernel.test_real_time import pushed

SCHEDULES = Path(__file__).parents[2] / "schedules"
FRAMES, PERIODS = 10, 20

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The plan of the slow network, where one stream closes a loop with another, and its lab.

    A plan, for an intent would be planned once more with the margins that switches measure, which a
    busy machine makes too large for any.
    """
    document = dict(intents.load(SCHEDULES / "slow.yaml").document)
    slow = {"class": "cyclic", "period": "50ms", "max-latency": "25ms"}
    document["streams"] = {
        **document["streams"],
        "f1": stream("t1", "l1", payload="200B", **slow),
        "f2": stream("l1", "t1", payload="200B", **slow),
    }
    document["loops"] = {
        "axis": {
            "sensor": "f1",
            "actuator": "f2",
            "period": "50ms",
            "compute": "1ms",
            "deadline": "100ms",
            "duration": f"{PERIODS * 50}ms",
            "plant": {"order": 1, "gain": 1, "time-constant": "500ms"},
            "controller": {"pi": {"kp": 1, "ki": 1, "limit": 10}},
            "reference": 1,
        }
    }
    intent = intents.from_document(document, "the slow network with a loop")
    with lab(intent, timed_wires=True) as running:
        plan = tmp_path_factory.mktemp("plan") / "plan.json"
        planfile.dump(pushed(running), plan)
        yield plan


def shown(command: click.Command, name: str, *words: object) -> dict[str, Any]:
    """The document that a command prints, which says how late the machine was."""
    argv = [*map(str, words), "--json"]
    done = CliRunner().invoke(command, argv, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    document: dict[str, Any] = documented(name, done.stdout)
    assert document["platform"]["clock"] == "real time"
    assert document["platform"]["timer_latency"]["timers"] > 0
    return document


@pytest.mark.parametrize("options", [[], ["--kernel"]])
def test_the_layers_of_each_frame_add_up(plan: Path, tmp_path: Path, options: list[str]) -> None:
    words = [plan, "--duration", f"{FRAMES * 50}ms", "-o", tmp_path, *options]
    document = shown(trace, "lab trace", *words)
    with (tmp_path / table.FRAMES).open(newline="") as opened:
        rows = [*csv.DictReader(opened)]
    streams = planfile.load(plan).streams
    assert {name: Counter(row["flow"] for row in rows)[name] for name in streams} == dict.fromkeys(
        streams, FRAMES
    )
    assert len(rows) == sum(flow["frames"] for flow in document["flows"])
    with (tmp_path / table.PARTS).open(newline="") as opened:
        parts = Counter[tuple[str, str]]()
        for part in csv.DictReader(opened):
            parts[part["flow"], part["seq"]] += int(part["duration_ns"] or 0)
    whole = [row for row in rows if row["total_ns"]]
    assert whole
    for row in whole:
        # Empty is a layer that a way does not have: of one that begins at a switch, processing.
        layers_ns = [int(row[name]) for name in columns(row) if row[name]]
        assert min(layers_ns) >= 0, row
        assert sum(layers_ns) == parts[row["flow"], row["seq"]] == int(row["total_ns"]), row
    assert [*instances().iterdir()] == []


def columns(row: dict[str, str]) -> list[str]:
    """Those of the layers."""
    names = [*row]
    return names[names.index("wake_up_ns") : names.index("listener_ns") + 1]


def test_a_loop_runs_to_its_end_and_is_not_judged(plan: Path, tmp_path: Path) -> None:
    document = shown(loop, "lab loop", plan, "-o", tmp_path)
    assert (document["periods"], document["violations"]) == (PERIODS, [])
    with (tmp_path / run.FILE).open(newline="") as opened:
        rows = [*csv.DictReader(opened)]
    lost = sum(not row["command_received_ns"] for row in rows)
    missed = sum(row["acting_sample"] != row["step"] for row in rows)
    assert (len(rows), lost, missed) == (PERIODS, document["lost_commands"], document["missed"])
