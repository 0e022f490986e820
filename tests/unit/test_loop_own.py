"""Plants and controllers of the operator's own, and a robot in MuJoCo among them."""

from __future__ import annotations

import math
import re
import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cnc import intent as intents
from cnc.errors import CncError, InputError
from cnc.loops.model import Loop, Loops, PythonPlant
from cnc.planner import plan
from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.control_loop.pictures import step_response_picture
from cnc.testbed.traffic.loop import run
from cnc.testbed.traffic.loop.robot import MujocoPlant
from cnc.testbed.traffic.loop.run import Curve, Period

ROOT = Path(__file__).parents[2]
SCHEDULES = ROOT / "schedules"
PAGE = ROOT / "docs" / "lab" / "loop-robot.md"
DOCUMENT = intents.load(SCHEDULES / "pendulum.yaml").document
MODEL = SCHEDULES / "pendulum.xml"
MS = 1_000_000


def balance(**keys: Any) -> Loop:
    """The loop of pendulum.yaml with other keys."""
    changed: dict[str, Any] = deepcopy(dict(DOCUMENT))
    changed["loops"]["balance"].update(keys)
    return intents.from_document(changed, "pendulum.yaml")[Loops].by_name["balance"]


def mine(directory: Path, code: str, **plant: Any) -> Loop:
    """The same loop with a plant by `code`, and a PI controller if its numbers are one each."""
    (directory / "mine.py").write_text(code)
    controller = {"python": "mine:controller"} if plant else {"pi": {"kp": 1, "ki": 10}}
    return balance(plant={"python": "mine:plant", **plant}, controller=controller)


# --- intents -------------------------------------------------------------------------------------


def test_a_plant_of_your_own_is_read_with_the_names_of_its_numbers():
    assert balance().plant == PythonPlant("pendulum:plant", ("position", "angle"), ("force",))
    one = balance(plant={"python": "a.b:c"}, controller={"pi": {"kp": 1, "ki": 1}}).plant
    assert one == PythonPlant("a.b:c", ("output",), ("command",))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"controller": {"pi": {"kp": 1, "ki": 1}}},
            (
                "controller.pi: found pi, and a plant with 2 outputs and 1 command, "
                "expected a controller by python, which has them all"
            ),
        ),
        (
            {"plant": {"order": 1, "time-constant": "5ms", "outputs": ["one"]}},
            "plant.outputs: found outputs, and order, expected a plant by python",
        ),
        (
            {"plant": {"python": "a:b", "commands": ["left", "right", "left"]}},
            "plant.commands: found left twice, expected a name for each",
        ),
        (
            {"plant": {"python": "a:b", "gain": 2}},
            "plant.gain: found 2, and python, expected a plant of order 1 or 2",
        ),
        (
            {"plant": {"python": "pendulum.py"}},
            "plant.python: found 'pendulum.py', expected module:function",
        ),
    ],
)
def test_what_does_not_fit_a_plant_of_your_own_is_refused(keys: dict[str, Any], message: str):
    with pytest.raises(InputError) as refused:
        balance(**keys)
    assert str(refused.value).splitlines()[0] == f"pendulum.yaml: loops.balance.{message}"


def test_a_frame_needs_room_for_all_numbers_of_a_sample():
    changed: dict[str, Any] = deepcopy(dict(DOCUMENT))
    changed["streams"]["state"]["payload"] = "50B"
    planned = plan(intents.from_document(changed, "pendulum.yaml"))
    loop = planned.intent[Loops].by_name["balance"]
    with pytest.raises(InputError, match="50 octets has no room for 2 values of a control loop"):
        run.loop_flows(planned, loop)


# --- code of your own ----------------------------------------------------------------------------


def test_the_plant_on_the_page_follows_its_reference(tmp_path: Path):
    (code,) = re.findall(r"```python\n(class .*?)```", PAGE.read_text(), re.DOTALL)
    loop = mine(tmp_path, code)
    outputs = run.undisturbed(loop, tmp_path)
    assert outputs[0] == 0
    assert outputs[-1] == pytest.approx(0.2, rel=1e-3)
    assert outputs == run.undisturbed(loop, tmp_path)


TWO = """
class Plant:
    output = (0.0, 0.0)

    def advance(self, duration_ns, command):
        left, right = command
        self.output = (self.output[0] + left * duration_ns / 5_000_000, right)


def controller(period_s):
    return lambda reference, sample: (reference - sample[0], sample[1] - 1)
"""


def test_several_numbers_come_to_one_controller_and_from_it(tmp_path: Path):
    names = {"outputs": ["way", "turn"], "commands": ["left", "right"]}
    loop = mine(tmp_path, TWO + "plant = Plant", **names)
    way, turn = run.undisturbed_axes(replace(loop, deadline_ns=loop.period_ns), tmp_path)
    assert way[:4] == pytest.approx([0, 0, 0.2, 0.4])  # a command acts a period after its sample
    assert turn[:4] == [0, 0, -1, -1]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("def plant():\n    return Plant()\n", "outputs: found 2 numbers, expected 1: w"),
        ("def plant():\n    return 1 / 0\n", "ZeroDivisionError: division by zero"),
        ("", "mine.py has no plant"),
        ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
    ],
)
def test_code_of_your_own_that_fails_is_named_before_anything_is_sent(
    tmp_path: Path, code: str, why: str
):
    loop = mine(tmp_path, TWO + code, outputs=["w"], commands=["left", "right"])
    with pytest.raises(CncError, match="loop balance: the code of your own failed") as refused:
        run.undisturbed_axes(loop, tmp_path)
    assert why in str(refused.value.hint)


