"""The axes of a loop, controlled one by one: the two joints of an arm, or all of another plant.

Each has a plant, a controller and references of its own, of which a frame carries the values of
all. A plant of the operator's has one controller for all of its outputs. What is here is plain
data, which `parts` makes them of, in whatever program.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from cnc.loops.model import Arm, Conveyor, Loop, PythonPlant
from cnc.loops.paths import Point


def planned(loop: Loop) -> list[Point]:
    """Where the output is to be at each sample of a loop that follows a path; nothing of others."""
    if loop.path is None:
        return []
    return [loop.path.at(n * loop.period_ns, loop.duration_ns) for n in range(loop.periods)]


def references(loop: Loop) -> dict[str, Any]:
    """What `parts.references_of` needs."""
    if loop.path is not None:
        return {"references": _of_axes(loop), "periods": loop.periods}
    return {
        "reference": str(loop.reference),
        "periods_a_step": loop.periods // loop.steps,
        "periods": loop.periods,
    }


def resting(loop: Loop) -> Point:
    """Where each output is at first: at 0, or those of an arm where its path begins."""
    if isinstance(loop.plant, Arm):
        return _of_axes(loop)[0]
    return (0.0,) * (len(loop.plant.outputs) if isinstance(loop.plant, PythonPlant) else 1)


def inputs(loop: Loop) -> int:
    """How many numbers a command has; a sample has as many as `resting`."""
    its = loop.plant
    return len(its.commands) if isinstance(its, PythonPlant) else len(resting(loop))


def controlled(loop: Loop, modules: str) -> dict[str, Any]:
    """What `parts.controlled_of` needs; modules of the operator are in a directory."""
    if isinstance(loop.plant, PythonPlant):
        return {**asdict(loop.plant), "modules": modules}
    return {"plants": _plants(loop)}


def answering(loop: Loop, modules: str) -> dict[str, Any]:
    """What `parts.answer_of` needs: a controller for each axis, or one of all outputs."""
    controller = numbers(loop.controller)
    if isinstance(loop.plant, PythonPlant) and not loop.plant.is_one_axis:
        controller["commands"] = loop.plant.commands
    return {
        "controller": controller,
        "modules": modules,
        "period_ns": loop.period_ns,
        "resting": resting(loop),
    }


def _plants(loop: Loop) -> list[dict[str, Any]]:
    """What `parts.plant_of` needs, for each axis."""
    its = loop.plant
    if isinstance(its, Conveyor | Arm):
        speed = its.speed_m_per_s if isinstance(its, Conveyor) else its.speed_rad_per_s
        drive = {"speed_per_s": str(speed), "time_constant_ns": its.time_constant_ns}
        return [{**drive, "resting": each} for each in resting(loop)]
    return [numbers(its)]


def numbers(its: Any) -> dict[str, Any]:
    """The fields of a plant or a controller, decimal numbers as text."""
    return {
        key: str(value) if isinstance(value, Decimal) else value
        for key, value in asdict(its).items()
    }


def _of_axes(loop: Loop) -> list[Point]:
    """The references of all axes, period by period."""
    points = planned(loop)
    return [*_turning(loop.plant, points)] if isinstance(loop.plant, Arm) else points


def _turning(arm: Arm, points: list[Point]) -> Iterator[Point]:
    """The angles for each point; a shoulder goes on where a path leads around it, and does not turn
    back at π."""
    before = 0.0
    for point in points:
        shoulder, elbow = arm.angles(point)
        before += math.remainder(shoulder - before, 2 * math.pi)
        yield before, elbow
