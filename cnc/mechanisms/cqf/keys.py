"""The key `shaping` of a class."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from cnc.keys.mapping import Shape
from cnc.keys.units import DURATION, TIME_SHARE
from cnc.keys.values import CYCLE_MAX_NS, SHARE_MAX_PPB, Name, choice, quantity


class By(StrEnum):
    """What decides when frames of a class leave, if no offsets do."""

    CQF = "cqf"


_By = Annotated[By, choice(By)]


class Shaping(Shape):
    """How frames of a class leave, as a bare word says it; or with more."""

    by: _By = Field(
        "cqf",
        validate_default=True,
        description="cqf: what a switch receives in an interval it sends in the next (IEEE 802.1Q "
        "annex T)",
    )
    cycle_ns: Annotated[int, quantity(DURATION, 1, CYCLE_MAX_NS // 2)] | None = Field(
        None,
        description="the interval, a duration such as 500us; default: the longest that divides the "
        "periods of all streams and leaves each of the class within its max-latency",
    )
    share_ppb: Annotated[int, quantity(TIME_SHARE, 1, SHARE_MAX_PPB)] | None = Field(
        None,
        description="the part of each interval for which the gate of the class is open, alone but "
        "for control, such as 30%; the rest is for other classes and for frames on their way; "
        "default: 50%",
    )
    odd_of: Name | None = Field(
        None,
        description="the class with shaping: cqf whose second queue this class is: it has what is "
        "sent in odd intervals, and no stream; its priority stays inside switches",
    )


def _wrapped(value: object) -> object:
    return {"by": value} if isinstance(value, str) else value


class ClassKeys(Shape):
    """Of a class."""

    shaping: (
        Annotated[Shaping, BeforeValidator(_wrapped, json_schema_input_type=_By | Shaping)] | None
    ) = Field(
        None,
        description="of a scheduled class in a bridged network: cqf, cyclic queuing and forwarding "
        "(cqf.md): its streams have no offsets, and a bound of as many intervals as there are "
        "switches on their way, and one more; a second class, with odd-of, has its second queue; "
        "default: frames leave at planned times",
    )
