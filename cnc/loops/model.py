"""Control loops that are closed over a network: what they are, and how long one takes.

In each period a plant sends a sample of its output in one stream; a controller at the other end
computes a command from it and sends that back in another. Gains and references are decimal numbers,
exactly as the operator writes them; commands have no unit of their own, nor have outputs but those
of a conveyor and an arm, in m.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from cnc.loops.paths import Path, Point


@dataclass(frozen=True, slots=True)
class FirstOrder:
    """A plant `time_constant · y' + y = gain · u`."""

    gain: Decimal
    time_constant_ns: int


@dataclass(frozen=True, slots=True)
class SecondOrder:
    """A plant `time_constant² · y'' + 2 · damping · time_constant · y' + y = gain · u`.

    The time constant is the inverse of its natural frequency in radians a second. It oscillates
    where `damping` is below 1.
    """

    gain: Decimal
    time_constant_ns: int
    damping: Decimal


@dataclass(frozen=True, slots=True)
class Conveyor:
    """A belt with a drive: `time_constant · v' + v = speed · u` is its speed, and its output is how
    far it has come, in m."""

    speed_m_per_s: Decimal
    time_constant_ns: int


@dataclass(frozen=True, slots=True)
class Arm:
    """Two links in a plane, on a joint each; what is sampled are the angles of both, in rad.

    That of the shoulder counts anticlockwise from the x axis, that of the elbow from the first link
    on. Each joint has a drive of its own, `time_constant · w' + w = speed · u`, whose angle is the
    integral of `w`: neither turns the other. The output is where the tip is, in m from the
    shoulder.
    """

    links_m: tuple[Decimal, Decimal]
    speed_rad_per_s: Decimal
    time_constant_ns: int

    @property
    def reach_m(self) -> tuple[float, float]:
        """How near to the shoulder, and how far from it the tip can be."""
        first, second = map(float, self.links_m)
        return abs(first - second), first + second

    def tip(self, angles: Point) -> Point:
        """Where the tip is; no number where an angle is none."""
        if not all(map(math.isfinite, angles)):
            return (math.nan, math.nan)
        shoulder, elbow = angles
        first, second = map(float, self.links_m)
        return (
            first * math.cos(shoulder) + second * math.cos(shoulder + elbow),
            first * math.sin(shoulder) + second * math.sin(shoulder + elbow),
        )

    def angles(self, tip: Point) -> Point:
        """The angles of a tip within reach. Of the two ways to be there: the one with an elbow from
        0 to π; a shoulder from -π to π."""
        first, second = map(float, self.links_m)
        (x, y), (nearest, farthest) = tip, self.reach_m
        away = math.hypot(x, y)
        # The cosine rule, for half of the angle: that of the whole loses digits at its ends.
        elbow = 2 * math.atan2(
            math.sqrt(max(0.0, (farthest - away) * (farthest + away))),
            math.sqrt(max(0.0, (away - nearest) * (away + nearest))),
        )
        leaning = math.atan2(second * math.sin(elbow), first + second * math.cos(elbow))
        return math.remainder(math.atan2(y, x) - leaning, 2 * math.pi), elbow


@dataclass(frozen=True, slots=True)
class PythonPlant:
    """A plant of the operator's own: what `module:function` returns; see docs/lab/loop-robot.md.

    A sample has a number for each of the `outputs`, of which the first is what the reference says,
    and a command one for each of the `commands`.
    """

    function: str
    outputs: tuple[str, ...] = ("output",)
    commands: tuple[str, ...] = ("command",)

    @property
    def is_one_axis(self) -> bool:
        """Whether it is one number from one number, as any controller takes and gives them."""
        return len(self.outputs) == len(self.commands) == 1


Plant = FirstOrder | SecondOrder | Conveyor | Arm | PythonPlant


@dataclass(frozen=True, slots=True)
class PiController:
    """A command `kp · e + ki · ∫ e dt` of the error `e`, the reference less the sample.

    Commands beyond `limit` either way are cut to it, and the integral then stands; None: no limit.
    """

    kp: Decimal
    ki_per_s: Decimal
    limit: Decimal | None = None


@dataclass(frozen=True, slots=True)
class PythonController:
    """A controller of the operator's own: what `module:function` returns; see docs/lab/loop.md."""

    function: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """What makes a step response a good one, or a path well followed; None: as it may be.

    `path_error` is in the unit of the output.
    """

    rise_time_ns: int | None = None
    overshoot_percent: int | None = None
    path_error: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """A control loop.

    The stream `sensor` goes from the plant's end station to the controller's, `actuator` back; both
    have the loop's period. `compute_ns` is how long the controller takes from the last bit of a
    sample until its command is ready to be sent. A command acts at the plant `deadline_ns` after
    the planned instant of its sample. The reference steps from 0 to `reference`, and every
    `duration_ns` back or there again, `steps` times in all; or the output is to follow `path` for
    `duration_ns`, at rest where that begins, and `reference` says nothing.
    """

    name: str
    sensor: str
    actuator: str
    period_ns: int
    compute_ns: int
    deadline_ns: int
    plant: Plant
    controller: PiController | PythonController
    reference: Decimal
    duration_ns: int
    steps: int = 1
    accepted: Accepted | None = None
    path: Path | None = None

    @property
    def periods(self) -> int:
        """How many periods all of its steps last, or its path."""
        return self.steps * (self.duration_ns // self.period_ns)

    @property
    def has_own_code(self) -> bool:
        """Whether a part of it is the operator's own."""
        return isinstance(self.plant, PythonPlant) or isinstance(self.controller, PythonController)

    @property
    def unit(self) -> str:
        """That of its output; empty: it has none of its own."""
        return "m" if isinstance(self.plant, Conveyor | Arm) else ""


@dataclass(frozen=True, slots=True)
class Loops:
    """The control loops that streams of a network close."""

    by_name: Mapping[str, Loop] = field(default_factory=dict)
