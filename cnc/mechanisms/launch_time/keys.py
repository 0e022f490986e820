"""The keys of launch times."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cnc.keys.mapping import After, Shape
from cnc.keys.values import Duration, choice
from cnc.mechanisms.launch_time.model import LaunchMode

_Mode = Annotated[LaunchMode, choice(LaunchMode)]


class StationKeys(Shape):
    """Of an end station."""

    launch_time: Annotated[_Mode | None, After("talker-lateness")] = Field(
        None,
        description="its programs state when each frame of a stream leaves (SO_TXTIME), and an etf "
        "qdisc has a timer of the kernel (software) or the device (hardware) keep to that; needs "
        "management; default: its programs send when frames are due",
    )
    launch_error_ns: Annotated[Duration | None, After("launch-time")] = Field(
        None,
        description="how much later than that a frame may leave, a duration such as 20us, in place "
        "of talker-lateness; default: what its talkers measured, where end stations were asked, "
        "else gate-margin: a late timer releases a frame as it opens a gate",
    )
    launch_delta_ns: Annotated[Duration | None, After("launch-error")] = Field(
        None,
        description="in hardware how long before its time the device has a frame; in software how "
        "late a frame may be that is sent, later ones are discarded, beside gates the next whole "
        "number of cycles; a duration, default: 500us",
    )
