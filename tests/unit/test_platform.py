"""What is written of a measurement: its kernel and clock, and which program made it, how called."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cnc import __version__, cli
from cnc.cli.options import command_line
from cnc.testbed import experiments
from cnc.testbed.lab import platform
from cnc.testbed.lab.platform import Platform, made_by
from cnc.testbed.lab.timer_latency import TimerLatency

CHECKOUT = Path(__file__).parents[2]
EXACT = Platform("Linux 6.12, user-mode Linux", "virtual time", exact=True)


def git(directory: Path, *words: str) -> str:
    author = ["-c", "user.name=a", "-c", "user.email=a@example.net"]
    argv = ["git", "-C", str(directory), *author, *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose program this is."""
    git(tmp_path, "init", "-q")
    program = tmp_path / "cnc/testbed/lab/platform.py"
    program.parent.mkdir(parents=True)
    program.touch()
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "all")
    monkeypatch.setattr(platform, "__file__", str(program))
    return tmp_path


def test_a_measurement_says_which_commit_made_it(checkout: Path, tmp_path: Path):
    git(checkout, "tag", "v1", "-m", "one")
    EXACT.write(tmp_path, made_by("cnc lab measure it.yaml"))
    assert json.loads((tmp_path / platform.FILE).read_text()) == {
        "kernel": EXACT.kernel,
        "clock": "virtual time",
        "exact": True,
        "timer_latency": None,
        "version": __version__,
        "commit": git(checkout, "rev-parse", "HEAD"),
        "command": "cnc lab measure it.yaml",
    }
    assert Platform.read(tmp_path) == EXACT


def test_a_measurement_on_a_real_clock_says_how_late_timers_were(tmp_path: Path):
    late = replace(EXACT, clock="real time", timer_latency=TimerLatency(213, 301_000, 2_130_000))
    late.write(tmp_path)
    read = Platform.read(tmp_path)
    assert read == late
    assert str(read) == (
        "Linux 6.12, user-mode Linux, real time, timers up to 2.13 ms late (99 %: 301 µs)"
    )


def test_what_was_written_before_timers_were_measured_is_read(tmp_path: Path):
    before = {"kernel": "Linux 6.12", "clock": "real time", "exact": False}
    (tmp_path / platform.FILE).write_text(json.dumps(before))
    assert str(Platform.read(tmp_path)) == "Linux 6.12, real time"


def test_a_program_that_was_changed_after_its_commit_says_so(checkout: Path):
    (checkout / "cnc/testbed/lab/platform.py").write_text("# changed\n")
    assert made_by(None)["commit"] == git(checkout, "rev-parse", "HEAD") + "-dirty"


def test_an_installed_package_has_a_version_and_no_commit(checkout: Path):
    shutil.rmtree(checkout / ".git")
    assert made_by(None) == {"version": __version__, "commit": None, "command": None}


def test_no_git_is_no_reason_to_fail(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert made_by(None)["commit"] is None


def test_the_command_line_is_as_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    told = []

    def note(*_: object, command: str | None, **__: object) -> None:
        told.append(command)
        sys.exit(0)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(experiments, "measure", note)
    file = str(CHECKOUT / "schedules/experiments/bound-check.yaml")
    monkeypatch.setattr(sys, "argv", ["/usr/bin/cnc", "lab", "measure", file, "-o", "a b"])
    with pytest.raises(SystemExit):
        cli.main()
    assert told == [f"cnc lab measure {file} -o 'a b'"]


def test_without_a_command_there_is_no_command_line():
    with cli.cnc.make_context("cnc", ["plan"]):
        assert command_line() is None
