"""The three stages of a frame's way, of which two need no clock but that of their own end station.

X-LAP (Reif and others, RTN 2017), equations (1) to (4). There a sender begins with the program's
call; here with the planned instant, so that the stages add up to the total of a frame.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from cnc.testbed.traffic.trace.join import Row


class Stage(StrEnum):
    """`SENDER`: until the frame leaves the talker's port. `CHANNEL`: until the kernel of the
    listener has it. `RECEIVER`: until its program does."""

    SENDER = "sender"
    CHANNEL = "channel"
    RECEIVER = "receiver"


class Stages(NamedTuple):
    """How long a frame was in each stage; None: a stamp is absent, or the channel unknown."""

    sender_ns: int | None
    channel_ns: int | None
    receiver_ns: int | None

    @property
    def end_stations_ns(self) -> int | None:
        """Both end stations without the channel, which is equation (4)."""
        if self.sender_ns is None or self.receiver_ns is None:
            return None
        return self.sender_ns + self.receiver_ns


def stages(row: Row) -> Stages:
    """The stages of a copy of a frame; of one that came once more only the receiver is known."""
    left_ns = row.crossings[0].left_ns if row.crossings else None
    received_ns, delivered_ns = row.received_ns, row.delivered_ns
    channel_ns = None
    if row.has_channel and left_ns is not None and received_ns is not None:
        channel_ns = received_ns - left_ns
    return Stages(
        sender_ns=None if left_ns is None else left_ns - row.planned_ns,
        channel_ns=channel_ns,
        receiver_ns=(
            None if received_ns is None or delivered_ns is None else delivered_ns - received_ns
        ),
    )
