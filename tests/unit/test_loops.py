"""Control loops in intents, in plans and in what commands print."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cnc import cli, page
from cnc import intent as intents
from cnc.check import judge
from cnc.cli.render.comparison import plan_difference
from cnc.errors import InputError, Unschedulable
from cnc.loops.model import Accepted, FirstOrder, Loops, PiController, PythonController, SecondOrder
from cnc.model import Intent, LoopDelay
from cnc.planner import plan
from cnc.plans import file as planfile
from cnc.plans.difference import difference
from cnc.testbed.lab.slower import slower
from tests.json_documents import documented

FILE = Path(__file__).parents[2] / "schedules" / "loop.yaml"
DOCUMENT = intents.load(FILE).document
US = 1_000
WAY_NS = 65_008  # of either stream: three frames of 142 octets, and room for late ones
DELAY = LoopDelay(sensor_ns=WAY_NS, compute_ns=50 * US, wait_ns=0, actuator_ns=WAY_NS)


def document(**keys: Any) -> dict[str, Any]:
    """loop.yaml with other keys for its loop; those that are None are left out."""
    changed: dict[str, Any] = deepcopy(dict(DOCUMENT))
    changed["loops"]["axis"].update({"deadline": "500us"} | keys)
    for key in [key for key, value in keys.items() if value is None]:
        del changed["loops"]["axis"][key]
    return changed


def intent(**keys: Any) -> Intent:
    return intents.from_document(document(**keys), "loop.yaml")


def with_stream(name: str, **keys: Any) -> dict[str, Any]:
    changed = document()
    changed["streams"][name].update(keys)
    return changed


# --- intents -------------------------------------------------------------------------------------


def test_a_loop_is_read_as_it_is_written():
    loop = intent()[Loops].by_name["axis"]
    assert (loop.sensor, loop.actuator) == ("position", "command")
    assert (loop.period_ns, loop.compute_ns, loop.deadline_ns) == (1_000 * US, 50 * US, 500 * US)
    assert loop.plant == FirstOrder(Decimal(1), 5_000 * US)
    assert loop.controller == PiController(Decimal(1), Decimal(250), Decimal(10))
    assert loop.accepted == Accepted(10_000 * US, 5)
    assert loop.periods == 100


def test_a_plant_of_order_2_and_a_controller_of_the_operator_are_read():
    loop = intent(
        plant={"order": 2, "time-constant": "2ms", "damping": 0.25},
        controller={"python": "control.axis:make"},
    )[Loops].by_name["axis"]
    assert loop.plant == SecondOrder(Decimal(1), 2_000 * US, Decimal("0.25"))
    assert loop.controller == PythonController("control.axis:make")


SECOND = {"order": 2, "time-constant": "2ms"}
REFUSED = {
    "sensor": (
        "positon",
        ("sensor: found 'positon', expected one of command, position; did you mean position?"),
    ),
    "actuator": (
        "position",
        (
            "actuator: found position, which is axis.sensor, expected a stream "
            "that no other loop has"
        ),
    ),
    "period": ("2ms", "period: found 2ms, expected 1ms, the period of its stream position"),
    "deadline": (
        "100us",
        (
            "deadline: found 100us, expected at least 140us: 45us for position, 50us to "
            "compute and 45us for command, when no other frame is in the way"
        ),
    ),
    "duration": ("900us", "duration: found 900us, expected at least 1ms, the period of the loop"),
    "reference": (0, "reference: found 0, expected another number: a step from 0 to it is watched"),
    "accept": ({}, "accept: found no key, expected rise-time, overshoot or both"),
    "steps": (0, "steps: found 0, expected a whole number from 1 to 1000"),
    "compute": (50, "compute: found 50, expected a duration such as 250us, 1ms"),
}


@pytest.mark.parametrize("key", REFUSED)
def test_what_does_not_fit_is_refused(key: str):
    value, message = REFUSED[key]
    with pytest.raises(InputError) as refused:
        intent(**{key: value})
    assert f"loop.yaml: loops.axis.{message}" in str(refused.value).splitlines()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("plant", {**SECOND, "order": 3}, "plant.order: found 3, expected 1 or 2"),
        (
            "plant",
            SECOND,
            ("plant: found order 2, and no damping, expected the damping ratio of the plant"),
        ),
        (
            "plant",
            {**SECOND, "order": 1, "damping": 1},
            "plant.damping: found 1, and order 1, expected a plant of order 2",
        ),
        (
            "plant",
            {**SECOND, "damping": -0.5},
            "plant.damping: found -0.5, expected a number from 0 to 1000000000, such as 2 or 0.25",
        ),
        ("controller", {}, "controller: found neither pi nor python, expected one of the two"),
        (
            "controller",
            {"pi": {"kp": 1, "ki": 1}, "python": "a:b"},
            "controller: found pi and python, expected one of the two",
        ),
        (
            "controller",
            {"python": "make"},
            "controller.python: found 'make', expected module:function",
        ),
        (
            "controller",
            {"pi": {"kp": "1", "ki": 1}},
            (
                "controller.pi.kp: found '1', expected a "
                "number from -1000000000 to 1000000000, such as 2 or 0.25"
            ),
        ),
        (
            "controller",
            {"pi": {"kp": 1, "ki": 1, "limit": 0}},
            (
                "controller.pi.limit: found 0, "
                "expected a number above 0 and up to 1000000000, such as 2 or 0.25"
            ),
        ),
    ],
)
def test_a_plant_or_controller_that_is_none_is_refused(key: str, value: Any, message: str):
    with pytest.raises(InputError) as refused:
        intent(**{key: value})
    assert str(refused.value) == f"loop.yaml: loops.axis.{message}"


@pytest.mark.parametrize(
    ("stream", "keys", "message"),
    [
        (
            "command",
            {"listeners": ["l2"]},
            (
                "actuator: found command, which goes from t1 to l2, "
                "expected a stream to l1, where the stream position comes from"
            ),
        ),
        (
            "position",
            {"listeners": ["t2"]},
            (
                "sensor: found position, which goes from l1 to t2, "
                "expected a stream to t1, where the stream command comes from"
            ),
        ),
        (
            "position",
            {"frames": 2},
            (
                "sensor: found position, which sends 2 frames in each period, "
                "expected a stream of one frame in each"
            ),
        ),
        (
            "command",
            {"period": "2ms"},
            ("period: found 1ms, expected 2ms, the period of its stream command"),
        ),
    ],
)
def test_streams_that_do_not_close_the_loop_are_refused(stream: str, keys: Any, message: str):
    with pytest.raises(InputError) as refused:
        intents.from_document(with_stream(stream, **keys), "loop.yaml")
    assert str(refused.value) == f"loop.yaml: loops.axis.{message}"


def test_a_refusal_names_the_line(tmp_path: Path):
    file = tmp_path / "loop.yaml"
    lines = FILE.read_text().splitlines()
    (number,) = (n for n, line in enumerate(lines, 1) if "sensor: position" in line)
    file.write_text("\n".join(lines).replace("sensor: position", "sensor: speed"))
    with pytest.raises(InputError, match=rf"loop.yaml:{number}: loops.axis.sensor: found 'speed'"):
        intents.load(file)


def test_a_slower_lab_has_slower_loops():
    before, after = intent()[Loops].by_name["axis"], slower(intent(), 10)[Loops].by_name["axis"]
    assert after.plant == FirstOrder(Decimal(1), 50_000 * US)
    assert after.controller == PiController(Decimal(1), Decimal(25), Decimal(10))
    assert (after.deadline_ns, after.compute_ns) == (5_000 * US, 500 * US)
    assert after.periods == before.periods


# --- plans ---------------------------------------------------------------------------------------


def test_a_command_leaves_as_soon_as_it_is_ready():
    planned = plan(intent())
    assert planned.loops == {"axis": DELAY}
    ready_ns = WAY_NS + 50 * US
    assert planned.streams["command"].talker_offsets_ns == (ready_ns,)
    assert judge(planned) == []


def test_a_command_waits_for_the_window_of_its_stream():
    late = {"earliest": "300us", "latest": "400us"}
    planned = plan(intents.from_document(with_stream("command", window=late), "loop.yaml"))
    assert planned.loops["axis"] == replace(DELAY, wait_ns=250 * US - WAY_NS)
    early = {"latest": "50us"}
    waiting = with_stream("command", window=early)
    waiting["loops"]["axis"]["deadline"] = "2ms"
    planned = plan(intents.from_document(waiting, "loop.yaml"))
    assert planned.loops["axis"].total_ns == 1_000 * US + WAY_NS  # in the period after
    assert judge(planned) == []


def test_a_loop_that_takes_longer_than_its_deadline_has_no_plan():
    late = with_stream("command", window={"earliest": "500us"})
    with pytest.raises(Unschedulable) as refused:
        plan(intents.from_document(late, "loop.yaml"))
    assert refused.value.reasons == {
        "loop axis": "takes 565.008 µs, its deadline is 500 µs: 65.008 µs for position, "
        "50 µs to compute, 384.992 µs until command leaves, 65.008 µs for it"
    }
    done = CliRunner().invoke(cli.cnc, ["plan", str(FILE)])
    assert done.exit_code == 0


def test_streams_that_run_do_not_move_for_a_loop():
    without = document()
    del without["loops"]
    running = plan(intents.from_document(without, "loop.yaml"))
    assert running.streams["command"].talker_offsets_ns == (0,)
    around = plan(intent(deadline="2ms"), keep=running)
    assert around.streams == running.streams
    assert around.loops["axis"].total_ns == 1_000 * US + WAY_NS
    assert judge(around) == []


def test_a_loop_of_a_stream_without_a_place_is_not_closed():
    crowded = document(deadline="2ms")
    alone = {"window": {"latest": "0us"}, "windows": "exact"}
    only_then = {**crowded["streams"]["command"], **alone}
    crowded["streams"] |= {"command": only_then, "before": {**only_then, "payload": "200B"}}
    planned = plan(intents.from_document(crowded, "loop.yaml"), best_effort=True)
    assert planned.refused.keys() == {"command"}
    assert planned.loops == {}
    assert judge(planned) == []


def test_a_command_leaves_when_it_is_ready_though_another_stream_has_no_place():
    crowded = document()
    alone = {"window": {"latest": "0us"}, "windows": "exact"}
    only_then = {**crowded["streams"]["position"], **alone}
    other = {**only_then, "talker": "l2", "listeners": ["t2"]}
    crowded["streams"] |= {"first": other, "second": other}
    planned = plan(intents.from_document(crowded, "loop.yaml"), best_effort=True)
    assert planned.refused.keys() == {"second"}
    assert planned.loops["axis"].wait_ns == 0
    assert judge(planned) == []


def test_the_judge_knows_how_long_a_loop_takes():
    planned = plan(intent())

    def codes(**changes: Any) -> list[tuple[str, str]]:
        return [(each.code, each.text) for each in judge(replace(planned, **changes))]

    assert codes(loops={}) == [("loop", "takes 180016 ns, of which the plan says nothing")]
    assert codes(loops={"axis": replace(DELAY, wait_ns=1)}) == [
        ("loop", "takes 180016 ns, the plan says 180017 ns")
    ]
    late = planned.intent[Loops].by_name["axis"]
    tight = planned.intent.having(Loops({"axis": replace(late, deadline_ns=180_015)}))
    assert codes(intent=tight) == [("loop-deadline", "takes 180016 ns, 180015 ns allowed")]
    none = planned.intent.having(Loops())
    assert codes(intent=none) == [("loop", "has a delay in the plan, and is no loop of the intent")]


# --- files and output ----------------------------------------------------------------------------


def test_a_plan_file_has_the_delays_of_loops(tmp_path: Path):
    planned = plan(intent())
    text = planfile.dump(planned)
    assert json.loads(text)["loops"] == {
        "axis": {"sensor_ns": WAY_NS, "compute_ns": 50_000, "wait_ns": 0, "actuator_ns": WAY_NS}
    }
    read = planfile.parse(text, "plan.json")
    assert (read.loops, read.intent[Loops]) == (planned.loops, planned.intent[Loops])
    with pytest.raises(InputError, match=r"loops.arm: found .*, expected a loop of the intent"):
        planfile.parse(text.replace('"axis": {"sensor_ns"', '"arm": {"sensor_ns"'), "plan.json")
    done = CliRunner().invoke(cli.cnc, ["plan", str(FILE), "--json"])
    assert documented("plan", done.stdout)["loops"] == json.loads(text)["loops"]


def test_people_see_what_a_loop_takes_and_of_what_that_is_made():
    done = CliRunner().invoke(cli.cnc, ["plan", str(FILE)], env={"COLUMNS": "200"})
    (row,) = (line.split() for line in done.stdout.splitlines() if "axis:" in line)
    assert row[:3] == ["axis:", "position,", "command"]
    assert " ".join(row[3:]) == "1 ms 65.008 µs 50 µs 0 ns 65.008 µs 180.016 µs 250 µs"


def test_a_loop_that_takes_longer_by_another_plan_is_a_difference(
    capsys: pytest.CaptureFixture[str],
):
    before = plan(intent())
    found = difference(before, plan(intent(compute="80us")))
    assert not found.same
    plan_difference(found, as_json=False)
    assert " ".join(capsys.readouterr().out.split()).count("axis delay 180.016 µs 210.016 µs") == 1
    plan_difference(found, as_json=True)
    changed = documented("diff", capsys.readouterr().out)["loops"]["axis"]
    assert (changed["before"]["compute_ns"], changed["after"]["compute_ns"]) == (50_000, 80_000)
    assert difference(before, before).loops == {}


def test_the_page_has_what_a_loop_takes():
    assert '"delay_ns":180016,"deadline_ns":500000,"parts_ns":[65008,50000,0,65008]' in page.html(
        plan(intent())
    )
