"""The keys of a node's clock, as a lab is to emulate it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cnc.intent.mapping import Shape
from cnc.intent.units import FREQUENCY_OFFSET, TIME_OFFSET
from cnc.intent.values import quantity
from cnc.model import NS_PER_S

# More than thirty years: a clock that begins in 1970 or in the far future.
_TIME_OFFSET_MAX_NS = 10**9 * NS_PER_S
# A tenth, a thousand times what IEEE 802.1AS-2020 B.1.1 permits, and what a guest's kernel takes.
_FREQUENCY_OFFSET_MAX_PPB = 100_000_000


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
        quantity(FREQUENCY_OFFSET, -_FREQUENCY_OFFSET_MAX_PPB, _FREQUENCY_OFFSET_MAX_PPB),
    ] = Field(
        "0ppb",
        validate_default=True,
        description="how much faster its oscillator runs, below zero slower, such as 25ppm",
    )


NodeClock = Annotated[
    Clock | None,
    Field(
        description="its clock in a lab whose nodes have clocks of their own; default: true time"
    ),
]
