"""Why a request has no place, as IEEE 802.1Q-2022 table 46-15 numbers it, and in a sentence."""

from __future__ import annotations

from enum import IntEnum

from cnc.errors import CncError


class Failure(IntEnum):
    """The codes of table 46-15 that this CNC answers with."""

    NONE = 0
    BANDWIDTH = 1  # insufficient bandwidth
    BRIDGE_RESOURCES = 2  # insufficient bridge resources
    NO_PORT = 8  # the egress port is not capable: none of the domain leads there
    OTHER_DESTINATION = 9  # use a different destination address
    PRIORITY = 13  # the priority asked for is none of a class for streams
    FRAME_SIZE = 14  # MaxFrameSize is too large for the media
    VLAN = 17  # the VLAN is blocked
    LATENCY = 21  # MaxLatency exceeded
    NO_TRANSFORMATION = 23  # stream transformation not supported
    IDENTIFICATION = 24  # stream identification type not supported
    FEATURE = 25  # an enhanced feature that is not supported


class Refused(CncError):
    """A stream that this network does not carry as it is asked for, whatever the plan."""

    def __init__(self, failure_code: int, text: str, hint: str) -> None:
        super().__init__(text, hint=hint)
        self.failure_code = int(failure_code)
