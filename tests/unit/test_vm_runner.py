"""What the runner of kernels makes of its options and of the environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cnc.testbed.lab.vm import runner


def request(**changed: object) -> runner.Request:
    asked = {"command": ["true"], "memory": "1G", "out": None, "timeout_s": 1.0}
    return runner.Request(**asked | {"virtual_time": True, "oscillator_ppb": 0} | changed)


def variables(command: Path) -> list[str]:
    """What the guest's command has in its environment."""
    return command.read_text().partition("env -i ")[2].split()


def test_results_go_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TSN_OUT", str(tmp_path))
    assert runner.parse(["true"]).out == tmp_path
    assert runner.parse(["--out", "elsewhere", "true"]).out == Path("elsewhere")


def test_nothing_is_kept_where_nobody_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TSN_OUT", "")
    assert runner.parse(["true"]).out is None
    monkeypatch.delenv("TSN_OUT")
    assert runner.parse(["true"]).out is None


@pytest.mark.parametrize(("lane", "there"), [("uml", "/mnt/out"), ("own", "/results")])
def test_a_command_finds_in_tsn_out_a_directory_that_it_can_write_to(
    lane: str, there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TSN_OUT", "/of/this/machine")
    command = tmp_path / "command"
    runner.write_command(request(out=Path("/results")), lane, command)
    assert f"TSN_OUT={there}" in variables(command)
    runner.write_command(request(), lane, command)
    assert not [each for each in variables(command) if each.startswith("TSN_OUT=")]


def test_a_kernel_without_taprio_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 2, "", "Error: Specified qdisc kind is unknown.\n")

    monkeypatch.setattr(runner.os, "geteuid", lambda: 0)
    monkeypatch.setattr(runner.subprocess, "run", refuse)
    assert runner.own_kernel_lacks() == "no taprio (Specified qdisc kind is unknown.)"


def test_an_installed_controller_has_the_runner_as_a_module() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "cnc.testbed.lab.vm", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "--virtual-time" in ran.stdout
