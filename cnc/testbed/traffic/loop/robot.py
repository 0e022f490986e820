"""A robot as plant of a control loop: a model in MJCF, advanced by the physics engine MuJoCo.

Imported by the module of a plant (docs/lab/loop-robot.md), and so in the program of an end station.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cnc.testbed.traffic.loop.own import Numbers

NS_PER_S = 1_000_000_000


class MujocoPlant:
    """A model whose `outputs` are sensors of one number, and whose `commands` are actuators, each
    by its name in the model.

    It begins at the model's first key frame, if it has one, and time passes in steps no longer than
    the model's. The same commands at the same instants give the same outputs, to the last digit.
    """

    def __init__(self, model: Path, outputs: Sequence[str], commands: Sequence[str]) -> None:
        self._engine = _engine()
        self._model = self._engine.MjModel.from_xml_path(str(model))
        self._data = self._engine.MjData(self._model)
        self._step_ns = round(self._model.opt.timestep * NS_PER_S)
        self._outputs = [self._sensor(name) for name in outputs]
        self._commands = [self._named("actuator", name) for name in commands]
        if self._model.nkey:
            self._engine.mj_resetDataKeyframe(self._model, self._data, 0)
        self._engine.mj_forward(self._model, self._data)

    @property
    def output(self) -> Numbers:
        found = tuple(float(self._data.sensordata[address]) for address in self._outputs)
        return found if len(found) > 1 else found[0]

    def advance(self, duration_ns: int, command: Numbers) -> None:
        if duration_ns == 0:
            return
        self._data.ctrl[self._commands] = command
        steps = -(-duration_ns // self._step_ns)
        self._model.opt.timestep = duration_ns / NS_PER_S / steps
        self._engine.mj_step(self._model, self._data, steps)
        # A step computes sensors at its beginning.
        self._engine.mj_forward(self._model, self._data)

    def _sensor(self, name: str) -> int:
        its = self._model.sensor(self._named("sensor", name))
        if its.dim[0] != 1:
            sys.exit(f"sensor {name}: found {its.dim[0]} numbers, expected a sensor of one")
        return int(its.adr[0])

    def _named(self, kind: str, name: str) -> int:
        try:
            return int(getattr(self._model, kind)(name).id)
        except KeyError as error:
            sys.exit(f"{kind} {name}: the model has none of this name: {error.args[0]}")


def _engine() -> Any:
    try:
        import mujoco  # noqa: PLC0415  an extra
    except ImportError:
        sys.exit(
            "a robot is simulated by MuJoCo, which is not installed: "
            "pip install 'tsn-control-plane-lab[robot]'"
        )
    return mujoco