def test_a_module_that_is_not_there_is_named_with_where_it_is_looked_for(tmp_path: Path):
    for function, missing in (("nowhere:plant", "nowhere"), ("os.nowhere:plant", "os.nowhere")):
        loop = balance(plant={"python": function}, controller={"pi": {"kp": 1, "ki": 10}})
        with pytest.raises(CncError) as refused:
            run.undisturbed_axes(loop, tmp_path)
        assert refused.value.hint == (
            f"{function}: neither {tmp_path} nor what is installed has a module {missing}"
        )


def test_the_record_has_a_column_for_each_number(tmp_path: Path):
    names = {"outputs": ["a", "b"], "commands": ["c", "d", "e"]}
    loop = mine(tmp_path, TWO, **names)
    period = Period(0, 0, 1.0, 1, 0, 2, 4.0, 0, 0, [2.0], [5.0, 6.0])
    run.write(Curve(loop, [period]), tmp_path / "loop.csv")
    header, row = (tmp_path / "loop.csv").read_text().splitlines()
    assert header.split(",")[-4:] == ["acting_sample", "output_2", "command_2", "command_3"]
    assert row.split(",")[-3:] == ["2.0", "5.0", "6.0"]
    assert run.period_of(dict(zip(header.split(","), row.split(","), strict=True))) == period


# --- a robot in MuJoCo ---------------------------------------------------------------------------


def test_a_cart_balances_its_pole_over_a_network_that_is_in_time_and_two_runs_are_equal():
    loop = balance()
    position, angle = run.undisturbed_axes(loop, SCHEDULES)
    assert [position, angle] == run.undisturbed_axes(loop, SCHEDULES)
    assert max(map(abs, angle)) < math.radians(5)
    assert position[-1] == pytest.approx(0.2, abs=0.005)
    assert min(position) < -0.01  # it draws back first, to lean the pole to where it goes


def test_a_pole_without_commands_that_is_off_falls():
    plant = MujocoPlant(MODEL, ["position", "angle"], ["force"])
    for duration_ns, force in ((50 * MS, 1.0), (3_000 * MS, 0.0)):
        plant.advance(duration_ns, force)
    _, angle = plant.output  # type: ignore[misc]
    assert abs(angle) == pytest.approx(math.pi / 2, abs=0.1)


def test_time_passes_in_equal_steps_no_longer_than_those_of_the_model():
    one, other = (MujocoPlant(MODEL, ["position"], ["force"]) for _ in range(2))
    one.advance(5 * MS, 1.0)
    for _ in range(5):
        other.advance(MS, 1.0)
    other.advance(0, 7.0)
    assert one.output == other.output
    one.advance(1_500_000, 1.0)  # two of 0.75 ms
    other.advance(750_000, 1.0)
    other.advance(750_000, 1.0)
    assert one.output == other.output


def test_a_name_that_the_model_has_not_is_refused_with_those_that_it_has():
    with pytest.raises(SystemExit, match=r"sensor height: the model has none .*position"):
        MujocoPlant(MODEL, ["height"], ["force"])


def test_without_mujoco_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(SystemExit, match=r"pip install 'tsn-control-plane-lab\[robot\]'"):
        MujocoPlant(MODEL, ["position"], ["force"])


def test_a_picture_has_a_curve_for_each_output(tmp_path: Path):
    loop = replace(balance(), duration_ns=100 * MS)
    ideal = run.undisturbed_axes(loop, SCHEDULES)
    periods = [
        Period(n, n * loop.period_ns, position, 0, n, 0, 0.0, n, n, [angle])
        for n, (position, angle) in enumerate(zip(*ideal, strict=True))
    ]
    text = pictures.save([step_response_picture(Curve(loop, periods), ideal)], tmp_path, {})
    assert all(name in text["step-response"] for name in ("position", "angle"))


SLED = """
<mujoco>
  <option timestep="0.001" gravity="0 0 0"/>
  <worldbody>
    <body name="sled">
      <joint name="way" type="slide" axis="1 0 0"/>
      <geom type="box" size="0.1 0.1 0.1" mass="1"/>
    </body>
  </worldbody>
  <actuator><motor name="force" joint="way"/></actuator>
  <sensor>
    <jointpos name="x" joint="way"/>
    <framepos name="place" objtype="body" objname="sled"/>
  </sensor>
  KEY
</mujoco>
"""


@pytest.mark.parametrize("begin", [0.0, 0.25])
def test_a_model_begins_at_its_key_frame_and_is_sampled_where_it_is_now(
    tmp_path: Path, begin: float
):
    key = f'<keyframe><key qpos="{begin}"/></keyframe>' if begin else ""
    (tmp_path / "sled.xml").write_text(SLED.replace("KEY", key))
    sled = MujocoPlant(tmp_path / "sled.xml", ["x"], ["force"])
    assert sled.output == begin
    sled.advance(5 * MS, 2.0)
    # Of speeds 2, 4, … 10 mm/s for a millisecond each.
    assert sled.output == pytest.approx(begin + 30e-6, abs=1e-12)


def test_a_sensor_of_several_numbers_is_refused(tmp_path: Path):
    (tmp_path / "sled.xml").write_text(SLED.replace("KEY", ""))
    with pytest.raises(SystemExit, match="sensor place: found 3 numbers, expected a sensor of one"):
        MujocoPlant(tmp_path / "sled.xml", ["place"], ["force"])
