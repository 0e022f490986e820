"""What `cnc lab trace` prints: layers, margins, outliers, one frame."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasPath, BeforeValidator, Field

from cnc.cli.json_output.document import Document, PortName, is_none
from cnc.lab.platform import Platform
from cnc.traffic.measure import Spread
from cnc.traffic.trace.account import Layer
from cnc.traffic.trace.join import Kind


class TracedFlow(Document):
    """The frames of a flow by one path."""

    flow: str
    listener: str
    path: int
    """From 0; 1 is the second path of a stream that has two."""
    frames: int
    lost: int
    incomplete: int
    """They arrived, and a stamp of theirs is absent."""
    repeated: int
    """Copies that came once more, by whichever path; the first path has them."""
    layers: dict[Layer, Spread]
    """Of the frames that are neither lost nor incomplete; empty: there are none."""
    total: Spread | None
    """From the planned instant to the listener's program; the sum of the layers of each frame."""


class HopMargin(Document):
    """By how much a frame may come later to a port than at the earliest, and how much one did."""

    flow: str
    path: int
    port: PortName
    margin_ns: int
    """The sum of the next four."""
    processing_ns: int
    """By how much processing varies."""
    clock_ns: int
    """The clock error."""
    start_ns: int
    """How much later than planned the node before may send."""
    turn_ns: int
    """A wait for a turn between other frames."""
    used_max_ns: int | None
    """Of the latest frame; null: none came. A little below 0: sooner than the plan reckons."""


Cause = Annotated[
    dict[str, str | int], BeforeValidator(lambda cause: dict(zip(_CAUSE, cause, strict=True)))
]
_CAUSE = ("place", "layer", "frames")


class Outliers(Document):
    """The frames of a flow by one path whose total is above Q3 + 1.5 IQR."""

    flow: str
    path: int
    frames: int
    threshold_ns: float
    seqs: list[int]
    causes: list[Cause]
    """How many of them a part of the time made late: it is such an outlier, too."""


class TracedPart(Document):
    """A part of a frame's time, one after the other."""

    place: str
    """A node, or a port with the cable behind it."""
    layer: Layer
    duration_ns: int | None
    """null: a stamp is absent."""


class TracedFrame(Document):
    """One copy of a frame."""

    flow: str = Field(validation_alias=AliasPath("row", "flow", "name"))
    seq: int = Field(validation_alias=AliasPath("row", "seq"))
    path: int | None = Field(validation_alias=AliasPath("row", "path"))
    """null: it came once more, by an unknown path."""
    kind: Kind = Field(validation_alias=AliasPath("row", "kind"))
    planned_ns: int = Field(validation_alias=AliasPath("row", "planned_ns"))
    """TAI, in nanoseconds since 1970."""
    total_ns: int | None
    parts: list[TracedPart]


class Trace(Document):
    """`cnc lab trace`."""

    platform: Platform
    start_ns: int
    """When the run began: TAI, in nanoseconds since 1970."""
    flows: list[TracedFlow]
    margins: list[HopMargin]
    outliers: list[Outliers] | None = Field(None, exclude_if=is_none)
    """With --outliers."""
    frames: list[TracedFrame] | None = Field(None, exclude_if=is_none)
    """With --frame: its copies."""
