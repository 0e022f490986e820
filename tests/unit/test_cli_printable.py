"""Whatever a switch, a neighbour or a plan file says, nothing of it can command the terminal."""

from __future__ import annotations

import json
import logging
import unicodedata
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from cnc import cli
from cnc.cli import render
from cnc.cli.watch import _print_json, _print_line
from cnc.errors import RolloutError
from cnc.plans import file as planfile
from cnc.support.format import printable
from cnc.switch.device import Device, DeviceError
from cnc.watch import Event
from tests.unit.strange_switch import strange_switch

CHECKOUT = Path(__file__).parents[2]
LINE3 = CHECKOUT / "schedules" / "line3.yaml"
# C0, DEL, C1, and what changes the direction of writing, beside others that nobody sees.
EVIL = "a\x1b]0;owned\x07\r\b\x7f\x9b31m\x85\u200b\u202e\u2066\u2028\ufeff\U000e0041z"
SHOWN = (
    r"a\u001b]0;owned\u0007\u000d\u0008\u007f\u009b31m\u0085\u200b\u202e\u2066\u2028\ufeff"
    r"\udb40\udc41z"
)


def is_harmless(text):
    return not [c for c in text if c != "\n" and unicodedata.category(c)[0] == "C"]


@given(st.text())
def test_what_is_printable_stays_and_everything_else_is_escaped_as_json_does(text):
    shown = printable(text)
    assert is_harmless(shown.replace("\t", ""))
    document = printable(json.dumps(text, ensure_ascii=False))
    assert json.loads(document) == text
    if text.isprintable():
        assert shown == text


def test_the_escapes_show_what_was_there():
    assert printable(EVIL) == SHOWN
    assert printable("Größe ≤ 3 µs — “ok” 交换机\n\tnext") == "Größe ≤ 3 µs — “ok” 交换机\n\tnext"


@pytest.fixture
def plan_file(tmp_path):
    """A plan whose words somebody chose."""
    run = CliRunner().invoke(cli.cnc, ["plan", str(LINE3), "--json"])
    document = json.loads(run.stdout)
    del document["streams"]["camera"]
    document["refused"] = {"camera": EVIL}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("words", [["check"], ["show"], ["check", "--json"], ["show", "--json"]])
def test_the_words_of_a_plan_file_are_shown_and_do_nothing(words, plan_file):
    run = CliRunner().invoke(cli.cnc, [*words, str(plan_file)])
    assert is_harmless(run.output)
    if "--json" in words:
        assert json.loads(run.stdout)["refused"]["camera"] == EVIL
    else:
        assert SHOWN in run.stdout


def test_a_chart_in_colour_paints_itself_and_nothing_else(plan_file, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = CliRunner().invoke(cli.cnc, ["show", str(plan_file)], color=True).stdout
    assert "\x1b[1m" in shown
    assert SHOWN in shown
    assert "\x1b]" not in shown


def test_the_key_of_a_plan_file_that_is_refused_is_shown_and_does_nothing(plan_file, capsys):
    document = json.loads(plan_file.read_text())
    document["gates"][f"s1/{EVIL}"] = next(iter(document["gates"].values()))
    plan_file.write_text(json.dumps(document))
    with pytest.raises(planfile.InputError) as refused:
        planfile.load(plan_file)
    render.error(refused.value)
    told = capsys.readouterr().err
    assert f"gates.s1/{SHOWN}" in told
    assert is_harmless(told)


def test_an_error_of_a_switch_is_shown_and_does_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CNC_TIMEOUT", "5")
    words = "\x9b2J\u202e\x7f"  # XML has no other control characters
    reply = (
        "<rpc-error><error-tag>operation-failed</error-tag><error-severity>error</error-severity>"
        f"<error-message>no {words}</error-message></rpc-error>"
    )
    with (
        strange_switch(tmp_path, answer=lambda _: reply) as switch,
        pytest.raises(DeviceError) as refused,
        Device(switch.managed, switch.options()) as device,
    ):
        device.lock("running")
    for as_json in (False, True):
        render.error(RolloutError(str(refused.value), hint=words), as_json=as_json)
        told = capsys.readouterr().err
        assert is_harmless(told)
        if as_json:
            assert json.loads(told)["error"] == f"s1: no {words}"


def test_what_watch_tells_is_shown_and_does_nothing(capsys):
    event = Event("began", "unreachable", "s1", EVIL, EVIL, datetime.now(UTC))
    _print_line(event)
    _print_json(event)
    line, document = capsys.readouterr().out.splitlines()
    assert is_harmless(line)
    assert is_harmless(document)
    assert json.loads(document)["text"] == EVIL


def test_a_table_shows_foreign_text_and_does_nothing(capsys):
    table = render.output.new_table(EVIL, "what")
    table.add_row(EVIL)
    render.output.print_table(table)
    told = capsys.readouterr().out
    assert told.count(SHOWN) == 2
    assert is_harmless(told)


def test_log_lines_are_shown_and_do_nothing(capsys, monkeypatch):
    logger = logging.getLogger("cnc")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", True)
    level = logger.level
    CliRunner().invoke(cli.cnc, ["-v", "config"])
    (handler,) = logger.handlers
    shown = handler.format(logging.LogRecord("cnc", 20, "", 0, "from %s: %s", ("s1", EVIL), None))
    logger.setLevel(level)
    assert shown.endswith(f"from s1: {SHOWN}")


def test_all_commands_print_by_the_one_way_out():
    """But the chart, which paints, and the scripts of shells, which are our own text."""
    others = [
        path.name
        for path in (CHECKOUT / "cnc" / "cli").rglob("*.py")
        for line in path.read_text().splitlines()
        if path.name != "terminal.py" and "click.echo(" in line
    ]
    assert sorted(others) == ["completion.py", "planning.py"]
