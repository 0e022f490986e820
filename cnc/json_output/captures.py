"""What `cnc verify` prints."""

from __future__ import annotations

from typing import Literal

from cnc.json_output.document import Document, PortName


class VerifiedStream(Document):
    """Frames of a stream at a port."""

    stream: str
    port: PortName
    """NODE/PORT."""
    direction: Literal["leaving", "arriving"]
    frames: int
    early: int
    late: int
    gate_closed: int
    """How many started to leave while their gate was closed, or did not end before it closed."""
    missing: int
    """Of the periods that the capture has whole."""
    extra: int
    """How many more than planned these periods have."""
    late_max_ns: int
    """How much later than at the latest the latest of them was."""


class VerifiedPort(Document):
    """Other frames at a port."""

    port: PortName
    """NODE/PORT."""
    begin_ns: int
    """TAI of the first frame."""
    end_ns: int
    """TAI of the last one."""
    astray: int
    """Frames of streams that are not planned to pass here."""
    unknown: int
    """Frames of no stream in scheduled classes."""
    others: int
    gate_closed: int
    """How many of these frames left while the gate of their class was closed."""


class Fault(Document):
    """A frame with which something is wrong."""

    file: str
    packet: int
    """Its number in the file, from 1."""
    port: PortName
    """NODE/PORT."""
    stream: str | None
    at_ns: int
    """TAI."""
    faults: list[str]
    """In words."""


class Verified(Document):
    """`cnc verify`. The exit code is 1 if a frame was not as planned, or is missing."""

    as_planned: bool
    streams: list[VerifiedStream]
    ports: list[VerifiedPort]
    faults: list[Fault]
    """The first twenty frames."""
