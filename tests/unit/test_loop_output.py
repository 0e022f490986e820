"""What `cnc lab loop` prints and refuses, and the report of the experiment control-loop."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cnc import intent as intents
from cnc.errors import InputError
from cnc.loops.model import Loops
from cnc.model import LoopDelay
from cnc.planner import plan
from cnc.testbed import experiments
from cnc.testbed.cli.loop import loop as command
from cnc.testbed.cli.render import loop as render
from cnc.testbed.experiments.control_loop import ControlLoop
from cnc.testbed.experiments.control_loop.experiment import COLUMNS
from cnc.testbed.experiments.experiment import ROWS
from cnc.testbed.json_output.loop import LoopRun
from cnc.testbed.lab.kernels.offsets import FurthestApart
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.loop import run
from cnc.testbed.traffic.loop.report import LoopReport
from cnc.testbed.traffic.loop.run import Curve, Period
from tests.json_documents import documented

SCHEDULES = Path(__file__).parents[2] / "schedules"
LOOP = intents.load(SCHEDULES / "loop.yaml")[Loops].by_name["axis"]
PLANNED = LoopDelay(65_000, 50_000, 0, 65_000)
EXACT = Platform("Linux", "virtual time", exact=True)
US, MS = 1_000, 1_000_000
IDEAL = run.undisturbed(LOOP)


def in_time(step: int, output: float) -> Period:
    """A period in which all is as it is to be, and the loop takes 160 µs."""
    sampled_ns = step * LOOP.period_ns
    return Period(
        step, sampled_ns, output, sampled_ns + 46_000, step, sampled_ns + 160_000, 0.0, step, step
    )


def curve(change: Callable[[Period], Period] = lambda period: period) -> Curve:
    return Curve(LOOP, [change(in_time(n, output)) for n, output in enumerate(IDEAL)])


def late(period: Period) -> Period:
    """The command of period 7 comes after its deadline, and that of 8 never."""
    if period.step == 7:
        return replace(period, command_received_ns=period.sampled_ns + 260_000, acting_sample=6)
    return replace(period, command_received_ns=None) if period.step == 8 else period


def found(shown: Curve, **changes: object) -> LoopReport:
    its = LoopReport(shown, PLANNED, [IDEAL], EXACT, [], US)
    return replace(its, **changes)  # type: ignore[arg-type]


def test_the_delay_that_was_measured_stands_beside_that_of_the_plan(
    capsys: pytest.CaptureFixture[str],
):
    render.loop(found(curve()), as_json=False)
    text = capsys.readouterr().out
    assert (
        "From a sample until its command was at the plant: 160 µs to 160 µs; the plan says 180 µs "
        "at most, the deadline is 250 µs." in text
    )
    assert "in time: to the last digit." in text
    assert "1 of 1 within what `accept` states." in text
    assert text.endswith("Every command acted at its deadline.\n")


def test_what_breaks_the_plan_is_told(capsys: pytest.CaptureFixture[str]):
    render.loop(found(curve(late)), as_json=False)
    text = capsys.readouterr().out
    assert "VIOLATED  axis: 1 of 100 commands missed the deadline" in text
    assert "VIOLATED  axis: the loop took 260 µs, the plan says 180 µs" in text
    assert (
        "100 periods: 1 without the command for its sample at the deadline; 0 samples and 1 "
        "command lost." in text
    )


def test_clocks_that_were_further_apart_than_the_plan_allows_are_told_first():
    told = "axis: the clock of l1 was 1 ms ahead of that of t1; the plan allows 1 µs"
    for apart_ns, first in ((US, "axis: 1 of 100 commands missed the deadline"), (MS, told)):
        its = found(curve(late), clocks=FurthestApart("t1", "l1", apart_ns))
        assert its.violations[0] == first


def test_how_far_clocks_were_apart_is_shown(capsys: pytest.CaptureFixture[str]):
    its = found(curve(), clocks=FurthestApart("t1", "l1", 130))
    render.loop(its, as_json=False)
    assert (
        "No two clocks of the network were further apart than those of t1 and l1: 130 ns; the plan "
        "allows 1 µs." in capsys.readouterr().out
    )
    render.loop(its, as_json=True)
    document = documented("lab loop", capsys.readouterr().out)
    assert document["clocks"] == {"behind": "t1", "ahead": "l1", "apart_ns": 130}
    assert document["clock_error_ns"] == US


def test_nothing_is_judged_where_nothing_is_promised(capsys: pytest.CaptureFixture[str]):
    assert found(curve(late), other_lists=["s1/s2"]).violations == []
    assert found(curve(late), platform=replace(EXACT, exact=False)).violations == []
    render.loop(found(curve(late), other_lists=["s1/s2"]), as_json=False)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "Nothing is judged: these ports run other lists than the plan has: s1/s2."


def test_a_run_is_a_document(capsys: pytest.CaptureFixture[str]):
    render.loop(found(curve(late), undisturbed=[IDEAL[::-1]]), as_json=True)
    document = documented("lab loop", capsys.readouterr().out)
    assert (document["missed"], document["lost_commands"], document["periods"]) == (1, 1, 100)
    assert document["is_undisturbed"] is False
    assert document["delay"]["max_ns"] == 260_000
    assert len(LoopRun.model_fields) == len(document)


def test_an_answer_to_another_sample_is_no_measure_of_the_delay():
    held = curve(lambda period: replace(period, answered=max(period.step - 1, 0)))
    assert held.delays_ns == [160_000]  # of the first
    assert held.missed == 0  # what acted was told apart by its sample, which these rows leave


def test_a_file_without_loops_or_with_another_is_refused():
    done = CliRunner().invoke(command, [str(SCHEDULES / "line3.yaml")])
    assert str(done.exception) == "line3 has no control loop"
    done = CliRunner().invoke(command, [str(SCHEDULES / "loop.yaml"), "--loop", "arm"])
    assert done.exit_code == 2
    assert "--loop: found 'arm', expected axis" in done.output


def test_a_payload_without_room_for_a_value_is_refused():
    document = json.loads(json.dumps(intents.load(SCHEDULES / "loop.yaml").document))
    document["streams"]["command"]["payload"] = "45B"
    planned = plan(intents.from_document(document, "loop.yaml"))
    with pytest.raises(
        InputError, match="a payload of 45 octets has no room for a value"
    ) as refused:
        run.loop_flows(planned, planned.intent[Loops].by_name["axis"])
    assert refused.value.hint == "46 octets or more: headers, two numbers and the value"


# --- the experiment ------------------------------------------------------------------------------

FILE = SCHEDULES / "experiments" / "control-loop.yaml"


@pytest.fixture(scope="module")
def experiment() -> ControlLoop:
    made = experiments.experiment_of(experiments.load(FILE), FILE)
    assert isinstance(made, ControlLoop)
    return made


def test_other_frames_take_their_share_of_the_slowest_link(experiment: ControlLoop):
    frame_ns = 115_360  # 1,442 octets at 100 Mb/s
    assert [flow.period_ns for flow in experiment.others(50)] == [4 * frame_ns] * 2
    assert [flow.talker for flow in experiment.others(130)] == ["t2", "t3"]
    shares = sum(frame_ns / flow.period_ns for flow in experiment.others(130))
    assert shares == pytest.approx(1.3, abs=1e-4)


def reported(
    experiment: ControlLoop, directory: Path, curves: dict[tuple[str, int], Curve]
) -> list[str]:
    with (directory / ROWS).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for (network, load), its in curves.items():
            writer.writerows([network, load, *run.cells(period)] for period in its.periods)
    return list(experiment.report(directory, EXACT).disagreements)


def away(period: Period) -> Period:
    return replace(period, output=9.0) if period.step > 90 else period


def test_the_report_judges_the_schedule_and_what_is_offered_too_much(
    experiment: ControlLoop, tmp_path: Path
):
    as_promised = {
        ("fifo", 0): curve(),
        ("fifo", 130): curve(away),
        ("priority", 130): curve(late),
        ("schedule", 130): curve(),
    }
    assert reported(experiment, tmp_path, as_promised) == []
    otherwise = as_promised | {("fifo", 110): curve(), ("schedule", 50): curve(away)}
    too_good = "the output follows, though links are offered more than they carry"
    assert reported(experiment, tmp_path, otherwise) == [
        f"in order of arrival at 110 %: {too_good}",
        "the schedule at 50 %: the curve is not that of an idle network",
    ]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("loop", "arm", "loop: found 'arm', expected axis"),
        (
            "listener",
            "l3",
            "listener: found 'l3', expected one of l1, l2, t1, t2, t3",
        ),
        ("network", str(SCHEDULES / "line3.yaml"), "loop: found 'axis', expected one, but none is"),
    ],
)
def test_what_the_network_has_not_is_refused(tmp_path: Path, key: str, value: str, message: str):
    text = FILE.read_text().replace("../loop.yaml", str(SCHEDULES / "loop.yaml"))
    (line,) = (each for each in text.splitlines() if each.startswith(f"{key}:"))
    file = tmp_path / "control-loop.yaml"
    file.write_text(text.replace(line, f"{key}: {value}"))
    with pytest.raises(InputError) as refused:
        experiments.experiment_of(experiments.load(file), file)
    assert message in str(refused.value)
