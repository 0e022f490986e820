"""What programs get: documents as their schemas say. Those of switches are in tests/stack."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner
from jsonschema import ValidationError

from cnc import cli, rollout
from cnc.cli import render, settings
from cnc.cli.watch import _print_json
from cnc.data_tree.tree import KernelSchedule
from cnc.json_output import commands
from cnc.model import GateControlList, GateEntry, PortRef
from cnc.rollout import PortStatus
from cnc.rollout.history import FILE_NAME, History
from cnc.rollout.preflight import Check, Finding, Verdict
from cnc.rollout.rollout import PortChange
from cnc.rollout.transaction import SwitchTimes
from cnc.testbed import experiments
from cnc.testbed.cli.measure import print_measured
from cnc.testbed.cli.render import traffic
from cnc.testbed.experiments.experiment import Report
from cnc.testbed.lab import NodeStatus, lifecycle
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.flows import BridgedFlow, Flow
from cnc.testbed.traffic.iperf import Throughput
from cnc.testbed.traffic.measure import Lateness, Spread, Summary
from cnc.testbed.traffic.pairing import Stray
from cnc.testbed.traffic.report import TrafficReport
from cnc.watch import Event
from cnc.watch.condition import Kind, What
from tests.json_documents import SCHEMAS, documented
from tests.unit.rollout_history import begin

CHECKOUT = Path(__file__).parents[2]
LINE3 = CHECKOUT / "schedules" / "line3.yaml"
PLAN = Path(__file__).parent / "data" / "line3-plan.json"
PLATFORM = Platform("Linux 6.12", "virtual time", exact=True)
SPREAD = Spread(1, 2, 2, 3, 3, 4)


def printed(*argv: object) -> str:
    return CliRunner().invoke(cli.cnc, [*map(str, argv), "--json"]).stdout


def ended(*argv: object) -> tuple[int, str]:
    """Exit code and error stream of a process."""
    done = subprocess.run(
        [sys.executable, "-m", "cnc", *map(str, argv)], capture_output=True, text=True, check=False
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_schemas_and_page_are_those_of_the_types() -> None:
    done = subprocess.run(
        [sys.executable, CHECKOUT / "scripts" / "json-schemas", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_every_command_with_json_has_a_schema() -> None:
    with_json = {
        " ".join(words)
        for words, command in settings.commands(cli.cnc)
        if any(option.name == "as_json" for option in command.params)
    }
    assert set(commands.BY_COMMAND) == with_json | {"error"}
    assert len(list(SCHEMAS.iterdir())) == len(commands.BY_COMMAND)


def test_a_key_that_no_schema_has_is_noticed() -> None:
    checked = json.loads(printed("check", LINE3))
    with pytest.raises(ValidationError):
        documented("check", json.dumps(checked | {"surprise": 1}))


def test_intents_and_plans() -> None:
    assert documented("check", printed("check", LINE3))["end_stations"] == 4
    assert documented("check", printed("check", PLAN))["valid"]
    assert documented("plan", printed("plan", LINE3))["gates"]
    assert documented("show", printed("show", PLAN))["streams"]


def test_a_plan_that_breaks_its_promises(tmp_path: Path) -> None:
    plan = json.loads(PLAN.read_text())
    plan["streams"]["motion"]["paths"][0][1][2] -= 4_000
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(plan))
    assert documented("check", printed("check", broken))["violations"]


def test_differences(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(
        LINE3.read_text()
        .replace("  camera:", "  photo:")
        .replace("payload: 200B", "payload: 210B")
        .replace("clock-error: 1us", "clock-error: 2us")
    )
    after = tmp_path / "after.json"
    after.write_text(printed("plan", other))
    assert documented("talkers", printed("talkers", PLAN))
    found = documented("diff", printed("diff", PLAN, after))
    assert (found["added"], found["removed"]) == (["photo"], ["camera"])
    assert all(found[part] for part in ("wanted", "placed", "foundations", "gates"))
    assert documented("diff", printed("diff", PLAN, PLAN))["same"]


def test_what_switches_run_and_what_a_push_changes(capsys: pytest.CaptureFixture[str]) -> None:
    port = PortRef("s1", "s2")
    gates = GateControlList(1_000, (GateEntry(0x81, 1_000),))
    gates_json = {"cycle_ns": 1_000, "entries": [["0x81", 1_000]]}
    running = KernelSchedule(7, gates)
    ports = [
        PortStatus(port, gates, running, None, "running", agrees=True),
        PortStatus(port, gates, None, None, "no gates", agrees=False),
    ]
    render.status(ports, only_problems=False, as_json=True)
    agreeing, other = documented("status", capsys.readouterr().out)
    render.status(ports, only_problems=True, as_json=True)
    assert documented("status", capsys.readouterr().out) == [other]
    assert (agreeing["port"], agreeing["running"]) == ("s1/s2", {"base_time_ns": 7, **gates_json})
    assert (other["agrees"], other["running"]) == (False, None)
    change = PortChange(port, before=None, after=gates, why="it has no gates")
    report = rollout.Report((change,), 1, 7, 5, {"s1": SwitchTimes(1, 2, 3)}, 6)
    for dry_run in (False, True):
        render.push(report, [], dry_run=dry_run, as_json=True)
        pushed = documented("push", capsys.readouterr().out)
        assert (pushed["changed"], pushed["dry_run"]) == (not dry_run, dry_run)
        assert (pushed["changes"][0]["before"], pushed["changes"][0]["after"]) == (None, gates_json)


def test_what_doctor_finds(capsys: pytest.CaptureFixture[str]) -> None:
    finding = Finding("s1", None, Check.REACHABLE, Verdict.OK, "it answers")
    render.diagnosis("line3", [finding], no_plan="no class is scheduled", as_json=True)
    diagnosis = documented("doctor", capsys.readouterr().out)
    assert diagnosis["findings"][0]["verdict"] == "ok"
    assert diagnosis["no_plan"] == "no class is scheduled"


def test_rollouts(tmp_path: Path) -> None:
    with History(tmp_path / FILE_NAME) as history, begin(history):
        pass
    for which in ([], [1]):
        assert documented("history", printed("history", *which, "--state-dir", tmp_path))


def test_labs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        lifecycle,
        "up",
        lambda intent, **_: SimpleNamespace(
            intent=intent,
            identity=tmp_path / "id",
            known_hosts=tmp_path / "hosts",
            gates_refused=lambda: None,
        ),
    )
    assert documented("lab up", printed("lab", "up", LINE3))["wires"] == "instant"
    node = NodeStatus("s1", ["10.99.0.1"], "line3-s1", True, {"tsn-agent": None})
    monkeypatch.setattr(lifecycle, "only", lambda: "line3")
    monkeypatch.setattr(lifecycle, "status", lambda _: [node])
    assert documented("lab status", printed("lab", "status"))[0]["node"] == "s1"


def test_traffic(capsys: pytest.CaptureFixture[str]) -> None:
    flow = Flow("it", "t1", "l1", 6, 6, 46, 200, 1_000_000, 0, 50_000)
    lost = Summary(flow, 2, 0, 0, 0, 0, 0, 0, None, None)
    seen = Summary(flow, 2, 2, 0, 0, 0, 0, 0, SPREAD, SPREAD)
    traffic.flows(TrafficReport([lost, seen], SPREAD, PLATFORM), as_json=True)
    document = documented("lab traffic", capsys.readouterr().out)
    assert [flow["lost"] for flow in document["flows"]] == [2, 0]
    assert document["violations"] == ["it: 2 of 2 frames lost"]
    real_time = Platform("Linux 6.12", "real time", exact=False)
    for late_ns, violations in ((1, ["it: 2 of 2 frames lost"]), (3, None)):
        late = Lateness("t1", late_ns, 2)
        traffic.flows(TrafficReport([lost, seen], SPREAD, real_time, late), as_json=True)
        document = documented("lab traffic", capsys.readouterr().out)
        assert document["violations"] == violations
    assert "strays" not in document["flows"][0]
    bridged = BridgedFlow(
        *("it to l1", "it", "t1", "eth0", "l1", 6, "03:00:00:00:00:01", 10, 6),
        *(200, 1_000_000, 0, 50_000),
    )
    stray = Stray("it", 0, "l2", 1_000, "03:00:00:00:00:01", 10, 6)
    twice = Summary(bridged, 2, 2, 0, 0, 0, 1, 0, SPREAD, SPREAD, 1, (stray,))
    traffic.flows(TrafficReport([twice], SPREAD, PLATFORM), as_json=True)
    (figures,) = documented("lab traffic", capsys.readouterr().out)["flows"]
    assert (figures["strays"], figures["multiplied"], figures["flow"]["pcp"]) == (1, 1, 6)
    its_own = {"start": {}, "intervals": [{}], "end": {"sum_sent": {}}}
    traffic.throughput(Throughput("TCP", 1, 1, None, None, None, None, its_own), as_json=True)
    assert documented("lab traffic", capsys.readouterr().out) == its_own


def test_experiments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is written of a report is what --json prints."""
    file = CHECKOUT / "schedules" / "experiments" / "share-sweep.yaml"
    report = Report({"points": []}, [], [], [], ["trust it"], None)
    monkeypatch.setattr(
        experiments, "experiment_of", lambda *_: SimpleNamespace(report=lambda *_: report)
    )
    platform = {"kernel": "x", "clock": "y", "exact": True}
    (tmp_path / experiments.PLATFORM).write_text(json.dumps(platform))
    print_measured(experiments.make_report(file, tmp_path), as_json=True)
    assert documented("lab measure", capsys.readouterr().out)["remarks"] == ["trust it"]


