"""What the shells offer after TAB, and the scripts that let them ask."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from cnc import cli
from cnc.testbed.lab import lifecycle


def offered(*words: str) -> list[str]:
    """What comes up behind `cnc WORD...`, the last of which is not finished."""
    *done, begun = words
    asked = BashComplete(cli.cnc, {}, "cnc", "_CNC_COMPLETE")
    return [str(item.value) for item in asked.get_completions(done, begun)]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a.yaml", "b.json", "c.py", "notes.txt", ".hidden.yaml"):
        (tmp_path / name).touch()
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "d.yml").touch()
    return tmp_path


def test_commands_and_options_are_offered() -> None:
    assert offered("pl") == ["plan"]
    assert offered("lab", "tr") == ["trace", "traffic"]
    assert "--algorithm" in offered("plan", "--al")
    assert offered("plan", "--algorithm", "no") == ["no-wait"]


def test_only_files_that_a_command_reads_are_offered_and_directories(directory: Path) -> None:
    assert offered("check", "") == ["a.yaml", "b.json", "below/"]
    assert offered("check", "below/") == ["below/d.yml"]
    assert offered("check", f"{directory}/a") == [f"{directory}/a.yaml"]
    assert offered("check", ".h") == [".hidden.yaml"]
    assert offered("check", "nowhere/") == []
    assert offered("lab", "up", "") == ["a.yaml", "below/", "c.py"]
    assert offered("diff", "") == ["a.yaml", "b.json", "below/"]
    assert offered("plan", "--keep", "b.") == ["b.json"]


def test_nodes_of_the_lab_that_is_up_are_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    labs = {"line3": ["s1", "t1"], "ring6": ["b1"]}
    monkeypatch.setattr(lifecycle, "names", lambda: list(labs))
    monkeypatch.setattr(
        lifecycle, "status", lambda name: [SimpleNamespace(node=node) for node in labs[name]]
    )
    assert offered("lab", "down", "") == ["line3", "ring6"]
    assert offered("lab", "exec", "") == ["line3", "ring6"]
    assert offered("lab", "exec", "line3", "") == ["s1", "t1"]
    assert offered("lab", "shell", "ring6", "") == ["b1"]
    assert offered("lab", "exec", "line3", "s1", "") == []
    del labs["ring6"]
    assert offered("lab", "exec", "s") == ["s1"]
    assert offered("lab", "exec", "s1", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_cnc(shell: str) -> None:
    printed = CliRunner().invoke(cli.cnc, ["completion", shell])
    assert printed.exit_code == 0
    assert f"_CNC_COMPLETE={shell}_complete" in printed.stdout


def test_bash_completes_with_the_script(directory: Path, tmp_path: Path) -> None:
    """As readline does it: the function is called with the words, and leaves its answer."""
    (tmp_path / "cnc").write_text(f'#!/bin/sh\nexec {sys.executable} -m cnc "$@"\n')
    (tmp_path / "cnc").chmod(0o755)
    program = """
        PATH=$PWD:$PATH
        eval "$(cnc completion bash)"
        complete -p cnc
        COMP_WORDS=(cnc check a) COMP_CWORD=2
        _cnc_completion cnc
        echo "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        ["bash", "-c", program],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    registered, completed = done.stdout.splitlines()
    assert "-o filenames" in registered
    assert completed == "a.yaml"


def test_another_shell_is_bad_input() -> None:
    assert CliRunner().invoke(cli.cnc, ["completion", "tcsh"]).exit_code == 2
