"""For programs of an end station: send the frames of a stream when the schedule says.

    file = OffsetFile(DEFAULT_PATH)
    talker = Talker(file, "motion")
    sock = marked_socket(talker.wait_until_told(), "192.0.2.7", 5005)
    for departure in talker.departures():
        for _ in range(departure.stream.frames):
            sock.send(payload)

The agent of the station publishes the offsets, and a push brings new ones. A talker that has read
them follows: no period is left out, none gets two frames. It needs the standard library only.

Where the station has a launch time, the kernel sends frames at their instants:

    talker = Talker(file, "motion", lead_ns=1_000_000)
    sock = talker.launching(marked_socket(talker.wait_until_told(), "192.0.2.7", 5005))
    for departure in talker.departures():
        sock.send(payload, departure.instant_ns)

`python -m cnc.talker --help` is an example that sends and measures its own lateness.
"""

from __future__ import annotations

from cnc.talker.clock import be_punctual, sleep_until, tai_ns
from cnc.talker.launch import LaunchSocket
from cnc.talker.marking import mark, marked_socket
from cnc.talker.offsets import (
    DEFAULT_PATH,
    Departure,
    OffsetFile,
    Offsets,
    OffsetsError,
    StreamOffset,
    Table,
)
from cnc.talker.qdiscs import LaunchRefusedError, LaunchTime, launch_time
from cnc.talker.talker import Talker

__all__ = [
    "DEFAULT_PATH",
    "Departure",
    "LaunchRefusedError",
    "LaunchSocket",
    "LaunchTime",
    "OffsetFile",
    "Offsets",
    "OffsetsError",
    "StreamOffset",
    "Table",
    "Talker",
    "be_punctual",
    "launch_time",
    "mark",
    "marked_socket",
    "sleep_until",
    "tai_ns",
]