def test_what_is_watched(capsys: pytest.CaptureFixture[str]) -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    _print_json(Event(What.ENDED, Kind.DRIFT, "s1", "", "no list", at, at))
    assert documented("watch", capsys.readouterr().out)["port"] is None


def test_errors_are_documents_on_the_error_stream(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(LINE3.read_text().replace("period: 500us", "period: 1 fortnight"))
    code, told = ended("plan", bad, "--json")
    error = documented("error", told)
    assert (code, error["exit_code"]) == (2, 2)
    assert "fortnight" in error["error"]
    assert error["hint"] is None


@pytest.mark.parametrize(
    "words", [["--nope", "--json"], ["--json", "--seed", "x", LINE3], ["--json"]]
)
def test_a_command_line_that_cannot_be_read_is_one_too(words: list[object]) -> None:
    code, told = ended("plan", *words)
    assert documented("error", told)["exit_code"] == code == 2


def test_who_asks_for_json_in_the_environment_gets_errors_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CNC_PLAN_JSON", "1")
    assert documented("error", ended("plan", "--seed", "x", LINE3)[1])


def test_what_is_not_for_programs_is_told_as_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "\nError: No such option" in ended("lab", "shell", "--json")[1]
    # In this process: one is up on this machine, perhaps.
    monkeypatch.setattr(lifecycle, "names", lambda **_: [])
    monkeypatch.setattr(sys, "argv", ["cnc", "lab", "exec", "s1", "--", "ip", "--json"])
    with pytest.raises(SystemExit):
        cli.main()
    assert capsys.readouterr().err.startswith("cnc: no lab is up\n")


def test_only_commands_without_data_lack_json() -> None:
    without = {
        " ".join(words)
        for words, command in settings.commands(cli.cnc)
        if not isinstance(command, click.Group)
        and all(option.name != "as_json" for option in command.params)
    }
    # The data of a capture are its file, and those of a service, and of adapters to it, are what
    # they answer.
    of_lab = {f"lab {name}" for name in ("capture", "down", "exec", "import", "shell")}
    adapters = {"dds", "mcp", "opcua"}
    # Parts of an intent, and files of programs.
    of_others = {f"{way} {what}" for way in ("import", "export") for what in ("gates", "streams")}
    alone = {"init", "completion", "serve", "token revoke"}
    assert without == {*alone, *of_lab, *adapters, *of_others}
