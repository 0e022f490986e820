"""`cnc lab`: which lab is meant, what comes up, what is refused before anything is touched."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cnc import cli
from cnc import intent as intents
from cnc.errors import CncError, InputError
from cnc.testbed.cli.render import traffic as traffic_render
from cnc.testbed.intent.lab_model import Emulation, LabClocks, LabKernels, LabTime
from cnc.testbed.lab import attach, lifecycle
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic import iperf
from cnc.testbed.traffic.flows import Flow
from cnc.testbed.traffic.iperf import Throughput
from cnc.testbed.traffic.measure import Lateness, Spread, Summary
from cnc.testbed.traffic.report import TrafficReport

SCHEDULES = Path(__file__).parents[2] / "schedules"
LINE3, TOPO = SCHEDULES / "line3.yaml", SCHEDULES / "mininet-line.py"


def cnc(*argv: object) -> Result:
    return CliRunner().invoke(cli.cnc, ["lab", *map(str, argv)])


@pytest.fixture
def labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place of labs; a lab is up if it has a directory there."""
    for function in ("names", "only", "address", "status", "down", "up", "execute", "shell"):
        monkeypatch.setitem(getattr(lifecycle, function).__kwdefaults__, "state_root", tmp_path)
    return tmp_path


@pytest.fixture
def emulations() -> list[Emulation]:
    """How each lab that was brought up was to emulate its network."""
    return []


@pytest.fixture
def unsettled() -> dict[str, str]:
    """What is wrong with clocks of each lab that is brought up, by node."""
    return {}


@pytest.fixture
def brought_up(
    labs: Path,
    emulations: list[Emulation],
    unsettled: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> list[dict[str, Any]]:
    """What `up` is asked for, without doing it; its kernel has gates unless a test says why not."""
    gates_refused = getattr(request, "param", None)
    asked: list[dict[str, Any]] = []

    def up(intent, *, timed_wires, emulation):
        own = emulation.kernels is LabKernels.OWN
        asked.append({"name": intent.name, "timed": timed_wires, "own": own})
        emulations.append(emulation)
        return SimpleNamespace(
            intent=intent,
            identity=Path("key"),
            known_hosts=Path("hosts"),
            gates_refused=lambda: gates_refused,
            clocks_unsettled=lambda: unsettled,
        )

    monkeypatch.setattr(lifecycle, "up", up)
    return asked


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["s1", "tc"], ("line3", ["s1", "tc"])),
        (["line3", "s1", "tc"], ("line3", ["s1", "tc"])),
        (["line4", "s1", "tc"], ("line3", ["line4", "s1", "tc"])),
    ],
)
def test_the_first_word_is_the_lab_only_if_such_a_lab_is_up(
    labs: Path, words: Sequence[str], expected: tuple[str, Sequence[str]]
):
    (labs / "line3").mkdir()
    assert lifecycle.address(words) == expected


def test_of_several_labs_one_must_be_named(labs: Path):
    (labs / "line3").mkdir()
    (labs / "ring6").mkdir()
    assert lifecycle.address(["ring6", "b1"]) == ("ring6", ["b1"])
    for meant in (lifecycle.only, lambda: lifecycle.address(["b1"])):
        with pytest.raises(InputError, match="2 labs are up: line3, ring6"):
            meant()


def test_where_nothing_is_up_status_says_so_and_down_has_nothing_to_do(labs: Path):
    assert (cnc("status").exit_code, cnc("status").stdout) == (0, "no lab is up\n")
    assert json.loads(cnc("status", "--json").stdout) == []
    assert cnc("status", "line3").stdout == "no lab line3 is up\n"
    assert cnc("down").exit_code == 0
    assert cnc("down", "line3").exit_code == 0


def test_clocks_of_a_lab_that_is_not_up_are_refused_by_its_name(labs: Path):
    (labs / "line3").mkdir()
    refused = cnc("clocks", "ring6").exception
    assert isinstance(refused, InputError)
    assert str(refused) == "no lab ring6 is up"


