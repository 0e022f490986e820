"""`cnc history`: what an operator is told of the rollouts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cnc import app, cli, rollout
from cnc.errors import CncError, InputError, RolloutError, Unschedulable
from cnc.model import Plan
from cnc.plans import file as planfile
from cnc.rollout.history import FILE_NAME, History, Outcome, Phase
from tests.unit.rollout_history import LINE3, begin, change


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def history(state_dir: Path) -> Iterator[History]:
    with History(state_dir / FILE_NAME) as opened:
        yield opened


def cnc(*argv: object, **environment: str) -> Result:
    return CliRunner().invoke(cli.cnc, [str(word) for word in argv], env=environment)


def row(shown: str, number: int) -> str:
    """The line of a table about a rollout."""
    return next(line for line in shown.splitlines() if line.split()[:1] == [str(number)])


def test_a_rollout_is_a_line_with_who_what_and_how_much(history: History, state_dir: Path) -> None:
    with begin(history, {"s1": change(), "s2": change()}, what="push [a].yaml") as journal:
        journal.end(Phase.DONE)
    shown = cnc("history", "--state-dir", state_dir)
    line = row(shown.output, 1)
    for word in ("line3", "alice@lab", "push [a].yaml", "done"):
        assert word in line
    assert line.split()[-2:] == ["2", "6"]  # switches, ports
    assert shown.exit_code == 0


def test_the_intent_of_a_rollout_plans_as_it_did(
    history: History, state_dir: Path, tmp_path: Path
) -> None:
    with begin(history, plan=LINE3) as journal:
        journal.end(Phase.DONE)
    printed = cnc("history", 1, "--intent", "--state-dir", state_dir)
    again = tmp_path / "again.yaml"
    again.write_text(printed.output)
    assert app.load_intent(again).document == LINE3.intent.document
    assert cnc("history", "--intent", "--state-dir", state_dir).exit_code == 2


def test_what_was_not_confirmed_everywhere_comes_first_and_says_what_to_do(
    history: History, state_dir: Path
) -> None:
    with begin(history, {"s1": change(), "s2": change()}) as journal:
        journal.decide()
        journal.result("s1", Outcome.CONFIRMED)
    for _ in range(3):
        with begin(history, network="other") as journal:
            journal.end(Phase.DONE)
    shown = cnc("history", "--limit", 2, "--state-dir", state_dir).output
    first, hint, *table = shown.splitlines()
    assert "rollout 1 of line3" in first
    assert "was not confirmed everywhere" in first
    assert "s1 confirmed, s2 unknown" in first
    assert "cnc push --resume" in hint
    assert "cnc push --rollback" in hint
    assert [line.split()[0] for line in table if line.strip()[:1].isdigit()] == ["4", "3", "1"]


def test_a_rollout_that_others_still_make_is_no_alarm(history: History, state_dir: Path) -> None:
    with begin(history) as journal:
        journal.decide()
        shown = cnc("history", "--state-dir", state_dir).output
    assert shown.startswith("rollout 1 of line3 is in progress\n")
    assert "confirming, in progress" in row(shown, 1)
    assert "--resume" not in shown


def test_a_rollout_that_was_given_up_early_needs_no_choice(
    history: History, state_dir: Path
) -> None:
    begin(history).close()
    shown = cnc("history", "--state-dir", state_dir).output
    assert shown.startswith("rollout 1 of line3 was abandoned before its decision: ")
    assert "--resume" not in shown


def broken_plan(tmp_path: Path) -> Path:
    """A plan that the judge refuses."""
    name, its = next(iter(LINE3.streams.items()))
    broken = replace(its, latency_bound_ns=1)
    file = tmp_path / "broken.json"
    app.dump_plan(replace(LINE3, streams={**LINE3.streams, name: broken}), file)
    return file


def test_a_refused_push_is_a_line_with_its_reason(
    history: History, state_dir: Path, tmp_path: Path
) -> None:
    with begin(history, plan=LINE3) as journal:
        journal.end(Phase.DONE)
    refused = cnc("push", broken_plan(tmp_path), "-m", "try it", "--state-dir", state_dir)
    assert refused.exit_code == 1
    line = row(cnc("history", "--state-dir", state_dir).output, 2)
    assert "push broken.json: try it" in line
    assert line.split()[-3:] == ["refused", "0", "0"]
    told = cnc("history", 2, "--state-dir", state_dir).output
    assert "phase    refused: " in told
    assert "1 ns" in told  # the bound that the judge does not find
    document = json.loads(cnc("history", 2, "--json", "--state-dir", state_dir).output)
    assert document["refused"]
    assert history.running("line3") == 1


def test_the_reason_of_a_refusal_of_many_streams_is_kept_short(
    history: History, state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Unschedulable({f"s{n}": "no room" for n in range(1000)})

    monkeypatch.setattr(app, "plan_to_push", refuse)
    cnc("push", broken_plan(tmp_path), "--state-dir", state_dir)
    assert history.rollout(1).detail.count("no room") == 39
    assert history.rollout(1).detail.endswith("and 961 lines more")


def test_neither_a_trial_nor_a_rollout_that_had_begun_is_a_refused_push(
    history: History, state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cnc("push", broken_plan(tmp_path), "--dry-run", "--state-dir", state_dir)
    assert history.rollouts() == []

    def fail(*_: object, **__: object) -> None:
        with begin(history) as journal:
            journal.end(Phase.ROLLED_BACK)
        raise RolloutError("s1: does not answer")

    monkeypatch.setattr(rollout, "push", fail)
    cnc("push", broken_plan(tmp_path), "--state-dir", state_dir)
    assert [its.refused for its in history.rollouts()] == [False]


def test_the_rollouts_of_one_network_can_be_asked_for(history: History, state_dir: Path) -> None:
    for network in ("a", "b"):
        begin(history, network=network).close()
    found = json.loads(cnc("history", "b", "--json", "--state-dir", state_dir).output)
    assert [rollout["number"] for rollout in found] == [2]
    assert "rollout 1" not in cnc("history", "b", "--state-dir", state_dir).output


def test_one_rollout_is_shown_with_the_result_on_each_switch(
    history: History, state_dir: Path
) -> None:
    with begin(history, {"s1": change("192.0.2.1"), "s2": change("192.0.2.2")}) as journal:
        journal.decide()
        journal.result("s1", Outcome.SAVED)
        journal.result("s2", Outcome.CONFIRMED, "startup is [read-only]")
        journal.end(Phase.DONE, "s2 must be saved by hand")
    shown = cnc("history", 1, "--state-dir", state_dir).output
    assert "done: s2 must be saved by hand\n" in shown
    lines = {
        line.split()[0]: " ".join(line.split()[1:]) for line in shown.splitlines() if line.split()
    }
    assert lines["s1"] == "192.0.2.1 830 saved p1, p2, p3"
    assert lines["s2"] == "192.0.2.2 830 confirmed p1, p2, p3 startup is [read-only]"
    assert lines["s1/p2"] == "500 µs, 1 entry 1 ms, 1 entry"
    assert lines["s2/p3"] == "500 µs, 1 entry –"  # noqa: RUF001


def test_programs_get_one_rollout_with_its_gate_control_lists(
    history: History, state_dir: Path
) -> None:
    with begin(history) as journal:
        journal.end(Phase.ROLLED_BACK, "s1: out of memory")
    found = json.loads(cnc("history", 1, "--json", "--state-dir", state_dir).output)
    assert (found["phase"], found["detail"]) == ("taken back", "s1: out of memory")
    assert found["base_time_ns"] == 1_800_000_000_000_000_000
    switch = found["switches"]["s1"]
    assert (switch["address"], switch["outcome"]) == ("192.0.2.1 830", "unknown")
    assert switch["ports"]["p3"]["after"] is None
    assert switch["ports"]["p1"] == {
        "before": None,
        "after": {"cycle_ns": 1_000_000, "entries": [["0x81", 1_000_000]]},
    }


def test_an_unknown_number_is_bad_input(state_dir: Path) -> None:
    failed = cnc("history", 7, "--state-dir", state_dir).exception
    assert isinstance(failed, InputError)
    assert "has no rollout 7" in str(failed)


def test_a_history_without_rollouts_says_so(state_dir: Path) -> None:
    assert cnc("history", "--state-dir", state_dir).output == "no rollout is recorded\n"
    assert json.loads(cnc("history", "--json", "--state-dir", state_dir).output) == []


@pytest.mark.parametrize(
    ("environment", "directory"),
    [
        ({"CNC_STATE_DIR": "{tmp}/mine", "XDG_STATE_HOME": "{tmp}/xdg"}, "mine"),
        ({"XDG_STATE_HOME": "{tmp}/xdg"}, "xdg/cnc"),
        ({"XDG_STATE_HOME": "not/absolute"}, "home/.local/state/cnc"),
        ({}, "home/.local/state/cnc"),
    ],
)
def test_the_history_lies_where_the_environment_says(
    environment: dict[str, str],
    directory: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("CNC_STATE_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    its = {name: value.format(tmp=tmp_path) for name, value in environment.items()}
    assert cnc("history", HOME=str(tmp_path / "home"), **its).exit_code == 0
    assert (tmp_path / directory / FILE_NAME).exists()


def test_a_history_that_cannot_be_opened_is_an_error_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    failed = cnc("history", "--state-dir", tmp_path / "file" / "below").exception
    assert isinstance(failed, CncError)
    assert "Not a directory" in str(failed)


# --- the plan of a rollout, by its number --------------------------------------------------------


@pytest.fixture
def pushed(history: History) -> Plan:
    """The plan of rollout 1, the newest that was completed; rollout 2 failed."""
    with begin(history, plan=LINE3) as journal:
        journal.end(Phase.DONE)
    with begin(history, plan=LINE3) as journal:
        journal.end(Phase.ROLLED_BACK)
    return LINE3


def test_the_plan_that_a_rollout_deployed_is_written_to_a_file(
    pushed: Plan, state_dir: Path, tmp_path: Path
) -> None:
    file = tmp_path / "running.json"
    assert cnc("history", 1, "-o", file, "--state-dir", state_dir).exit_code == 0
    assert planfile.load(file) == pushed
    assert cnc("check", file).exit_code == 0


def test_a_plan_file_needs_the_number_of_a_rollout(pushed: Plan, state_dir: Path) -> None:
    refused = cnc("history", "line3", "-o", state_dir / "p.json", "--state-dir", state_dir)
    assert refused.exit_code == 2
    assert "-o needs the NUMBER of a rollout" in refused.output


@pytest.mark.parametrize("command", ["check", "show", "talkers"])
def test_commands_take_the_number_of_a_rollout_in_place_of_its_plan(
    command: str, pushed: Plan, state_dir: Path, tmp_path: Path
) -> None:
    file = tmp_path / "plan.json"
    planfile.dump(pushed, file)
    of_file = cnc(command, file, "--state-dir", state_dir)
    assert of_file.exit_code == 0
    assert cnc(command, 1, "--state-dir", state_dir).output == of_file.output
    assert cnc("diff", 1, file, "--state-dir", state_dir).output.startswith("no difference")


def test_an_unknown_number_in_place_of_a_file_is_bad_input(pushed: Plan, state_dir: Path) -> None:
    refused = cnc("check", 7, "--state-dir", state_dir)
    assert isinstance(refused.exception, InputError)
    assert "no rollout 7" in str(refused.exception)


def test_an_edited_intent_is_compared_as_a_push_would_plan_it(
    pushed: Plan, state_dir: Path, tmp_path: Path
) -> None:
    document = json.loads(json.dumps(pushed.intent.document))
    del document["streams"]["camera"]
    document["classes"]["fast"] = document["classes"].pop("cyclic")
    for stream in document["streams"].values():
        stream["class"] = "fast"
    file = tmp_path / "edited.yaml"
    file.write_text(json.dumps(document))
    shown = cnc("diff", 1, file, "--json", "--state-dir", state_dir)
    placed = json.loads(shown.output)["placed"]
    assert {name: its["after"] for name, its in placed.items()} == {"camera": None}


def test_a_plan_that_is_not_the_deployed_one_is_told_apart(
    pushed: Plan, history: History, tmp_path: Path
) -> None:
    assert app.other_than_deployed(history, pushed) is None
    assert app.other_than_deployed(history, pushed.intent) is None  # planned as it runs
    other = replace(pushed, streams={})
    found = app.other_than_deployed(history, other)
    assert found is not None
    assert found.number == 1


def test_talkers_of_a_pushed_intent_are_those_of_the_plan_that_runs(
    history: History, state_dir: Path, tmp_path: Path
) -> None:
    hop = LINE3.streams["motion"].hops[0]
    moved = replace(
        LINE3.streams["motion"],
        paths=tuple(
            tuple(replace(its, offset_ns=its.offset_ns + 1000) for its in path)
            for path in LINE3.streams["motion"].paths
        ),
    )
    running = replace(LINE3, streams={**LINE3.streams, "motion": moved})
    with begin(history, plan=running) as journal:
        journal.end(Phase.DONE)
    file = tmp_path / "line3.yaml"
    file.write_text(json.dumps(LINE3.intent.document))
    shown = json.loads(cnc("talkers", file, "--json", "--state-dir", state_dir).output)
    offsets = [row["offset_ns"] for row in shown if row["stream"] == "motion"]
    assert offsets == [hop.offset_ns + 1000]
