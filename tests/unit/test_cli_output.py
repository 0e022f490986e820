"""Colours and width, files that are written whole, `cnc init`, and how fast `cnc` starts."""

from __future__ import annotations

import json
import os
import pty
import re
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.table import Table

from cnc import cli, intent
from cnc.cli.render.output import new_table, print_table
from cnc.errors import InputError
from cnc.support import whole_file

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
COLOUR = "\x1b["


def cnc(*argv: object) -> Result:
    return CliRunner().invoke(cli.cnc, [str(word) for word in argv])


def shown(*, terminal: bool, **environment: str) -> str:
    """What `cnc show` prints to a terminal, or into a pipe."""
    plain = {"HOME": os.environ["HOME"], "PATH": os.environ["PATH"]}
    command = [sys.executable, "-m", "cnc", "show", str(LINE3)]
    if not terminal:
        return subprocess.run(
            command, env=plain | environment, capture_output=True, text=True, check=True
        ).stdout
    ours, its = pty.openpty()
    with subprocess.Popen(command, env=plain | environment, stdout=its) as showing:
        os.close(its)
        with os.fdopen(ours, encoding="utf-8") as screen:
            lines: list[str] = []
            with suppress(OSError):  # how a terminal says that nobody is there any more
                lines.extend(iter(screen.readline, ""))
    assert showing.returncode == 0
    return "".join(lines)


@pytest.mark.parametrize(
    ("terminal", "environment", "coloured"),
    [
        (True, {"TERM": "xterm-256color"}, True),
        (True, {"TERM": "xterm-256color", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {"TERM": "xterm-256color"}, False),
        (False, {"TERM": "xterm-256color", "FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(
    terminal: bool, environment: dict[str, str], coloured: bool
) -> None:
    assert (COLOUR in shown(terminal=terminal, **environment)) is coloured


def test_a_pipe_gets_lines_that_nothing_folds_unless_it_names_a_width() -> None:
    wide, narrow = shown(terminal=False), shown(terminal=False, COLUMNS="60")
    assert max(map(len, wide.splitlines())) > 120
    assert max(map(len, narrow.splitlines())) < 65


def wide_table() -> Table:
    table = new_table("layers", "flow", *(f">layer {n}" for n in range(14)))
    table.add_row("background s1 to l1", *["128599.123"] * 14)
    return table


def test_a_pipe_gets_the_figures_of_a_wide_table_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table(wide_table())
    (row,) = (line for line in capsys.readouterr().out.splitlines() if "128599" in line)
    assert row.split() == ["background", "s1", "to", "l1", *["128599.123"] * 14]


def test_texts_are_folded_in_a_pipe_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    table = new_table("", "why")
    table.add_row("word " * 100)
    print_table(table)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 160


def test_a_narrow_terminal_shows_every_digit_of_a_figure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    print_table(wide_table())
    digits = [each for each in capsys.readouterr().out.split("─")[-1] if each.isdigit()]
    assert len(digits) == 14 * len("128599123") + len("11")  # those of s1 and l1


def test_init_writes_an_intent_that_loads_plans_and_passes(tmp_path: Path) -> None:
    file, plan = tmp_path / "mine.yaml", tmp_path / "plan.json"
    written = cnc("init", file)
    assert written.exit_code == 0
    assert f"cnc check {file} " in written.stdout
    loaded = intent.load(file)
    assert all(bridge.management for bridge in loaded.network.bridges.values())
    assert cnc("plan", file, "-o", plan).exit_code == 0
    assert cnc("check", plan).exit_code == 0


def test_the_example_of_init_says_how_many_streams_fit_with_either_kind_of_windows(
    tmp_path: Path,
) -> None:
    file = tmp_path / "mine.yaml"
    cnc("init", file)
    example = file.read_text()
    said = re.search(r"`windows: auto` all (\d+) .*`windows: exact` (\d+) ", example, re.DOTALL)
    assert said
    above, below = re.split("(?<=the # of the lines below.\n)", example)
    for windows, fit in zip(("auto", "exact"), said.groups(), strict=True):
        file.write_text(
            above.replace("windows: auto ", f"windows: {windows} ") + below.replace("#", "")
        )
        planned = cnc("plan", file, "--best-effort", "--json")
        assert len(json.loads(planned.stdout)["streams"]) == int(fit), windows


def test_init_overwrites_nothing_unless_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "network.yaml"
    file.write_text("mine")
    error = cnc("init").exception
    assert isinstance(error, InputError)
    assert "--force" in (error.hint or "")
    assert file.read_text() == "mine"
    assert cnc("init", "--force").exit_code == 0
    assert intent.load(file).name == "my-network"


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_who_is_stopped_while_writing_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, failure: BaseException
) -> None:
    file = tmp_path / "plan.json"
    whole_file.write(file, "old")

    def stop(*_: object) -> None:
        raise failure

    monkeypatch.setattr(os, "fsync", stop) if call == "fsync" else monkeypatch.setattr(
        Path, "replace", stop
    )
    with pytest.raises((InputError, KeyboardInterrupt)):
        whole_file.write(file, "new")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "kept.json", tmp_path / "link.json"
    file.write_text("old")
    link.symlink_to(file)
    whole_file.write(link, "new")
    assert link.is_symlink()
    assert file.read_text() == "new"


def test_a_new_file_has_the_mode_of_any_other_and_a_replaced_one_keeps_its_own(
    tmp_path: Path,
) -> None:
    file, other = tmp_path / "plan.json", tmp_path / "other"
    other.touch()
    whole_file.write(file, "new")
    assert file.stat().st_mode == other.stat().st_mode
    file.chmod(0o640)
    whole_file.write(file, "newer")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_what_is_no_file_is_written_into_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    whole_file.write(pipe, "through")
    reader.join()
    assert read == ["through"]
    assert pipe.is_fifo()


def test_where_nobody_may_write_the_reason_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: No such file") as refused:
        whole_file.write(tmp_path / "nowhere" / "plan.json", "x")
    assert refused.value.hint


def test_the_start_loads_no_library_but_that_of_the_command_line() -> None:
    program = (
        "import sys\n"
        "import cnc.cli\n"
        "print(*{name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names)\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{program}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=LINE3.parents[1],
    )
    assert set(done.stdout.split()) == {"click", "cnc", "__main__"}


def test_the_start_leaves_out_what_only_some_need() -> None:
    program = "import sys, cnc.cli; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not {"logging", "tomllib", "rich", "pydantic", "yaml"} & set(done.stdout.split())
