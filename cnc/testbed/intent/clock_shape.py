"""The keys of a node's clock, as a lab is to emulate it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cnc.keys.mapping import Shape
from cnc.keys.units import DURATION, FREQUENCY_OFFSET, FREQUENCY_WALK, TIME_OFFSET
from cnc.keys.values import integer, quantity
from cnc.model import NS_PER_S

# More than thirty years: a clock that begins in 1970 or in the far future.
_TIME_OFFSET_MAX_NS = 10**9 * NS_PER_S
# A tenth, a thousand times what IEEE 802.1AS-2020 B.1.1 permits, and what a guest's kernel takes.
FREQUENCY_OFFSET_MAX_PPB = 100_000_000
# Beyond this a walk of hours leaves what a guest's kernel takes.
_RANDOM_WALK_MAX_PPT = 1_000_000
# A lab gives an oscillator's frequency in steps of 100 ms, for so long.
_SINUSOID_PERIOD_MIN_NS = NS_PER_S
_SINUSOID_PERIOD_MAX_NS = 10_000 * NS_PER_S
_SEED_MAX = 2**32 - 1
# As long as the frequency of an oscillator changes.
_STEP_AT_MAX_NS = 10_000 * NS_PER_S
# Within what a double holds to the nanosecond: a program sets the clock by seconds.
_STEP_MAX_NS = 1_000 * NS_PER_S
_STEPS_MAX = 100


class Sinusoid(Shape):
    """A frequency that swings, as that of an oscillator does whose temperature does.

    It begins at its middle and rises.
    """

    amplitude_ppb: Annotated[int, quantity(FREQUENCY_OFFSET, 1, FREQUENCY_OFFSET_MAX_PPB)] = Field(
        description="how far the frequency goes up and down, such as 500ppb"
    )
    period_ns: Annotated[
        int, quantity(DURATION, _SINUSOID_PERIOD_MIN_NS, _SINUSOID_PERIOD_MAX_NS)
    ] = Field(description="how long a swing takes, such as 60s")


class Step(Shape):
    """A clock that is set, as by an operator or a daemon that goes wrong.

    What keeps the clock, such as ptp4l, finds it off by so much.
    """

    at_ns: Annotated[int, quantity(DURATION, 0, _STEP_AT_MAX_NS)] = Field(
        description="when, in virtual time after the lab is up, such as 10s"
    )
    by_ns: Annotated[int, quantity(TIME_OFFSET, -_STEP_MAX_NS, _STEP_MAX_NS)] = Field(
        description="how far ahead it is set, below zero back, such as 1us"
    )


class Clock(Shape):
    """How the clock of a node differs from true time in a lab whose nodes have clocks of their own.

    Plans and switches do not depend on it: it describes the world that a lab emulates.
    """

    offset_ns: Annotated[int, quantity(TIME_OFFSET, -_TIME_OFFSET_MAX_NS, _TIME_OFFSET_MAX_NS)] = (
        Field(
            "0ns",
            validate_default=True,
            description="how far it is ahead of true time at first, below zero behind, "
            "such as -7ms",
        )
    )
    frequency_offset_ppb: Annotated[
        int,
        quantity(FREQUENCY_OFFSET, -FREQUENCY_OFFSET_MAX_PPB, FREQUENCY_OFFSET_MAX_PPB),
    ] = Field(
        "0ppb",
        validate_default=True,
        description="how much faster its oscillator runs, below zero slower, such as 25ppm",
    )
    random_walk_ppt: Annotated[int, quantity(FREQUENCY_WALK, 1, _RANDOM_WALK_MAX_PPT)] | None = (
        Field(
            None,
            description="how far its frequency walks at random in one second, one standard "
            "deviation (per root second), such as 3ppb",
        )
    )
    sinusoid: Sinusoid | None = Field(None, description="how its frequency swings")
    seed: Annotated[int, integer(0, _SEED_MAX)] | None = Field(
        None,
        description="what the random walk is made from: the same seed gives the same walk; "
        "default: the name of the node",
    )
    steps: list[Step] = Field(
        [],
        min_length=1,
        max_length=_STEPS_MAX,
        description="when it is set, and by how much, a list of {at: 10s, by: 1us}",
    )


class NodeKeys(Shape):
    """Of a switch or an end station."""

    clock: Clock | None = Field(
        None,
        description="its clock in a lab whose nodes have clocks of their own; default: true time",
    )
