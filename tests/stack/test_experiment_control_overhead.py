"""The control overhead of two rehearsed switches, measured; nothing of them is left behind."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.stack.netconfd_process import wait_until
from tests.stack.repository import SHARED_MEMORY

CHECKOUT = Path(__file__).parents[2]

DESCRIPTION = """
kind: control-overhead
name: two
title: Two switches
switches: 2
rounds: 1
cycle: 1ms
"""

# Rehearsed also where the kernel has taprio.
MEASURE = """
import sys
from pathlib import Path
from cnc.testbed.experiments import measure
from cnc.testbed.experiments.control_overhead import experiment as control_overhead

control_overhead.own_kernel_has_taprio = lambda: False
measure(Path(sys.argv[1]), Path(sys.argv[2]), lambda step: print(step, flush=True))
"""

Start = Callable[[], subprocess.Popen[str]]


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Where the experiment keeps what it needs while it runs."""
    path = Path(tempfile.mkdtemp())
    yield path
    shutil.rmtree(path)


@pytest.fixture
def start(tmp_path: Path, scratch: Path) -> Iterator[Start]:
    """Starts the experiment, with results in tmp_path/out; it prints its steps."""
    pytest.importorskip("sysrepo")
    pytest.importorskip("matplotlib")
    file = tmp_path / "two.yaml"
    file.write_text(DESCRIPTION)
    started: list[subprocess.Popen[str]] = []

    def begin() -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", MEASURE, file, tmp_path / "out"]
        environment = {**os.environ, "TMPDIR": str(scratch)}
        started.append(
            subprocess.Popen(argv, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, text=True)
        )
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def left_of(name: str, scratch: Path) -> list[str]:
    """What is left of the switches in the directory `name`: files, shared memory, processes."""
    files = [str(path) for path in scratch.iterdir()]
    shared = [path.name for path in SHARED_MEMORY.iterdir() if name in path.name]
    return files + shared + [str(pid) for pid in processes_of(name)]


def processes_of(name: str) -> list[int]:
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdecimal() and name.encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


def test_every_line_is_measured_and_laid_beside_the_papers(
    start: Start, tmp_path: Path, scratch: Path
):
    assert start().wait(timeout=100) == 0
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["disagreements"] == []
    assert summary["machines"]["here"]["ports"] == "in memory"
    assert [point["switches"] for point in summary["points"]] == [1, 2]
    for point in summary["points"]:
        parts_s = [point[part] for part in ("generation_s", "netconf_s", "parsing_s")]
        assert all(part_s > 0 for part_s in parts_s)
        assert sum(parts_s) == pytest.approx(point["total_s"], abs=1e-5)
        assert point["total_s"] < point["push_s"]
        assert sum(point["steps_s"].values()) == pytest.approx(point["push_s"], abs=1e-4)
        assert point["cpu_s"].pop("others") >= 0
        assert all(value_s > 0 for value_s in point["cpu_s"].values())
        assert point["paper"]["total_s"] > 0
    with (tmp_path / "out/rows.csv").open(newline="") as rows:
        keys = [(row["switches"], row["round"], row["switch"]) for row in csv.DictReader(rows)]
    assert keys == [("1", "1", "s1"), ("2", "1", "s1"), ("2", "1", "s2")]
    for name in ("control-overhead.svg", "control-overhead.png", "push.svg", "report.html"):
        assert (tmp_path / "out" / name).stat().st_size
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    "end",
    [signal.SIGINT, signal.SIGTERM, signal.SIGKILL],
    ids=["ctrl-c", "terminated", "killed"],
)
def test_nothing_is_left_of_switches_whose_experiment_is_ended(
    end: signal.Signals, start: Start, scratch: Path
):
    experiment = start()
    assert experiment.stdout is not None
    assert any(line.startswith("pushing") for line in experiment.stdout)
    (directory,) = scratch.glob("cnc-rehearsal-*")
    assert len(processes_of(directory.name)) >= 4
    assert any(directory.name in path.name for path in SHARED_MEMORY.iterdir())
    experiment.send_signal(end)
    assert experiment.wait(timeout=30) != 0
    history = list(scratch.glob("tmp*"))  # of one that could not clean up
    for path in history:
        shutil.rmtree(path)
    assert wait_until(lambda: not left_of(directory.name, scratch), timeout_s=30)


def test_a_program_that_ends_at_once_is_named_with_its_last_words(scratch: Path):
    rehearse = (
        "from cnc.testbed.lab.rehearsal import rehearsal\n"
        "with rehearsal(['s1'], ['p1,p1']): raise AssertionError('it came up')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", rehearse],
        cwd=CHECKOUT,
        env={**os.environ, "TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "CncError: the switches did not come up: tsn-agent of s1 ended\n" in ended.stderr
    assert "s1 tsn-agent: tsn-agent: error: argument --rehearse: 'p1,p1'" in ended.stderr
    assert list(scratch.iterdir()) == []