@pytest.mark.parametrize("command", [["exec", "s1", "--", "ls"], ["shell", "s1"], ["clocks"]])
def test_where_nothing_is_up_no_command_runs(labs: Path, command: list[str]):
    refused = cnc(*command).exception
    assert isinstance(refused, InputError)
    assert str(refused) == "no lab is up"


@pytest.mark.parametrize(
    "words", [["exec", "line3"], ["exec", "s1"], ["exec", "line3", "s1"], ["shell", "line3"],
              ["shell", "s1", "s2"], ["shell"], ["exec"]],
)  # fmt: skip
def test_a_node_or_a_command_that_is_missing_is_bad_input(labs: Path, words: list[str]):
    (labs / "line3").mkdir()
    assert cnc(*words).exit_code == 2


def test_an_option_after_the_double_dash_is_the_commands(
    labs: Path, monkeypatch: pytest.MonkeyPatch
):
    (labs / "line3").mkdir()
    ran = []
    monkeypatch.setattr(lifecycle, "execute", lambda *asked: ran.append(asked) or 5)
    assert cnc("exec", "s1", "--", "tc", "-s", "--help").exit_code == 5
    assert ran == [("line3", "s1", ("tc", "-s", "--help"))]


def test_a_shell_gets_its_place_in_prompt_and_environment(
    labs: Path, monkeypatch: pytest.MonkeyPatch
):
    (labs / "line3").mkdir()
    ran = []
    monkeypatch.setenv("SHELL", "/bin/zsh")
    monkeypatch.setattr(lifecycle, "execute", lambda *asked, **_: ran.append(asked) or 0)
    assert cnc("shell", "s1").exit_code == 0
    ((name, node, (env, *settings, shell)),) = ran
    assert (name, node, env, shell) == ("line3", "s1", "env", "/bin/zsh")
    assert {"CNC_NODE=line3/s1", "PS1=(line3/s1)# "} <= set(settings)


@pytest.mark.parametrize(
    ("file", "options", "timed"),
    [
        (LINE3, [], False),
        (LINE3, ["--wires", "timed"], True),
        (TOPO, [], True),
        (TOPO, ["--topo", "line,3"], True),
        (TOPO, ["--wires", "instant"], False),
    ],
)
def test_wires_are_timed_where_that_is_asked_for_or_a_mininet_link_says_how_long(
    brought_up: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    file: Path,
    options: list[str],
    timed: bool,
):
    monkeypatch.delenv("TSN_VM", raising=False)
    assert cnc("up", file, *options).exit_code == 0
    assert brought_up == [{"name": file.stem, "timed": timed, "own": False}]


