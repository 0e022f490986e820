"""`cnc` as a process: what it prints, where, and how it ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cnc import check, cli, planner, rollout
from cnc.cli import planning
from cnc.data_tree.stated import StatedPorts
from cnc.model import GateLimits, Network, Plan, PortRef
from cnc.plans import file as planfile

NOTHING_PUSHED = rollout.Report((), None, None, None, {}, 0)
LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
HEAVY = ("distributed", "ncclient", "numpy", "ortools", "pandas")


def cnc(*argv: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cnc", *map(str, argv)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def start(*argv: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "cnc", *map(str, argv)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def line3_with(streams: dict[str, str], file: Path) -> Path:
    """The network of the example with other streams, each the text of a mapping."""
    text = LINE3.read_text()
    lines = "".join(f"  {name}: {{{stream}}}\n" for name, stream in streams.items())
    file.write_text(text[: text.index("streams:")] + "streams:\n" + lines)
    return file


def with_short_best_effort(file: Path) -> Path:
    """The intent with so short best-effort frames that they fit into what full links leave."""
    file.write_text(file.read_text().replace("max-frame: 1522B", "max-frame: 64B"))
    return file


@pytest.fixture(autouse=True)
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A history of its own for every test."""
    monkeypatch.setenv("CNC_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def tight(tmp_path: Path) -> Path:
    """More long frames than the cables between the switches can carry: each is full with 18."""
    stream = "talker: t1, listeners: [l1], class: cyclic, period: 250us, payload: 1400B"
    streams = {f"s{i}": f"{stream}, max-latency: 120us" for i in range(20)}
    return with_short_best_effort(line3_with(streams, tmp_path / "tight.yaml"))


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """Streams that could keep the planner at it for some seconds, and never all fit."""
    streams = {
        f"s{i}": f"talker: t{i % 2 + 1}, listeners: [l{i // 2 % 2 + 1}], class: cyclic, "
        f"period: {(3, 4, 5, 7)[i % 4]}ms, payload: {(100, 400, 1400)[i % 7 % 3]}B, "
        f"max-latency: 200us"
        for i in range(500)
    }
    file = with_short_best_effort(line3_with(streams, tmp_path / "endless.yaml"))
    file.write_text(file.read_text().replace("gates: software", "gates: full-offload"))
    return file


def interrupted(*argv: object) -> tuple[int, str, str]:
    """Exit code, output and errors of a `cnc` that gets a Ctrl-C once something has a place."""
    process = start("-v", *argv)
    assert process.stderr is not None
    for shown in process.stderr:
        if re.search(r": [1-9][\d,]* of [\d,]+ placed", shown):
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


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


def test_each_problem_of_a_file_is_followed_by_its_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(
        LINE3.read_text()
        .replace("period: 500us", "period: 1 fortnight")
        .replace("period: 2ms", "period: soon")
    )
    lines = bad.read_text().splitlines()
    told = cnc("plan", bad).stderr.splitlines()
    numbers = [int(line.partition(f"{bad}:")[2].partition(":")[0]) for line in told[::2]]
    assert len(numbers) == 2
    assert told[1::2] == [f"{number:>5} | {lines[number - 1]}" for number in numbers]
    assert "fortnight" in told[1]


def test_a_deadline_that_no_network_keeps_sends_nobody_to_an_example(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(LINE3.read_text().replace("max-latency: 50us", "max-latency: 5us"))
    done = cnc("plan", bad)
    assert "found 5us, expected at least" in done.stderr
    assert "hint" not in done.stderr


def test_a_missing_file_ends_with_2() -> None:
    done = cnc("push", "no-such-file.yaml")
    assert done.returncode == 2
    assert "no-such-file.yaml" in done.stderr


def test_streams_that_cannot_fit_end_with_1_and_say_why(tight: Path) -> None:
    done = cnc("plan", tight, "--algorithm", "waiting")
    assert done.returncode == 1
    assert "cannot schedule every stream" in done.stderr
    assert "hint:" in done.stderr


def test_of_many_reasons_the_first_twenty_are_shown_and_the_others_counted(tmp_path: Path) -> None:
    stream = "talker: t1, listeners: [l1], class: cyclic, period: 1ms, payload: 100B"
    streams = {f"s{i}": f"{stream}, max-latency: 25.2us" for i in range(25)}
    done = cnc("plan", line3_with(streams, tmp_path / "late.yaml"))
    assert done.returncode == 1
    reasons = [line for line in done.stderr.splitlines() if line.startswith("  s")]
    assert len(reasons) == 20
    assert "\nand 5 more\nhint: " in done.stderr


def test_best_effort_leaves_streams_out_and_says_which(tight: Path, tmp_path: Path) -> None:
    written = tmp_path / "plan.json"
    done = cnc("plan", tight, "--algorithm", "waiting", "--best-effort", "-o", written)
    assert done.returncode == 0
    refused = json.loads(written.read_text())["refused"]
    assert 0 < len(refused) < 20
    assert f"NO place for {len(refused)} of 20 streams:" in done.stdout
    for name, why in refused.items():
        assert f"  {name}: {why}\n" in done.stdout
    assert cnc("check", written).returncode == 0


def test_best_effort_for_programs_gives_the_reasons_in_the_plan(tight: Path) -> None:
    done = cnc("plan", tight, "--algorithm", "waiting", "--best-effort", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    plan = json.loads(done.stdout)
    assert len(plan["streams"]) + len(plan["refused"]) == 20


def test_what_runs_is_kept_and_the_summary_counts_it(tmp_path: Path) -> None:
    """One stream is new, one asks for something else, one is gone; the fourth must not move."""
    running, after = tmp_path / "running.json", tmp_path / "after.json"
    assert cnc("plan", LINE3, "-o", running).returncode == 0
    text = (
        LINE3.read_text().replace("  camera:", "  photo:").replace("payload: 200B", "payload: 1B")
    )
    changed = tmp_path / "changed.yaml"
    changed.write_text(text.replace("payload: 1B", "payload: 210B"))
    done = cnc("plan", changed, "--keep", running, "-o", after)
    assert done.returncode == 0
    assert done.stdout.endswith(
        "kept 2 running streams in place, placed 1 changed one again, added 1, removed 1\n"
    )
    before, now = (planfile.load(file).streams for file in (running, after))
    for kept in ("torque", "valves"):
        assert now[kept].paths == before[kept].paths


def test_reoptimising_says_who_would_move(tmp_path: Path) -> None:
    """Kept where another seat has become free, a stream would move only if all may."""
    running = tmp_path / "running.json"
    assert cnc("plan", LINE3, "-o", running).returncode == 0
    without = tmp_path / "without.yaml"
    text = LINE3.read_text()
    without.write_text(
        text[: text.index("  torque:")]
        + text[text.index("  camera:") : text.index("  valves:")]
        + text[text.index("  valves:") :]
    )
    kept = cnc("plan", without, "--keep", running, "--json")
    anew = cnc("plan", without, "--keep", running, "--reoptimise", "-o", tmp_path / "anew.json")
    assert (kept.returncode, anew.returncode) == (0, 0)
    before = json.loads(running.read_text())["streams"]
    now = json.loads((tmp_path / "anew.json").read_text())["streams"]
    moved = [name for name in ("motion", "camera", "valves") if now[name] != before[name]]
    assert moved
    assert anew.stdout.endswith(
        f"{len(moved)} of 3 running streams would move: {', '.join(moved)}\n"
    )
    for name, placed in json.loads(kept.stdout)["streams"].items():
        assert placed == before[name]


def test_reoptimising_needs_a_plan_to_compare_with() -> None:
    done = cnc("plan", LINE3, "--reoptimise")
    assert done.returncode == 2
    assert "--reoptimise needs --keep" in done.stderr


def test_forcing_a_margin_needs_switches_that_have_measured_one() -> None:
    done = cnc("plan", LINE3, "--force-margin")
    assert done.returncode == 2
    assert "--force-margin needs --ask-switches" in done.stderr


def test_nothing_is_planned_around_a_plan_that_is_not_sound(tmp_path: Path) -> None:
    plan = json.loads(cnc("plan", LINE3, "--json").stdout)
    plan["streams"]["motion"]["paths"][0][1][2] -= 4_000
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(plan))
    done = cnc("plan", LINE3, "--keep", broken)
    assert done.returncode == 1
    assert f"refuses the running plan {broken}" in done.stderr
    assert "motion" in done.stderr
    assert done.stdout == ""


def test_a_network_without_a_switch_has_a_plan_and_a_time_to_recover_in(tmp_path: Path) -> None:
    text = LINE3.read_text()
    network = "switches: {}\nend-stations: [t, l]\nlinks:\n  - [t/eth0, l/eth0]\n"
    needs = "talker: t, listeners: [l], class: cyclic, period: 1ms, payload: 100B"
    streams = f"streams:\n  a: {{{needs}, max-latency: 100us}}\n"
    file = tmp_path / "direct.yaml"
    file.write_text(text[: text.index("switches:")] + network + streams)
    planned = cnc("plan", file)
    assert planned.returncode == 0, planned.stderr
    assert "all streams are back within their bounds 7.65 µs later\n" in planned.stdout


def test_an_interrupted_search_leaves_the_best_plan_so_far(endless: Path, tmp_path: Path) -> None:
    written = tmp_path / "plan.json"
    code, out, err = interrupted("plan", endless, "-o", written, "--executor", "local:1")
    assert code == 1
    plan = json.loads(written.read_text())
    assert plan["streams"]
    assert "NO place for" in out
    assert f"the plan is INCOMPLETE, {len(plan['refused'])} of 500 streams" in err
    assert "Traceback" not in err
    assert cnc("check", written).returncode == 0


def test_an_interrupt_counts_even_where_streams_may_be_left_out(endless: Path) -> None:
    code, out, err = interrupted(
        "plan", endless, "--best-effort", "--json", "--executor", "local:1"
    )
    assert code == 1
    assert len(json.loads(out)["refused"]) > 0
    assert "the plan is INCOMPLETE" in err


# Several searches at once, of which each tells what it has placed when it ends.
@pytest.mark.timeout(600)
def test_an_interrupted_command_that_only_needs_a_plan_ends_without(endless: Path) -> None:
    code, out, err = interrupted("show", endless)
    assert (code, out) == (130, "")
    assert err.endswith("cnc: interrupted\n")


def test_the_listed_algorithms_are_those_of_the_planner() -> None:
    assert list(planning.ALGORITHMS) == list(planner.ALGORITHMS)


def test_help_names_every_algorithm_in_a_line() -> None:
    shown = [line.strip() for line in cnc("plan", "--help").stdout.splitlines()]
    for name, what in planning.ALGORITHMS.items():
        assert f"{name:9} {what}" in shown


def test_an_unknown_algorithm_ends_with_2_and_names_the_others() -> None:
    done = cnc("plan", LINE3, "--algorithm", "magic")
    assert done.returncode == 2
    assert "no-wait" in done.stderr


def test_an_executor_that_is_none_ends_with_2() -> None:
    done = cnc("plan", LINE3, "--executor", "moon")
    assert done.returncode == 2
    assert "moon" in done.stderr


@pytest.mark.parametrize("words", [["check"], ["check", "--json"], ["plan"], ["show"]])
def test_nothing_heavy_is_imported_for_a_small_plan(words: list[str]) -> None:
    program = (
        "import sys\n"
        "from cnc.cli import cnc\n"
        f"cnc({[*words, str(LINE3)]!r}, standalone_mode=False)\n"
        f"print(*sorted(set(sys.modules) & set({HEAVY!r})), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr.splitlines()[-1] == ""  # above it may be what plan warns of


def test_a_pushed_intent_is_judged_once_by_the_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    pushed: list[Plan] = []
    judged: list[Plan] = []

    def push(plan: Plan, **_: object) -> rollout.Report:
        pushed.append(plan)
        return NOTHING_PUSHED

    monkeypatch.setattr(rollout, "push", push)
    monkeypatch.setattr(rollout, "read_ports", lambda *_, **__: StatedPorts({}, {}, {}))
    judgement = check.judgement
    monkeypatch.setattr(check, "judgement", lambda plan: judged.append(plan) or judgement(plan))
    assert CliRunner().invoke(cli.cnc, ["push", str(LINE3)]).exit_code == 0
    assert (len(pushed), len(judged)) == (1, 0)
    assert CliRunner().invoke(cli.cnc, ["show", str(LINE3)]).exit_code == 0
    assert len(judged) == 1


SHORT_LIST = {PortRef("s1", "s2"): GateLimits(entries_max=12, tick_ns=8)}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Switches that state a short list for one port; whether each question was a partial one."""
    questions: list[bool] = []

    def discover(network: Network, *, connect: object, partial: bool = False) -> object:
        questions.append(partial)
        return StatedPorts(SHORT_LIST, {}, {})

    monkeypatch.setattr(rollout, "read_ports", discover)
    return questions


def test_a_plan_within_what_the_switches_state_says_what_that_is(
    asked: list[bool], tmp_path: Path
) -> None:
    written = tmp_path / "plan.json"
    argv = ["plan", str(LINE3), "--ask-switches", "-o", str(written)]
    done = CliRunner().invoke(cli.cnc, argv)
    assert (done.exit_code, asked) == (0, [False]), done.output
    assert done.output.startswith(
        "what the switches state of their ports' gates:\n  12 entries, a tick of 8 ns: s1/s2\n"
    )
    planned = planfile.load(written)
    gates = planned.gates[PortRef("s1", "s2")]
    assert len(gates.entries) <= 12
    assert all(entry.interval_ns % 8 == 0 for entry in gates.entries)
    assert planned.intent.stated_limits == SHORT_LIST
    assert cnc("check", written).returncode == 0


def test_a_plan_for_programs_holds_what_the_switches_state(asked: list[bool]) -> None:
    done = CliRunner().invoke(cli.cnc, ["plan", str(LINE3), "--ask-switches", "--json"])
    assert json.loads(done.output)["limits"] == {
        "s1/s2": {
            "entries_max": 12,
            "interval_max_ns": 0,
            "cycle_max_ns": 0,
            "tick_ns": 8,
            "interval_min_ns": 0,
        }
    }
    assert "limits" not in json.loads(cnc("plan", LINE3, "--json").stdout)
    assert asked == [False]


def test_a_plan_asks_no_switch_unless_told_to(asked: list[bool]) -> None:
    assert CliRunner().invoke(cli.cnc, ["plan", str(LINE3)]).exit_code == 0
    assert asked == []


def test_the_push_and_the_status_of_an_intent_plan_within_what_the_switches_state(
    asked: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Plan] = []
    monkeypatch.setattr(rollout, "push", lambda plan, **_: seen.append(plan) or NOTHING_PUSHED)
    monkeypatch.setattr(rollout, "status", lambda plan, **_: seen.append(plan) or [])
    for command in ("push", "status"):
        assert CliRunner().invoke(cli.cnc, [command, str(LINE3)]).exit_code == 0
    pushed, shown = seen
    assert pushed == shown
    assert len(pushed.gates[PortRef("s1", "s2")].entries) <= 12
    assert asked == [False, True]  # status shows a switch that does not answer, too


def test_the_push_of_a_finished_plan_plans_nothing(
    asked: list[bool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[Plan] = []
    monkeypatch.setattr(rollout, "push", lambda plan, **_: seen.append(plan) or NOTHING_PUSHED)
    written = tmp_path / "plan.json"
    assert cnc("plan", LINE3, "-o", written).returncode == 0
    assert CliRunner().invoke(cli.cnc, ["push", str(written)]).exit_code == 0
    assert (seen, asked) == ([planfile.load(written)], [])


def test_a_switch_that_cannot_be_asked_ends_with_1_and_a_hint(tmp_path: Path) -> None:
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text("")
    done = cnc("plan", LINE3, "--ask-switches", "--known-hosts", known_hosts)
    assert (done.returncode, done.stdout) == (1, "")
    assert "s1: " in done.stderr
    assert "has no host key" in done.stderr
    assert "hint: " in done.stderr


def test_a_push_says_which_streams_it_does_not_bring(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = cnc("plan", LINE3, "--json")
    plan = json.loads(done.stdout)
    del plan["streams"]["camera"]
    plan["refused"] = {"camera": "no room"}
    partial = tmp_path / "partial.json"
    partial.write_text(json.dumps(plan))
    monkeypatch.setattr(rollout, "push", lambda plan, **_: NOTHING_PUSHED)
    pushed = CliRunner().invoke(cli.cnc, ["push", str(partial)])
    assert "NO place for 1 of 4 streams" in pushed.output
    assert "camera: no room" in pushed.output


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
    plan["streams"]["motion"]["paths"][0][1][2] -= 4_000
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


def test_watch_takes_no_option_that_has_no_effect():
    refused = CliRunner().invoke(cli.cnc, ["watch", str(LINE3), "--without-deadline"])
    assert refused.exit_code == 2
    assert "--without-deadline has no effect without --heal" in refused.output
