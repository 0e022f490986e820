"""Loops that follow a path, and curves of them, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from cnc import intent as intents
from cnc.loops.model import Arm, Conveyor, Loop, Loops, PiController
from cnc.loops.paths import Sine
from cnc.testbed.traffic.loop.run import Curve, Period

LOOP = intents.load(Path(__file__).parents[2] / "schedules" / "arm.yaml")[Loops].by_name["tip"]
ARM = Arm((Decimal("0.4"), Decimal("0.3")), Decimal(10), 5_000_000)
MS = 1_000_000
BELT = replace(
    LOOP,
    plant=Conveyor(Decimal("0.8"), 20 * MS),
    controller=PiController(Decimal(60), Decimal(100), Decimal(1)),
    path=Sine(Decimal("0.02"), 200 * MS),
    duration_ns=100 * MS,
)


def period(n: int, values: Sequence[float]) -> Period:
    first, *others = values
    sampled_ns = n * LOOP.period_ns
    came = sampled_ns + 40_000, n, sampled_ns + 120_000
    return Period(n, sampled_ns, first, *came, 0.0, n, n, others, [0.5] * len(others))


def curve(loop: Loop, points: Sequence[Sequence[float]]) -> Curve:
    return Curve(loop, [period(n, values) for n, values in enumerate(points)])
