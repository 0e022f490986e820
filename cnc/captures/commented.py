"""Frames of captures with what a plan says of each, as a pcapng file for Wireshark."""

from __future__ import annotations

import os
from typing import BinaryIO

from cnc.captures.pcapng import CaptureFile, Direction
from cnc.captures.verdict import Captured, Passed
from cnc.model import NS_PER_S, PortRef
from cnc.version import __version__


class Commented:
    """A file that frames are written to, each with a comment: `frame.comment` in Wireshark.

    Every method raises what writing to `file` does.
    """

    def __init__(self, file: BinaryIO, network: str) -> None:
        self._file = CaptureFile(
            file,
            application=f"cnc {__version__}",
            system=f"{os.uname().sysname} {os.uname().release}",
            comment=f"captures of {network}, verified; time stamps: those of the captures",
        )
        self._interfaces: dict[PortRef, int] = {}

    def add(self, frame: Captured, passed: Passed) -> None:
        number = self._interfaces.get(frame.port)
        if number is None:
            text = f"port {frame.port.port} of {frame.port.node}"
            number = self._file.add_interface(str(frame.port), text)
            self._interfaces[frame.port] = number
        self._file.add_frame(
            number,
            frame.at_ns - frame.tai_ahead_s * NS_PER_S,
            frame.octets,
            _DIRECTIONS[frame.is_leaving],
            [text] if (text := _comment(frame, passed)) else [],
            length_octets=frame.length,
        )


_DIRECTIONS = {None: Direction.UNKNOWN, True: Direction.OUTBOUND, False: Direction.INBOUND}


def _comment(frame: Captured, passed: Passed) -> str:
    what = passed.faults
    if passed.due is None:
        return ", ".join((*([passed.stream] if passed.stream else []), *what))
    due = passed.due
    number = due.period_of(frame.at_ns)
    after_ns = frame.at_ns - number * due.period_ns
    return (
        f"{due.stream}, period {number}: {after_ns / 1000:.3f} µs after its start, planned "
        f"{due.earliest_ns / 1000:.3f} to {due.latest_ns / 1000:.3f} µs: "
        f"{', '.join(what) or 'as planned'}"
    )
