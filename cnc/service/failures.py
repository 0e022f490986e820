"""Why a stream has no place, as IEEE 802.1Q-2022 table 46-15 numbers it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum

from cnc.errors import InputError, Lack, Unschedulable


class Failure(IntEnum):
    """The codes of table 46-15 that this CNC answers with."""

    NONE = 0
    BANDWIDTH = 1  # insufficient bandwidth
    BRIDGE_RESOURCES = 2  # insufficient bridge resources
    ADDRESS_IN_USE = 5  # another stream has the destination address
    NO_PORT = 8  # the egress port is not capable: none of the domain leads there
    OTHER_DESTINATION = 9  # use a different destination address
    NO_ENTRY = 12  # a bridge cannot store the destination address
    PRIORITY = 13  # the priority asked for is none of a class for streams
    FRAME_SIZE = 14  # MaxFrameSize is too large for the media
    VLAN = 17  # the VLAN is blocked
    LATENCY = 21  # MaxLatency exceeded
    NO_TRANSFORMATION = 23  # stream transformation not supported
    IDENTIFICATION = 24  # stream identification type not supported
    FEATURE = 25  # an enhanced feature that is not supported


_OF_LACK: Mapping[Lack, Failure] = {
    Lack.ROOM: Failure.BANDWIDTH,
    Lack.TIME: Failure.LATENCY,
    Lack.WAY: Failure.NO_PORT,
    Lack.SECOND_WAY: Failure.BRIDGE_RESOURCES,
    Lack.LIST: Failure.BRIDGE_RESOURCES,
    Lack.FILTERS: Failure.BRIDGE_RESOURCES,
    Lack.ENTRIES: Failure.NO_ENTRY,
    Lack.ADDRESS: Failure.ADDRESS_IN_USE,
}
# By the key of a stream that an intent may not have so. What a request says by itself is refused
# before (`uni`); here is what it is not beside the network and the streams that are there.
_OF_KEY: Mapping[str, Failure] = {
    "listeners": Failure.NO_PORT,
    "max-latency": Failure.LATENCY,
    "paths": Failure.BRIDGE_RESOURCES,
    "payload": Failure.FRAME_SIZE,
    "destination-mac": Failure.ADDRESS_IN_USE,
    "identification": Failure.IDENTIFICATION,
}
_KEY = re.compile(r": streams\.[^.]+\.([a-z-]+)")


def of_unschedulable(error: Unschedulable) -> dict[str, int]:
    """By what the reasons of an error are about: a stream, or a port."""
    return {name: int(_OF_LACK[error.lacks.get(name, Lack.ROOM)]) for name in error.reasons}


def of_problems(error: InputError) -> int:
    """Of the first problem of an intent with the stream."""
    key = _KEY.search(str(error))
    return int(_OF_KEY.get(key[1] if key else "", Failure.FEATURE))
