"""The keys of control loops."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import Field

from cnc.keys.mapping import Shape
from cnc.keys.units import DURATION
from cnc.keys.values import CYCLE_MAX_NS, Duration, Leaf, Name, decimal, integer, quantity, text
from cnc.model import NS_PER_S

_NUMBER_MAX = 10**9
_DURATION_MAX_NS = 3_600 * NS_PER_S
_STEPS_MAX = 1_000
_VALUES_MAX = 64  # of a sample or a command: they have room in a frame
_MODULE = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"


def _two(each: Leaf, what: str) -> Leaf:
    """A list of two values, read as `each`; `what` they are completes a message."""

    def parse(value: object) -> tuple[object, ...]:
        if not isinstance(value, list) or len(value) != 2:  # noqa: PLR2004
            raise ValueError(what)
        return tuple(map(each.parse, value))

    items = {"items": dict(each.schema), "minItems": 2, "maxItems": 2}
    return Leaf(parse, {"type": "array", **items})


Number = Annotated[Decimal, decimal(-_NUMBER_MAX, _NUMBER_MAX)]
Positive = Annotated[Decimal, decimal(0, _NUMBER_MAX, above=True)]
NotNegative = Annotated[Decimal, decimal(0, _NUMBER_MAX)]
Time = Annotated[int, quantity(DURATION, 1, _DURATION_MAX_NS)]
Function = Annotated[str, text(f"{_MODULE}:{_MODULE}", "module:function")]
Names = Annotated[list[Name], Field(min_length=1, max_length=_VALUES_MAX)]
Place = Annotated[
    tuple[Decimal, Decimal],
    _two(decimal(-_NUMBER_MAX, _NUMBER_MAX), "two numbers in m, such as [0.3, 0.1]"),
]
Lengths = Annotated[
    tuple[Decimal, Decimal],
    _two(decimal(0, _NUMBER_MAX, above=True), "two lengths in m, such as [0.4, 0.3]"),
]


class Conveyor(Shape):
    """A belt with a drive, T v' + v = speed u; what is sampled is how far it has come, in m."""

    speed: Positive = Field(description="of the belt at a steady command of 1, in m/s")
    time_constant_ns: Time = Field(
        description="T, after which a step of the speed has come 63.2 % of its way; a duration "
        "such as 20ms"
    )


class Arm(Shape):
    """Two links in a plane, on a joint each with a drive of its own, T w' + w = speed u; what is
    sampled are the angles of both joints, in rad, and a command is one for each."""

    links: Lengths = Field(
        description="lengths of the link from shoulder to elbow, and of that from there to the "
        "tip, in m"
    )
    speed: Positive = Field(description="of a joint at a steady command of 1, in rad/s")
    time_constant_ns: Time = Field(
        description="T, after which a step of the speed has come 63.2 % of its way; a duration "
        "such as 20ms"
    )


class Plant(Shape):
    """What is controlled, at rest at first, whose input is the command: a linear system by its
    order, a conveyor, an arm, or a plant of your own."""

    order: Annotated[int, integer(1, 2, "1 or 2")] | None = Field(
        None,
        description="1: T y' + y = gain u; 2: T² y'' + 2 damping T y' + y = gain u, where T is the "
        "time constant, u the command and y what is sampled",
    )
    gain: Number = Field(
        1, validate_default=True, description="how much of a steady command is its output"
    )
    time_constant_ns: Time | None = Field(
        None,
        description="of order 1: after which a step has come 63.2 % of its way; of order 2: the "
        "inverse of the natural frequency in radians a second; a duration such as 5ms",
    )
    damping: NotNegative | None = Field(
        None, description="of order 2: the damping ratio; below 1 the plant oscillates"
    )
    conveyor: Conveyor | None = Field(None, description="a belt whose place is controlled")
    arm: Arm | None = Field(None, description="an arm with two joints, whose tip follows a path")
    python: Function | None = Field(
        None,
        description="module:function, a function that makes a plant of your own, such as a robot "
        "in MuJoCo (loop-robot.md); the module is looked for beside the intent file, and only "
        "what runs the loop imports it",
    )
    outputs: Names | None = Field(
        None,
        description="of python: what the numbers of a sample are, of which the first is to follow "
        "the reference; default: [output]",
    )
    commands: Names | None = Field(
        None, description="of python: what the numbers of a command are; default: [command]"
    )


