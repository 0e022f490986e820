"""What `cnc lab trace` prints: layers, stages, margins, outliers, correlation, drift, one frame."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasPath, BeforeValidator, Field

from cnc.json_output.document import Document, PortName, is_none
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.measure import Spread
from cnc.testbed.traffic.trace.account import Layer
from cnc.testbed.traffic.trace.drift import Trend
from cnc.testbed.traffic.trace.join import Kind
from cnc.testbed.traffic.trace.stages import Stage


class StageTime(Document):
    """The time of frames in one stage of their way."""

    sum_ns: int
    """Of all frames together."""
    spread: Spread


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
    resent: int
    """What TCP has sent again, of frames and of repeated copies; 0 of flows over UDP."""
    layers: dict[Layer, Spread]
    """Of the frames that are neither lost nor incomplete; empty: there are none."""
    stages: dict[Stage, StageTime]
    """Of the same frames. Sender: until a frame leaves the talker's port; channel: until the kernel
    of the listener has it; receiver: until its program does. With --import there is no channel."""
    total: Spread | None
    """From the planned instant to the listener's program, with --import from the program's reading
    of the clock and without the channel; the sum of the layers of each frame."""
    total_sum_ns: int | None
    """Of all these frames together: exactly the sum of those of the stages; null: none is whole."""


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


class LayerCorrelation(Document):
    """How the total of frames varies with their time in a layer."""

    layer: Layer
    is_constant: bool
    correlation: float | None
    """Pearson's, -1 to 1; null: layer or total is constant."""
    slope: float | None
    """By how many nanoseconds the total is longer for each in the layer, by least squares; null:
    layer or total is constant."""


class Correlations(Document):
    """Of the frames of a flow by one path."""

    flow: str
    path: int
    frames: int
    """Those that it is computed from."""
    absent: int
    """Those that are lost or incomplete."""
    is_total_constant: bool
    layers: list[LayerCorrelation]
    """Empty: there are fewer than 10 frames."""


class Block(Document):
    """The totals of frames that follow one another."""

    begin_ns: int
    """The planned instant of the first: TAI, in nanoseconds since 1970."""
    frames: int
    mean_ns: float
    first_quartile_ns: float
    median_ns: float
    third_quartile_ns: float


class Drift(Document):
    """How the total of a flow's frames by one path moves over the run."""

    flow: str
    path: int
    frames: int
    """Those that are neither lost nor incomplete."""
    slope_ns_per_s: float | None
    """By least squares through the means of the blocks; null: there are fewer than 20 frames, or
    all are planned for one instant."""
    confidence_ns_per_s: float | None
    """The true slope is within this of it with 95 %."""
    trend: Trend | None
    """steady: 0 is within the confidence."""
    moved_ns: float | None
    """The median of the last block minus that of the first."""
    blocks: list[Block]


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
    """TAI, in nanoseconds since 1970. With --import: when the sender's program read its clock."""
    total_ns: int | None
    parts: list[TracedPart]


class ClockSpan(Document):
    """How far the clock of a node was ahead of true time during the trace, below 0 behind."""

    node: str
    least_ns: int
    greatest_ns: int


class TrueTime(Document):
    """The clocks of a lab with a kernel for each node, against true time, which all instants and
    durations are in."""

    apart_max_ns: int
    """The most that any two of the clocks differed at one instant."""
    clocks: list[ClockSpan]


class TracedHost(Document):
    """Where stamps of an imported run were taken."""

    name: str
    clock: str | None
    """What its program's own stamps are read from: realtime or tsc; null: of isochron."""
    stamp_cost_ns: float | None
    """What one of them costs; null: of isochron."""


class HostClocks(Document):
    """What `tsn-probe send --sync` waited for."""

    limit_ns: int
    """How near to their grandmaster both system clocks had been for 10 s."""
    sender_ns: int
    """How far it was ahead of the grandmaster as the run began."""
    receiver_ns: int
    """The receiver's."""


class ImportedRun(Document):
    """A run between two hosts whose tables were imported."""

    program: str
    """tsn-probe or isochron."""
    sender: TracedHost
    receiver: TracedHost
    wake_up: Spread | None
    """How long after the planned instant the sender's program read the clock, which is no part of
    a total; null: no planned instant is known."""
    clocks: HostClocks | None
    """null: they were not compared."""
    channel: Spread | None
    """From the sender's driver to the receiver's kernel, which is no part of a total, by clocks
    that may differ by twice the limit; null: they were not compared."""


class Trace(Document):
    """`cnc lab trace`."""

    platform: Platform | None
    """null: with --import."""
    start_ns: int
    """When the run began: TAI, in nanoseconds since 1970; with a kernel for each node, when the
    clock of the first switch showed the instant of its start. With --import: when the sender's
    program first read its clock, which is UTC for tsn-probe."""
    flows: list[TracedFlow]
    margins: list[HopMargin] | None
    """null: with --import."""
    outliers: list[Outliers] | None = Field(None, exclude_if=is_none)
    """With --outliers."""
    correlations: list[Correlations] | None = Field(None, exclude_if=is_none)
    """With --correlation."""
    drifts: list[Drift] | None = Field(None, exclude_if=is_none)
    """With --drift."""
    frames: list[TracedFrame] | None = Field(None, exclude_if=is_none)
    """With --frame: its copies."""
    true_time: TrueTime | None = Field(None, exclude_if=is_none)
    """In a lab with a kernel for each node."""
    imported: ImportedRun | None = Field(None, exclude_if=is_none)
    """With --import."""
