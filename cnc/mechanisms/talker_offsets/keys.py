"""The keys of when talkers send: what may be ahead of their frames, and how late these may be."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cnc.keys.mapping import After, Shape
from cnc.keys.values import Duration, choice
from cnc.model import TalkerInterference

_Interference = Annotated[TalkerInterference, choice(TalkerInterference)]


class DefaultsKeys(Shape):
    """Of the defaults."""

    talker_interference: Annotated[_Interference, After("gate-margin")] = Field(
        "one-frame",
        validate_default=True,
        description="frames of a talker itself that may be ahead of its scheduled ones, since no "
        "switch gates its port; one-frame: its largest best-effort frame, if it sends scheduled "
        "frames with strict priority; none: it sends no best effort, or has gates",
    )
    talker_lateness_ns: Annotated[Duration | None, After("talker-interference")] = Field(
        None,
        description="how much later than its offset a talker may start to send for reasons of its "
        "own, other frames apart, a duration such as 50us; default: what its talkers measured, "
        "where switches and end stations were asked, else gate-margin, with a warning where that "
        "is 0 without software gates; 0ns states that the talker is exact",
    )


class StationKeys(Shape):
    """Of an end station."""

    talker_interference: Annotated[_Interference | None, After("ports")] = Field(
        None, description="default: defaults.talker-interference"
    )
    talker_lateness_ns: Annotated[Duration | None, After("talker-interference")] = Field(
        None, description="default: defaults.talker-lateness"
    )
