"""Loops that follow a path: in intents, what is refused, and what `cnc lab loop` prints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cnc import intent as intents
from cnc.check import judge
from cnc.errors import InputError
from cnc.loops.model import Accepted, Arm, Conveyor, Loop, Loops
from cnc.loops.paths import Circle, Line, Ramp, Sine
from cnc.model import Intent, LoopDelay
from cnc.planner import plan
from cnc.testbed import experiments
from cnc.testbed.cli.render import loop as render
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.slower import slower
from cnc.testbed.traffic.loop import run
from cnc.testbed.traffic.loop.report import LoopReport
from cnc.testbed.traffic.loop.run import Curve, Period
from tests.json_documents import documented

FILE = Path(__file__).parents[2] / "schedules" / "arm.yaml"
DOCUMENT = intents.load(FILE).document
MS = 1_000_000
BELT = {"conveyor": {"speed": 0.8, "time-constant": "20ms"}}
RAMP = {"ramp": 0.5}
LINE = {"from": [0.5, 0.2], "to": [0.5, -0.2]}
CIRCLE = {"centre": [0.45, 0.1], "radius": 0.1, "period": "500ms"}


def document(**keys: Any) -> dict[str, Any]:
    """arm.yaml with other keys for its loop; those that are None are left out."""
    changed: dict[str, Any] = deepcopy(dict(DOCUMENT))
    loop = changed["loops"]["tip"]
    loop.update(keys)
    for key in [key for key, value in loop.items() if value is None]:
        del loop[key]
    return changed


def intent(**keys: Any) -> Intent:
    return intents.from_document(document(**keys), "arm.yaml")


def loop(**keys: Any) -> Loop:
    return intent(**keys)[Loops].by_name["tip"]


def test_an_arm_and_its_circle_are_read_as_they_are_written():
    its = loop()
    assert its.plant == Arm((Decimal("0.4"), Decimal("0.3")), Decimal(10), 5 * MS)
    assert its.path == Circle((Decimal("0.45"), Decimal("0.1")), Decimal("0.1"), 500 * MS)
    assert its.accepted == Accepted(path_error=Decimal("0.015"))
    assert its.unit == "m"
    assert judge(plan(intent())) == []


def test_a_line_of_an_arm_and_the_paths_of_a_conveyor_are_read():
    assert loop(path={"line": LINE}).path == Line(
        (Decimal("0.5"), Decimal("0.2")), (Decimal("0.5"), Decimal("-0.2"))
    )
    belt = loop(plant=BELT, path=RAMP)
    assert belt.plant == Conveyor(Decimal("0.8"), 20 * MS)
    assert belt.path == Ramp(Decimal("0.5"))
    sine = {"sine": {"amplitude": 0.1, "period": "4ms"}}
    assert loop(plant=BELT, path=sine).path == Sine(Decimal("0.1"), 4 * MS)


def test_a_path_is_also_for_plants_of_an_order_and_a_step_for_a_conveyor():
    first = loop(plant={"order": 1, "time-constant": "5ms"}, path=RAMP)
    assert (first.path, first.unit) == (Ramp(Decimal("0.5")), "")
    step = loop(plant=BELT, path=None, reference=0.2, accept={"overshoot": 5})
    assert (step.path, step.reference) == (None, Decimal("0.2"))


def test_a_slower_lab_has_slower_drives_and_paths():
    its = slower(intent(), 10)[Loops].by_name["tip"]
    assert its.plant == Arm((Decimal("0.4"), Decimal("0.3")), Decimal(1), 50 * MS)
    assert its.path == Circle((Decimal("0.45"), Decimal("0.1")), Decimal("0.1"), 5_000 * MS)
    assert its.periods == loop().periods


TWO_LENGTHS = "two lengths in m, such as [0.4, 0.3]"
NUMBER = "a number from -1000000000 to 1000000000, such as 2 or 0.25"
ABOVE_0 = "a number above 0 and up to 1000000000, such as 2 or 0.25"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no plant": (
        {"plant": {}},
        "plant: found none of order, conveyor, arm and python, expected one of the four",
    ),
    "two plants": (
        {"plant": {"order": 1, **BELT}},
        "plant: found order and conveyor, expected one of the four",
    ),
    "an order without a time constant": (
        {"plant": {"order": 1}, "path": RAMP},
        (
            "plant: found no time-constant, expected of order 1: after which a "
            "step has come 63.2 % of "
            "its way; of order 2: the inverse of the natural frequency in radians "
            "a second; a duration "
            "such as 5ms"
        ),
    ),
    "a gain of a conveyor": (
        {"plant": {"gain": 2, **BELT}, "path": RAMP},
        "plant.gain: found 2, and conveyor, expected a plant of order 1 or 2",
    ),
    "the damping of a conveyor": (
        {"plant": {"damping": 0.5, **BELT}, "path": RAMP},
        "plant.damping: found 0.5, and conveyor, expected a plant of order 1 or 2",
    ),
    "a time constant beside an arm": (
        {"plant": {**DOCUMENT["loops"]["tip"]["plant"], "time-constant": "1500us"}},
        "plant.time-constant: found 1.5ms, and arm, expected a plant of order 1 or 2",
    ),
    "a conveyor that stands": (
        {"plant": {"conveyor": {"speed": 0, "time-constant": "20ms"}}},
        f"plant.conveyor.speed: found 0, expected {ABOVE_0}",
    ),
    "an arm of three links": (
        {"plant": {"arm": {"links": [1, 1, 1], "speed": 1, "time-constant": "5ms"}}},
        f"plant.arm.links: found [1, 1, 1], expected {TWO_LENGTHS}",
    ),
    "a link without length": (
        {"plant": {"arm": {"links": [1, 0], "speed": 1, "time-constant": "5ms"}}},
        f"plant.arm.links: found [1, 0], expected {ABOVE_0}",
    ),
    "an arm without a path": (
        {"path": None, "accept": None},
        "found an arm, and no path, expected a line or a circle for its tip",
    ),
    "an arm on a ramp": (
        {"path": RAMP},
        "path.ramp: found a ramp, and an arm, expected a line or a circle",
    ),
    "a conveyor on a circle": (
        {"plant": BELT},
        "path.circle: found a circle, and no arm, expected a ramp or a sine",
    ),
    "a path of two": (
        {"path": {"line": LINE, "circle": CIRCLE}},
        "path: found line and circle, expected one of ramp, sine, line, circle",
    ),
    "a path of none": (
        {"path": {}},
        "path: found no key, expected one of ramp, sine, line, circle",
    ),
    "a place in words": (
        {"path": {"circle": {**CIRCLE, "centre": ["left", 0]}}},
        f"path.circle.centre: found ['left', 0], expected {NUMBER}",
    ),
    "a ramp that leads nowhere": (
        {"plant": BELT, "path": {"ramp": 0}},
        "path.ramp: found 0, expected another number: it leads from 0 to it",
    ),
    "a line without length": (
        {"path": {"line": {"from": [0.5, 0], "to": [0.5, 0]}}},
        "path.line.to: found [0.5, 0], expected another place than it begins at",
    ),
    "a turn between two samples": (
        {"path": {"circle": {**CIRCLE, "period": "3999us"}}},
        "path.circle.period: found 3.999ms, expected at least 4ms, 4 periods of the loop",
    ),
    "a circle out of reach": (
        {"path": {"circle": {**CIRCLE, "centre": [0.6, 0.25]}}},
        (
            "path.circle: found a place 0.75 m from the shoulder, expected at most "
            "0.7 m, the reach of "
            "both links"
        ),
    ),
    "a circle too near": (
        {"path": {"circle": {**CIRCLE, "centre": [0.15, 0]}}},
        (
            "path.circle: found a place 0.05 m from the shoulder, expected at "
            "least 0.1 m, by which "
            "one link is longer than the other"
        ),
    ),
    "a line past the shoulder": (
        {"path": {"line": {"from": [0.06, -0.5], "to": [0.06, 0.5]}}},
        (
            "path.line: found a place 0.06 m from the shoulder, expected at least "
            "0.1 m, by which one "
            "link is longer than the other"
        ),
    ),
    "a line through the shoulder": (
        {
            "plant": {"arm": {"links": [0.3, 0.3], "speed": 1, "time-constant": "5ms"}},
            "path": {"line": {"from": [-0.2, -0.2], "to": [0.3, 0.3]}},
        },
        "path.line: found a place at the shoulder, expected a path beside it",
    ),
    "a step beside a path": (
        {"reference": 2},
        "reference: found 2, and a path, expected one of the two",
    ),
    "a step to 0 beside a path": (
        {"reference": 0},
        "reference: found 0, and a path, expected one of the two",
    ),
    "steps of a path": ({"steps": 3}, "steps: found 3, and a path, expected one of the two"),
    "the rise time of a path": (
        {"accept": {"rise-time": "10ms", "path-error": 1}},
        "accept.rise-time: found 10ms, and a path, expected path-error",
    ),
    "the overshoot of a path": (
        {"accept": {"overshoot": 5}},
        "accept.overshoot: found 5, and a path, expected path-error",
    ),
    "nothing of a path": ({"accept": {}}, "accept: found no key, expected path-error"),
    "the path error of a step": (
        {"plant": BELT, "path": None},
        "accept.path-error: found 0.015, and no path, expected rise-time, overshoot or both",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_a_path_is_refused(what: str):
    keys, message = REFUSED[what]
    with pytest.raises(InputError) as refused:
        intent(**keys)
    separator = ": " if message.startswith("found") else "."
    assert str(refused.value) == f"arm.yaml: loops.tip{separator}{message}"


def test_a_path_at_the_very_end_of_the_reach_is_followed():
    stretched = {"centre": [0.6, 0], "radius": 0.1, "period": "500ms"}
    assert run.undisturbed_axes(loop(path={"circle": stretched}))


@pytest.mark.parametrize(("version", "least"), [(4, 54), (6, 74)])
def test_a_frame_without_room_for_both_joints_is_refused(version: int, least: int):
    changed = document()
    changed["streams"]["speeds"] |= {"payload": f"{least - 1}B", "ip": version}
    planned = plan(intents.from_document(changed, "arm.yaml"))
    with pytest.raises(InputError) as refused:
        run.loop_flows(planned, planned.intent[Loops].by_name["tip"])
    assert str(refused.value) == (
        f"stream speeds: a payload of {least - 1} octets has no room for 2 values of a control loop"
    )
    assert refused.value.hint == f"{least} octets or more: headers, two numbers and 2 values"
    changed["streams"]["speeds"] |= {"payload": f"{least}B"}
    planned = plan(intents.from_document(changed, "arm.yaml"))
    assert len(run.loop_flows(planned, planned.intent[Loops].by_name["tip"])) == 2


def test_the_experiment_with_steps_refuses_a_loop_that_follows_a_path(tmp_path: Path):
    text = (FILE.parent / "experiments" / "control-loop.yaml").read_text()
    for key, value in (
        ("network", str(FILE)),
        ("loop", "tip"),
        ("talkers", "[camera]"),
        ("listener", "arm"),
    ):
        text = re.sub(rf"(?m)^{key}: .*$", f"{key}: {value}", text)
    file = tmp_path / "control-loop.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match="loop: tip follows a path, and has no step response"):
        experiments.experiment_of(experiments.load(file), file)


# --- output --------------------------------------------------------------------------------------

IDEAL = run.undisturbed_axes(loop())
PLANNED = LoopDelay(30_000, 50_000, 0, 30_000)


def found(axes: Sequence[Sequence[float]], its: Loop) -> LoopReport:
    def period(n: int, values: Sequence[float]) -> Period:
        at_ns = n * its.period_ns
        came = at_ns + 20_000, n, at_ns + 100_000
        return Period(n, at_ns, values[0], *came, 0.0, n, n, values[1:], [0.0] * len(values[1:]))

    periods = [period(n, values) for n, values in enumerate(zip(*axes, strict=True))]
    exact = Platform("Linux", "virtual time", exact=True)
    return LoopReport(Curve(its, periods), PLANNED, IDEAL, exact, [], 1_000)


def test_people_see_how_far_an_arm_was_off_its_path(capsys: pytest.CaptureFixture[str]):
    render.loop(found(IDEAL, loop()), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].rstrip() == "tip: path error at 500 samples"
    assert lines[2].split() == ["root", "mean", "square", "maximum"]
    assert lines[4].split() == ["0.00387586", "m", "0.0115875", "m"]
    assert "1 of 1 within what `accept` states." in lines
    assert "in time: to the last digit." in "\n".join(lines)
    render.loop(found(IDEAL, loop(accept={"path-error": 0.011})), as_json=False)
    assert "0 of 1 within what `accept` states." in capsys.readouterr().out


def test_an_arm_is_disturbed_if_one_of_its_joints_is(capsys: pytest.CaptureFixture[str]):
    shoulder, elbow = IDEAL
    off = found([shoulder, [*elbow[:-1], elbow[-1] + 1e-9]], loop())
    assert off.is_undisturbed is False
    assert found(IDEAL, loop()).is_undisturbed is True


def test_a_run_of_a_path_is_a_document(capsys: pytest.CaptureFixture[str]):
    render.loop(found(IDEAL, loop()), as_json=True)
    printed = documented("lab loop", capsys.readouterr().out)
    assert (printed["responses"], printed["good"], printed["unit"]) == ([], 1, "m")
    assert printed["path_error"]["maximum"] == pytest.approx(0.0115875, abs=1e-7)
    assert 0 < printed["path_error"]["root_mean_square"] < printed["path_error"]["maximum"]


def test_a_path_of_a_plant_without_a_unit_has_an_error_without_one(
    capsys: pytest.CaptureFixture[str],
):
    its = replace(loop(plant={"order": 1, "time-constant": "5ms"}, path=RAMP), accepted=None)
    render.loop(found([[0.0] * 500], its), as_json=False)
    assert capsys.readouterr().out.splitlines()[4].split() == ["0.288242", "0.499"]


@pytest.mark.parametrize("key", ["sensor", "period", "plant", "controller"])
def test_a_loop_without_a_key_that_it_needs_is_refused_by_name(key: str):
    its = {name: value for name, value in DOCUMENT["loops"]["tip"].items() if name != key}
    with pytest.raises(InputError, match=rf"loops\.tip: found no {key}, expected "):
        intents.from_document({**DOCUMENT, "loops": {"tip": its}}, "loop")
