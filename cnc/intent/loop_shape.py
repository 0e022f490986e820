"""The keys of control loops."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import Field

from cnc.intent.mapping import Shape
from cnc.intent.units import DURATION
from cnc.intent.values import CYCLE_MAX_NS, Duration, Name, decimal, integer, quantity, text
from cnc.model import NS_PER_S

_NUMBER_MAX = 10**9
_DURATION_MAX_NS = 3_600 * NS_PER_S
_STEPS_MAX = 1_000
_MODULE = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"

Number = Annotated[Decimal, decimal(-_NUMBER_MAX, _NUMBER_MAX)]
Positive = Annotated[Decimal, decimal(0, _NUMBER_MAX, above=True)]
NotNegative = Annotated[Decimal, decimal(0, _NUMBER_MAX)]
Time = Annotated[int, quantity(DURATION, 1, _DURATION_MAX_NS)]


class Plant(Shape):
    """What is controlled: a linear system at rest at 0, whose input is the command."""

    order: Annotated[int, integer(1, 2, "1 or 2")] = Field(
        description="1: T y' + y = gain u; 2: T² y'' + 2 damping T y' + y = gain u, where T is the "
        "time constant, u the command and y what is sampled"
    )
    gain: Number = Field(
        1, validate_default=True, description="how much of a steady command is its output"
    )
    time_constant_ns: Time = Field(
        description="of order 1: after which a step has come 63.2 % of its way; of order 2: the "
        "inverse of the natural frequency in radians a second; a duration such as 5ms"
    )
    damping: NotNegative | None = Field(
        None, description="of order 2: the damping ratio; below 1 the plant oscillates"
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
    python: Annotated[str, text(f"{_MODULE}:{_MODULE}", "module:function")] | None = Field(
        None,
        description="module:function, a function that makes a controller of your own; the module "
        "is looked for beside the intent file, and only `cnc lab loop` imports it",
    )


class Accept(Shape):
    """What makes a step response a good one."""

    rise_time_ns: Time | None = Field(
        None, description="the most until 90 % of the step, a duration such as 10ms"
    )
    overshoot: Annotated[int, integer(0, 1000)] | None = Field(
        None, description="the most that the output goes beyond the step, in per cent of it"
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
    duration_ns: Time = Field(
        "1s", validate_default=True, description="how long a step is watched, a duration"
    )
    steps: Annotated[int, integer(1, _STEPS_MAX)] = Field(
        1, description="number of steps: to the reference, back to 0, and so on"
    )
    accept: Accept | None = Field(
        None, description="what makes a step response a good one; default: they are not judged"
    )