def test_cables_between_kernels_take_time_and_the_push_is_the_controllers(
    brought_up: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("TSN_VM", raising=False)
    shown = cnc("up", LINE3, "--kernels", "own").stdout
    assert brought_up == [{"name": "line3", "timed": True, "own": True}]
    assert "cnc lab exec controller -- cnc push FILE" in shown
    assert "CNC_IDENTITY" not in shown


@pytest.mark.usefixtures("brought_up")
def test_gptp_keeps_the_clocks_of_kernels_unless_they_are_to_be_free(emulations: list[Emulation]):
    assert cnc("up", LINE3, "--kernels", "own").exit_code == 0
    assert cnc("up", LINE3, "--kernels", "own", "--clocks", "free").exit_code == 0
    assert [each.clocks for each in emulations] == [LabClocks.GPTP, LabClocks.FREE]


@pytest.fixture
def of_own_kernels(tmp_path: Path) -> str:
    """An intent that says how a lab emulates it."""
    file = tmp_path / "own.yaml"
    stated = "lab: {kernels: own, clocks: free, time: real}\n"
    file.write_text(LINE3.read_text() + stated)
    return str(file)


@pytest.mark.parametrize(
    ("options", "emulation"),
    [
        ((), Emulation(LabKernels.OWN, LabClocks.FREE, LabTime.REAL)),
        (("--clocks", "gptp"), Emulation(LabKernels.OWN, LabClocks.GPTP, LabTime.REAL)),
        (("--time", "virtual"), Emulation(LabKernels.OWN, LabClocks.FREE, LabTime.VIRTUAL)),
    ],
)
@pytest.mark.usefixtures("brought_up")
def test_an_option_goes_before_what_the_intent_states(
    of_own_kernels: str,
    emulations: list[Emulation],
    options: tuple[str, ...],
    emulation: Emulation,
):
    assert cnc("up", of_own_kernels, *options).exit_code == 0
    assert emulations == [emulation]


def test_an_intent_of_kernels_of_their_own_comes_up_in_one(
    of_own_kernels: str, brought_up: list[dict[str, Any]]
):
    assert cnc("up", of_own_kernels, "--kernels", "shared", "--wires", "instant").exit_code == 0
    assert brought_up == [{"name": "line3", "timed": False, "own": False}]


@pytest.mark.parametrize(("option", "value"), [("--clocks", "free"), ("--time", "real")])
def test_nodes_of_one_kernel_have_no_clocks_of_their_own(option: str, value: str):
    refused = cnc("up", LINE3, option, value)
    assert refused.exit_code == 2
    assert f"{option} needs --kernels own: nodes of one kernel share its clock" in refused.output


@pytest.mark.usefixtures("brought_up")
def test_a_lab_says_which_clocks_have_not_settled(unsettled: dict[str, str]):
    reason = "managed by PTP instance 0: it does not follow a grandmaster"
    unsettled["s2"] = reason
    shown = cnc("up", LINE3, "--kernels", "own")
    assert shown.exit_code == 0
    assert f"warning: the clock of s2 has not settled: {reason}" in shown.stderr
    assert "a push is refused" in shown.stderr
    told = cnc("up", LINE3, "--kernels", "own", "--json")
    assert json.loads(told.stdout)["clocks_unsettled"] == {"s2": reason}


def test_wires_are_timed_where_the_clock_is_exact(
    brought_up: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TSN_VM", "uml")
    monkeypatch.setenv("TSN_VIRTUAL_TIME", "1")
    assert "with timed wires" in cnc("up", LINE3).stdout


NO_GATES = "this kernel has no sch_taprio"


@pytest.mark.parametrize("brought_up", [NO_GATES], indirect=True)
@pytest.mark.usefixtures("brought_up")
def test_a_lab_in_a_kernel_without_gates_comes_up_with_a_warning():
    done = cnc("up", LINE3)
    assert done.exit_code == 0
    assert "is up" in done.stdout
    assert "To push to it" not in done.stdout
    assert f"warning: no gate control list can run in this lab: {NO_GATES}" in done.stderr
    assert "a push is refused" in done.stderr
    assert "scripts/vm bash SCRIPT" in done.stderr
    told = cnc("up", LINE3, "--json")
    assert (json.loads(told.stdout)["gates_refused"], told.stderr) == (NO_GATES, "")


@pytest.mark.parametrize("refused", [NO_GATES, None])
def test_traffic_through_ports_that_have_no_gates_is_warned_of_before_it_is_sent(
    monkeypatch: pytest.MonkeyPatch, refused: str | None
):
    lab = SimpleNamespace(gates_refused=lambda: refused)
    monkeypatch.setattr(attach, "attach", lambda _: lab)
    throughput = Throughput("TCP", 1, 1, None, None, None, None, {})
    monkeypatch.setattr(iperf, "measure", lambda *_: throughput)
    done = cnc("traffic", LINE3, "--iperf3", "t1", "l1")
    assert done.exit_code == 0
    assert (
        f"the ports of this lab have no gates, frames come as they can: {refused}" in done.stderr
    ) is bool(refused)
    assert cnc("traffic", LINE3, "--iperf3", "t1", "l1", "--json").stderr == ""


@pytest.mark.usefixtures("brought_up")
def test_a_lab_in_a_kernel_with_gates_comes_up_without_a_word_of_them():
    done = cnc("up", LINE3)
    assert (done.stderr, "To push to it" in done.stdout) == ("", True)


def test_what_a_topo_says_in_vain_is_told_on_the_error_stream(
    brought_up: list[dict[str, Any]], tmp_path: Path
):
    file = tmp_path / "lossy.py"
    file.write_text(TOPO.read_text().replace('delay="2ms"', "loss=3"))
    for command in ("up", "import"):
        done = cnc(command, file)
        assert done.exit_code == 0
        assert "link option loss is ignored (not emulated): s1-s2" in done.stderr
        assert "loss" not in done.stdout.replace("lossy", "")


def test_a_topology_of_an_intent_cannot_be_chosen(brought_up: list[dict[str, Any]]):
    assert cnc("up", LINE3, "--topo", "line").exit_code == 2
    assert brought_up == []


def test_an_imported_topology_can_be_given_streams_and_planned(tmp_path: Path):
    file = tmp_path / "line.yaml"
    assert cnc("import", TOPO, "-o", file).stdout == f"wrote {file}\n"
    assert intents.load(file).streams == {}
    stream = "{talker: h1, listeners: [h4], period: 10ms, payload: 100B, max-latency: 5ms}"
    file.write_text(file.read_text().replace("streams: {}", f"streams:\n  it: {stream}"))
    assert CliRunner().invoke(cli.cnc, ["plan", str(file)]).exit_code == 0


@pytest.mark.parametrize("port", ["lo", "mgmt"])
def test_a_port_that_the_lab_has_itself_is_refused(port: str):
    intent = intents.load(LINE3)
    links = {}
    for link in intent.network.links.values():
        ends = [
            end._replace(port=port) if str(end) == "s1/t1" else end
            for end in (link.source, link.target)
        ]
        links[ends[0]] = dataclasses.replace(link, source=ends[0], target=ends[1])
    network = dataclasses.replace(intent.network, links=links)
    with pytest.raises(InputError, match=f"port s1/{port}: .* of its own"):
        lifecycle.up(dataclasses.replace(intent, network=network))


def test_a_slower_lab_writes_the_intent_to_plan_and_push(
    brought_up: list[dict[str, Any]], tmp_path: Path
):
    slow = tmp_path / "slow.yaml"
    assert cnc("up", LINE3, "--slower", 500, "--output", slow).exit_code == 0
    assert len(brought_up) == 1
    before, after = intents.load(LINE3), intents.load(slow)
    assert after.name == before.name
    for name, stream in before.streams.items():
        assert after.streams[name].period_ns == 500 * stream.period_ns


def test_a_slower_lab_without_a_place_for_its_intent_is_refused(
    brought_up: list[dict[str, Any]],
):
    refused = cnc("up", LINE3, "--slower", 500)
    assert refused.exit_code == 2
    assert "--output" in refused.stderr
    assert brought_up == []


PROMISED = Flow("motion", "t1", "l1", 6, 6, 46, 200, 1_000_000, 0, latency_bound_ns=50_000)
WAKE_UP = Spread(100, 310, 300, 400, 715, 732)
LOSSY = Summary(PROMISED, 10, 8, 0, 0, 0, 0, 0, WAKE_UP, None)
# Its stamps are those of a real clock: none of its frames seems to have left in its window.
KEPT = Summary(PROMISED, 10, 10, 0, 10, 5_000, 0, 0, WAKE_UP, None)
EXACT, REAL = (Platform("Linux 6.12", "a clock", is_exact) for is_exact in (True, False))
PUNCTUAL, LATE = Lateness("t1", 5_700_000, 10_000_000), Lateness("t1", 17_000_000, 10_000_000)


def shown(
    capsys: pytest.CaptureFixture[str], summary: Summary, platform: Platform, **how: Any
) -> tuple[list[str], str]:
    """The violations, and what is printed."""
    report = TrafficReport([summary], WAKE_UP, platform, **how)
    traffic_render.flows(report, as_json=False)
    return report.violations, capsys.readouterr().out


def test_traffic_names_each_violation_where_the_clock_is_exact(capsys: pytest.CaptureFixture[str]):
    violations, printed = shown(capsys, LOSSY, EXACT, lateness=LATE)
    assert violations == ["motion: 2 of 10 frames lost"]
    assert "Talker wake-up latency: mean 310 ns, p99 715 ns, max 732 ns.\n" in printed
    assert printed.endswith("VIOLATED  motion: 2 of 10 frames lost\n")


def test_traffic_that_kept_every_promise_says_so(capsys: pytest.CaptureFixture[str]):
    kept = dataclasses.replace(KEPT, outside=0)
    violations, printed = shown(capsys, kept, EXACT, lateness=LATE)
    assert violations == []
    assert printed.endswith("Every frame kept its bound and its gates.\n")


def test_on_a_real_clock_bounds_are_judged_where_talkers_were_as_punctual_as_planned(
    capsys: pytest.CaptureFixture[str],
):
    violations, printed = shown(capsys, KEPT, REAL, lateness=PUNCTUAL)
    assert violations == []
    assert printed.endswith(
        "Every frame kept its bound, on a real clock; talkers up to 5.7 ms of 10 ms late.\n"
    )
    violations, printed = shown(capsys, LOSSY, REAL, lateness=PUNCTUAL)
    assert violations == ["motion: 2 of 10 frames lost"]
    assert printed.endswith("VIOLATED  motion: 2 of 10 frames lost\n")


@pytest.mark.parametrize("summary", [LOSSY, KEPT])
def test_on_a_real_clock_nothing_is_judged_where_a_talker_was_later_than_planned(
    summary: Summary, capsys: pytest.CaptureFixture[str]
):
    violations, printed = shown(capsys, summary, REAL, lateness=LATE)
    assert violations == []
    assert "t1 sent up to 17 ms late; the plan allows 10 ms.\nWith this latency talkers" in printed
    assert printed.endswith("are not judged.\n")


def test_on_a_real_clock_nothing_is_judged_where_gates_were_later_than_planned(
    capsys: pytest.CaptureFixture[str],
):
    violations, printed = shown(capsys, LOSSY, REAL, lateness=PUNCTUAL, exceeded="gates were late")
    assert violations == []
    assert printed.endswith("Frames are shown, not judged: gates were late.\n")


def test_flows_without_a_bound_are_not_judged_on_a_real_clock(capsys: pytest.CaptureFixture[str]):
    unbound = dataclasses.replace(
        LOSSY, flow=dataclasses.replace(PROMISED, latency_bound_ns=None), outside=3
    )
    violations, printed = shown(capsys, unbound, REAL, lateness=None)
    assert violations == []
    assert printed.endswith("On a real clock flows without a bound are shown, not judged.\n")


@pytest.mark.parametrize("option", [["--wires", "timed"], ["--kernels", "own"], ["--time", "real"]])
def test_a_rehearsal_takes_no_option_of_what_it_does_not_have(labs: Path, option: list[str]):
    refused = cnc("up", LINE3, "--rehearse", *option)
    assert refused.exit_code == 2
    assert "it carries no frames" in refused.output
    assert list(labs.iterdir()) == []


def test_who_is_not_root_is_told_of_the_rehearsal(labs: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lifecycle.os, "geteuid", lambda: 1000)
    refused = cnc("up", LINE3).exception
    assert isinstance(refused, CncError)
    assert "needs root" in str(refused)
    assert "`cnc lab up --rehearse`" in (refused.hint or "")
    assert list(labs.iterdir()) == []
