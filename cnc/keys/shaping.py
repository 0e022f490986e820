"""The key `shaping` of a class: what decides when its frames leave, if no planned instants do."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from cnc.keys.mapping import Shape, wrapped
from cnc.keys.units import DURATION, TIME_SHARE
from cnc.keys.values import CYCLE_MAX_NS, SHARE_MAX_PPB, Name, Rate, choice, quantity
from cnc.model import Shaper


class By(StrEnum):
    """What decides when frames of a class leave, if no offsets do."""

    CQF = "cqf"
    CBS = "cbs"
    STRICT = "strict"


_By = Annotated[By, choice(By)]


class Shaping(Shape):
    """How frames of a class leave, as a bare word says it; or with more."""

    by: _By = Field(
        "cqf",
        validate_default=True,
        description="cqf: what a switch receives in an interval it sends in the next (IEEE 802.1Q "
        "annex T); cbs: by a credit (8.6.8.2); strict: whenever no class of a higher number has a "
        "frame (8.6.8.1)",
    )
    cycle_ns: Annotated[int, quantity(DURATION, 1, CYCLE_MAX_NS // 2)] | None = Field(
        None,
        description="of cqf: the interval, a duration such as 500us; default: the longest that "
        "divides the periods of all streams and leaves each of the class within its max-latency",
    )
    share_ppb: Annotated[int, quantity(TIME_SHARE, 1, SHARE_MAX_PPB)] | None = Field(
        None,
        description="of cqf: the part of each interval for which the gate of the class is open, "
        "alone but for control, such as 30%; the rest is for other classes and for frames on their "
        "way; default: 50%",
    )
    odd_of: Name | None = Field(
        None,
        description="the class with shaping: cqf whose second queue this class is: it has what is "
        "sent in odd intervals, and no stream; its priority stays inside switches",
    )
    idle_slope_bps: Rate | None = Field(
        None,
        description="of cbs: the least idle slope at each port by which streams of the class "
        "leave, with preambles and gaps, a rate such as 20Mbps; default: what its streams need",
    )

    @property
    def is_cyclic(self) -> bool:
        """Whether frames are forwarded once each interval."""
        return self.by is By.CQF or self.odd_of is not None

    @property
    def shaper(self) -> Shaper | None:
        """By what frames leave each port that have no intervals either."""
        return None if self.is_cyclic else Shaper(self.by)


StatedShaping = Annotated[
    Shaping, BeforeValidator(wrapped("by", str), json_schema_input_type=_By | Shaping)
]
