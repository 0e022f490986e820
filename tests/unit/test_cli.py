"""`cnc` as a process: what it prints, where, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"


def cnc(*argv: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cnc", *map(str, argv)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_sound_intent_is_summed_up_in_a_line() -> None:
    done = cnc("check", LINE3)
    assert done.returncode == 0
    assert done.stdout == (
        "line3 is sound: 3 switches, 4 end stations, 6 links, 3 classes, 4 streams\n"
    )


def test_a_bad_intent_ends_with_2_and_names_file_and_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(LINE3.read_text().replace("period: 500us", "period: 1 fortnight"))
    done = cnc("plan", bad)
    assert done.returncode == 2
    assert done.stdout == ""
    line = 1 + bad.read_text()[: bad.read_text().index("1 fortnight")].count("\n")
    assert f"{bad}:{line}:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_file_ends_with_2() -> None:
    done = cnc("push", "no-such-file.yaml")
    assert done.returncode == 2
    assert "no-such-file.yaml" in done.stderr


def test_streams_that_cannot_fit_end_with_1_and_say_why(tmp_path: Path) -> None:
    tight = tmp_path / "tight.yaml"
    text = LINE3.read_text()
    start = text.index("streams:")
    streams = "".join(
        f"  s{i}: {{talker: t1, listeners: [l1], class: cyclic, period: 250us, payload: 1400B, "
        "max-latency: 120us}\n"
        for i in range(20)
    )
    tight.write_text(text[:start] + "streams:\n" + streams)
    done = cnc("plan", tight)
    assert done.returncode == 1
    assert "cannot schedule every stream" in done.stderr
    assert "hint:" in done.stderr


def test_a_written_plan_is_valid_and_can_be_shown(tmp_path: Path) -> None:
    written = tmp_path / "plan.json"
    assert cnc("plan", LINE3, "-o", written).returncode == 0
    judged = cnc("check", written)
    assert (judged.returncode, judged.stderr) == (0, "")
    assert judged.stdout.startswith("plan of line3: valid (4 streams, ")
    drawn = tmp_path / "plan.svg"
    assert cnc("show", written, "--svg", drawn).returncode == 0
    assert drawn.read_text().startswith("<svg")


def test_a_plan_somebody_broke_is_refused_with_1(tmp_path: Path) -> None:
    plan = json.loads(cnc("plan", LINE3, "--json").stdout)
    plan["streams"]["motion"]["hops"][1][2] -= 4_000
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(plan))
    done = cnc("check", broken)
    assert done.returncode == 1
    assert "motion" in done.stdout
    assert json.loads(cnc("check", broken, "--json").stdout)["valid"] is False


@pytest.mark.parametrize("argv", [("check",), ("plan",), ("show",)], ids=lambda argv: argv[0])
def test_json_is_json_and_nothing_else(argv: tuple[str, ...]) -> None:
    done = cnc(*argv, LINE3, "--json")
    assert done.returncode == 0
    json.loads(done.stdout)


@pytest.mark.parametrize("argv", [("check",), ("plan",), ("show",)], ids=lambda argv: argv[0])
def test_a_pipe_gets_no_escape_sequences(argv: tuple[str, ...]) -> None:
    assert "\x1b" not in cnc(*argv, LINE3).stdout


def test_an_unreachable_switch_is_named_and_nothing_was_changed(tmp_path: Path) -> None:
    """No lab is up: the management addresses of the example are nobody's here."""
    nowhere = tmp_path / "nowhere.yaml"
    nowhere.write_text(LINE3.read_text().replace("10.99.0.", "127.255.99."))
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text("")
    done = cnc("push", nowhere, "--known-hosts", known_hosts, "--identity", tmp_path / "none")
    assert done.returncode == 1
    assert "s1: " in done.stderr
    assert "has no host key for [127.255.99.1]:830" in done.stderr
    assert "no switch was changed" in done.stderr