class Pi(Shape):
    """A proportional and an integral part: u = kp e + ki ∫ e dt, e the reference less y."""

    kp: Number = Field(description="gain of the error")
    ki: Number = Field(description="gain of the error's integral, per second")
    limit: Positive | None = Field(
        None,
        description="commands beyond it, or below its negative, are cut to it, and the integral "
        "then stands; default: no limit",
    )


class Controller(Shape):
    """What computes commands: one of the two."""

    pi: Pi | None = Field(None, description="a PI controller")
    python: Function | None = Field(
        None,
        description="module:function, a function that makes a controller of your own; the module "
        "is looked for beside the intent file, and only what runs the loop imports it",
    )


class Sine(Shape):
    """The output is to be amplitude sin(2π t / period)."""

    amplitude: Positive = Field(description="in the unit of the output; m of a conveyor")
    period_ns: Time = Field(description="of the sine, a duration such as 200ms")


class Line(Shape):
    """A straight line from rest to rest, as smooth as can be (least jerk), in the duration of the
    loop; the shoulder is at [0, 0]."""

    from_: Place = Field(description="where it begins: [x, y] in m")
    to: Place = Field(description="where it ends: [x, y] in m")


class Circle(Shape):
    """A circle at constant speed, anticlockwise from its greatest x on; the shoulder is at
    [0, 0]."""

    centre: Place = Field(description="[x, y] in m")
    radius: Positive = Field(description="in m")
    period_ns: Time = Field(description="of one turn, a duration such as 500ms")


class Path(Shape):
    """Where the output is to be from one moment to the next: one of the four."""

    ramp: Number | None = Field(
        None,
        description="from 0 to this at constant speed, in the duration of the loop; m of a "
        "conveyor",
    )
    sine: Sine | None = Field(None, description="to and fro")
    line: Line | None = Field(None, description="of the tip of an arm")
    circle: Circle | None = Field(None, description="of the tip of an arm")


class Accept(Shape):
    """What makes a step response a good one, or a path well followed."""

    rise_time_ns: Time | None = Field(
        None, description="the most until 90 % of the step, a duration such as 10ms"
    )
    overshoot: Annotated[int, integer(0, 1000)] | None = Field(
        None, description="the most that the output goes beyond the step, in per cent of it"
    )
    path_error: Positive | None = Field(
        None,
        description="the most that the output is off its path at a sample; m of a conveyor "
        "or an arm",
    )


class Loop(Shape):
    """A plant and a controller that two streams join."""

    sensor: Name = Field(description="the stream from the plant to the controller")
    actuator: Name = Field(description="the stream from the controller to the plant")
    period_ns: Annotated[int, quantity(DURATION, 1, CYCLE_MAX_NS)] = Field(
        description="the time from one sample to the next, which is the period of both streams"
    )
    compute_ns: Duration = Field(
        description="how long the controller takes at most, from the last bit of a sample until "
        "its command is ready to be sent, a duration such as 50us"
    )
    deadline_ns: Annotated[int, quantity(DURATION, 1, CYCLE_MAX_NS)] = Field(
        description="from the planned start of sending a sample until its command acts: the most "
        "that the loop's delay may be, a duration such as 800us"
    )
    plant: Plant = Field(description="what is controlled")
    controller: Controller = Field(description="what computes commands")
    reference: Number = Field(
        1, validate_default=True, description="what the output is to be: a step from 0 to it"
    )
    path: Path | None = Field(
        None, description="in place of a step: where the output is to be from moment to moment"
    )
    duration_ns: Time = Field(
        "1s",
        validate_default=True,
        description="how long a step is watched, or a path followed; a duration",
    )
    steps: Annotated[int, integer(1, _STEPS_MAX)] = Field(
        1, description="number of steps: to the reference, back to 0, and so on"
    )
    accept: Accept | None = Field(
        None,
        description="what makes a step response a good one, or a path well followed; default: they "
        "are not judged",
    )


class NetworkKeys(Shape):
    """Of the network."""

    loops: dict[Name, Loop] | None = Field(
        None,
        description="control loops by name, each closed by two of the streams: the plan states how "
        "long a loop takes, and `cnc lab loop` runs it (loop.md)",
    )
