"""What check, plan, show and discover print of intents and plans."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from cnc.json_output.document import Document, Gates, PortName, is_empty
from cnc.model import GateLimits


class CheckedIntent(Document):
    """`cnc check` of an intent; one that is not sound is an error."""

    name: str
    sound: Literal[True]
    switches: int
    end_stations: int
    links: int
    """Cables: both directions count once."""
    classes: int
    streams: int


class Violation(Document):
    """A promise that a plan breaks."""

    code: str
    """The rule."""
    where: str
    """A stream or a port."""
    text: str


class Openings(Document):
    """What a class of a port has of a gate control list that is given, other frames apart."""

    port: PortName
    """NODE/PORT."""
    class_name: str
    cycle_ns: int
    open_ns: int
    """For how long of each cycle its gate is open."""
    rate_bps: int
    """What it can send at most, with preambles and gaps."""
    wait_ns: int | None
    """How long a frame at the head of its queue, as long as the class has them, waits at most until
    it may start; null: no bound, as no opening is sure to hold it, by
    the `gate-margin`."""
    frame_octets: int | None
    """The longest frame that is sent at all, from MAC header to FCS; null: any, as the gate never
    shuts."""


class CheckedPlan(Document):
    """`cnc check` of a plan. The exit code is 1 if it is not valid."""

    name: str
    """Of the plan's network."""
    valid: bool
    violations: list[Violation]
    streams: int
    """How many the intent has."""
    placed: int
    refused: dict[str, str]
    """Of each stream without a place: why."""
    openings: list[Openings] = Field(default_factory=list, exclude_if=is_empty)
    """Of each class at each port whose gate control list is given. It is there if there are such
    lists."""


class PlannedStream(Document):
    """The way of a stream."""

    paths: list[list[tuple[str, str, int, int] | tuple[str, str, int, int, int]]]
    """Each path is a list of ports on the way: node, port, offset in ns from the start of the
    period to the frame's first bit, traffic class. Where frames share a window with those of other
    streams, the offset is when that opens, on a talker's link when the talker starts to send, and
    its length in ns follows: all frames of the period have left by its end."""
    latency_bound_ns: int
    """From the start of sending to the last bit received."""
    interval_ns: int | None = None
    """Switches send in the next interval what they receive in one, and all offsets are 0. It is
    there where the stream's class has `shaping: cqf`."""
    shaper: Literal["cbs", "strict"] | None = None
    """By what its frames leave each port, and all offsets are 0. It is there where the stream's
    class has `shaping: cbs` or `shaping: strict`."""


class StreamAddress(Document):
    """What the frames of a stream are sent to; their PCP is the priority of the stream's class."""

    destination_mac: str
    """Six pairs of lower-case hexadecimal digits with colons."""
    vlan_id: int


class MeasuredMargin(Document):
    """The measurement that asks for a gate margin, or for a lateness of talkers."""

    port: str
    """The worst port: NODE/PORT."""
    maximum_ns: int
    """How late its latest wake-up was, or its talkers."""
    count: int
    """How many wake-ups were measured, or periods in which the talker sent."""


class GateMargin(Document):
    """How late a plan expects gates to open."""

    value_ns: int
    measured: MeasuredMargin | None = None
    """Missing where it is the default."""


class ClocksApart(Document):
    """The two clocks of a network that were furthest apart when they were asked."""

    first: str
    second: str
    apart_ns: int
    """The offsets on the way between them, and 100 ns for each that no clock sees, added."""
    links: int
    """How many offsets these were."""


class ClockError(Document):
    """The most that a plan expects any two clocks to differ."""

    value_ns: int
    measured: ClocksApart


class TalkerLateness(Document):
    """How late a plan expects the talkers of an end station to be, as these have measured."""

    value_ns: int
    measured: MeasuredMargin


class LoopDelay(Document):
    """The most that passes from the planned instant of a sample until its command is at the plant;
    the parts follow one another."""

    sensor_ns: int
    """The latency bound of the sample."""
    compute_ns: int
    wait_ns: int
    """Until the offset of the command."""
    actuator_ns: int
    """The latency bound of the command."""


class PlanFile(Document):
    """`cnc plan`: the plan, as -o writes it. `cnc show` prints it as well."""

    # Only described here: cnc.plans.file writes it, one line for each stream and port.

    format: Literal["cnc-plan/3", "cnc-plan/4", "cnc-plan/5", "cnc-plan/6", "cnc-plan/7"]
    """4 where a mechanism has decided something, 5 where frames share windows, 6 where streams are
    forwarded once each interval, 7 where streams leave by a shaper."""
    intent: dict[str, Any]
    """The intent file as data; schedules/intent.schema.json describes it."""
    limits: dict[str, GateLimits] = Field(default_factory=dict)
    """What the switches stated of their ports, by NODE/PORT; 0: not known. It is there if they were
    asked."""
    gate_margin: GateMargin | None = None
    """How late gates may open, where the intent does not state it."""
    clock_error: ClockError | None = None
    """It is there where the intent wants it measured."""
    talker_lateness: dict[str, TalkerLateness] = Field(default_factory=dict)
    """How late talkers may be, by end station, where they said so and the intent does not."""
    algorithm: str
    streams: dict[str, PlannedStream]
    addresses: dict[str, StreamAddress] = Field(default_factory=dict)
    """Of each planned stream. It is there where the intent's forwarding is bridged."""
    jitter_ns: dict[str, dict[str, int]] = Field(default_factory=dict)
    """How much arrivals may vary, by stream with a `max-jitter` and listener. It is there if there
    is such a stream."""
    recovery_ns: dict[str, int] = Field(default_factory=dict)
    """How long after the end of a disturbance frames of a stream may be later than its bound, of
    the streams of which a bound is found. It is there if there is one, unless the intent states
    `recovery: none`."""
    loops: dict[str, LoopDelay] = Field(default_factory=dict)
    """How long control loops take. It is there if the intent has one whose streams have a place."""
    refused: dict[str, str]
    """Of each stream without a place: why."""
    gates: dict[str, Gates]
    """By NODE/PORT."""


class Discovered(Document):
    """`cnc discover`."""

    intent: dict[str, Any]
    """The draft as data, without streams; schedules/intent.schema.json describes it."""
    remarks: dict[str, list[str]]
    """What is uncertain: of a node, of a link NODE/PORT - NODE/PORT, or of the `draft`."""
