"""The experiment file: its keys, their types and defaults."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from cnc.intent import read, validate
from cnc.keys.mapping import Shape
from cnc.keys.problems import KeyPath, Problems, one_of, shown
from cnc.keys.units import DURATION, FREQUENCY_OFFSET, TIME_OFFSET
from cnc.keys.values import (
    CYCLE_MAX_NS,
    Boolean,
    Dscp,
    Duration,
    Name,
    Rate,
    integer,
    quantity,
    text,
)
from cnc.loops.keys import Number
from cnc.model import NS_PER_S, transmission_ns
from cnc.testbed.experiments.chain.description import ChainDescription
from cnc.testbed.experiments.characterizer.description import CharacterizerDescription
from cnc.testbed.experiments.keys import (
    Description,
    Frames,
    NetworkDescription,
    PacketOctets,
    Percent,
    Seed,
    not_rising,
    repeated,
)
from cnc.testbed.experiments.multipath.description import (
    AggregationDescription,
    OnDemandDescription,
    ReliabilityDescription,
)
from cnc.testbed.experiments.unplanned_description import (
    BufferbloatDescription,
    EdgeIntelligenceDescription,
    ReplayDescription,
    SwitchingDescription,
)

FRAME_OVERHEAD_OCTETS = 38  # MAC header, check sequence, preamble, gap


class PlannedBeside(Shape):
    """A stream of a third class, which is planned beside the share."""

    period_ns: Annotated[int, quantity(DURATION, 10_000, NS_PER_S)] = Field(
        description="of the stream; a second is a multiple of it"
    )
    packet_octets: PacketOctets = Field(description="an IP packet with its headers")
    dscp: Dscp = Field(description="DSCP of its class")


class GateShareDescription(Description):
    """Two senders and one port that is open for each of them during a share of the cycle."""

    cycle_ns: Annotated[int, quantity(DURATION, 10_000, CYCLE_MAX_NS)] = Field(
        description="of the gate control list"
    )
    shares: list[Percent] = Field(
        min_length=1, description="percentages of the cycle that are open for high priority"
    )
    packet_octets: PacketOctets = Field(description="an IP packet with its headers")
    frames: Frames = Field(description="of each class at each share")
    frames_per_cycle: Annotated[int, integer(1, 100)] = Field(
        description="of each class; a little fewer, so that they drift through the cycle"
    )
    rate_bps: Rate = Field(description="of every cable")
    propagation_ns: Duration = Field(description="of every cable")
    processing_ns: Duration = Field(
        description="from the last bit received to the frame lying in its queue"
    )
    high_priority: Dscp = Field(description="DSCP of high priority")
    best_effort: Dscp = Field(description="DSCP of best effort")
    closed_form: Boolean = Field(
        True,
        description="whether the means are to agree with the closed form, which describes frames "
        "that wait for the gate alone; without it they are shown and not judged",
    )
    beside: PlannedBeside | None = Field(
        None,
        description="a stream that is planned beside the share, whose frames have to keep their "
        "bound; default: none",
    )

    @property
    def transmission_ns(self) -> int:
        """The time of one frame on a cable, with all that is around it (IEEE 802.3 clause 3)."""
        return transmission_ns(self.packet_octets + FRAME_OVERHEAD_OCTETS, self.rate_bps)

    @property
    def period_ns(self) -> int:
        """Of both senders: each frame is 1/frames of a cycle later in it than one before it."""
        return self.cycle_ns // self.frames_per_cycle + self.cycle_ns // self.frames

    @property
    def meets_every_phase(self) -> bool:
        """Whether `frames` frames of one sender are evenly spread over the cycle."""
        step, rest = divmod(self.period_ns * self.frames, self.cycle_ns)
        return (
            rest == 0
            and self.cycle_ns % self.frames == 0
            and self.cycle_ns % self.frames_per_cycle == 0
            and math.gcd(step, self.frames) == 1
        )

    def contradictions(self) -> Iterator[tuple[KeyPath, str, str]]:
        if self.beside and NS_PER_S % self.beside.period_ns:
            found = DURATION.format(self.beside.period_ns)
            yield ("beside", "period"), found, "a part of a second, in which all is sent once"
        if self.beside and self.closed_form:
            yield (
                ("closed-form",),
                "true, and a stream beside the share",
                "closed-form: false: best effort waits for the stream's frames, too",
            )
        if not self.meets_every_phase:
            yield (
                ("frames",),
                str(self.frames),
                (
                    "a number with which senders meet every phase of the cycle just once, such as "
                    f"{1000 * self.frames_per_cycle}"
                ),
            )


class ControlOverheadDescription(Description):
    """A line of 1, 2, … switches, and one stream through all of them."""

    # As many as the paper has figures for.
    switches: Annotated[int, integer(1, 10)] = Field(description="of the longest line")
    rounds: Annotated[int, integer(1, 1000)] = Field(description="pushes behind each median")
    cycle_ns: Annotated[int, quantity(DURATION, 500_000, CYCLE_MAX_NS)] = Field(
        description="the stream's period"
    )


class BoundCheckDescription(NetworkDescription):
    """Every frame of every stream against the latency bound that was planned."""

    frames: Frames = Field(description="of all streams together, at least")


class BesideLoadDescription(NetworkDescription):
    """All streams of a network beside best effort."""

    frames: Frames = Field(description="of all streams together, at all listeners")
    load: Percent = Field(description="what best effort takes of each cable, in per cent")


class CyclicQueuingDescription(BesideLoadDescription):
    """Every frame of streams that are forwarded once each interval against annex T."""


class ShapersDescription(BesideLoadDescription):
    """Every frame of streams with a shaper against its bound by network calculus."""


class LaunchTimeDescription(NetworkDescription):
    """Frames of a program that wakes late, with a time of transmission and without."""

    stream: Name = Field(description="that is sent, of a station with `launch-time`")
    frames: Frames = Field(description="each way, for each value")
    lateness_ns: list[Duration] = Field(
        min_length=1,
        description="in virtual time: how late the program wakes, at most, evenly drawn",
    )
    busy: list[Annotated[int, integer(0, 64)]] = Field(
        min_length=1,
        description="on a real clock: how many programs compute beside it without a pause",
    )
    lead_ns: Duration = Field(
        description="how long before its instant a frame with a time of transmission is handed over"
    )

    def contradictions(self) -> Iterator[tuple[KeyPath, str, str]]:
        for n, late_ns in enumerate(self.lateness_ns):
            if late_ns >= self.lead_ns:
                found = DURATION.format(late_ns)
                yield ("lateness", n), found, f"less than the lead, {DURATION.format(self.lead_ns)}"


class ClockErrorDescription(NetworkDescription):
    """Switches whose clocks are wrong, by more and more."""

    switches: list[Name] = Field(min_length=1, description="whose clocks are wrong")
    errors_ns: list[Annotated[int, quantity(DURATION, 0, CYCLE_MAX_NS)]] = Field(
        min_length=1, description="by how much, once ahead and once behind"
    )
    cycles: Annotated[int, integer(1, 100_000)] = Field(
        description="of the schedule, at each error"
    )


class ControlLoopDescription(NetworkDescription):
    """A control loop over one network that is run in three ways, beside more and more other
    frames."""

    loop: Name = Field(description="a control loop of the network")
    talkers: list[Name] = Field(
        min_length=1, description="the end stations that send the other frames, as many each"
    )
    listener: Name = Field(description="the end station that the other frames are for")
    loads: list[Annotated[int, integer(0, 200, "a percentage from 0 to 200")]] = Field(
        min_length=1,
        description="what the other frames take of the slowest link on their way, in per cent",
    )
    packet_octets: PacketOctets = Field(description="an IP packet of them with its headers")
    lead_ns: Duration = Field(description="how long they are sent before the loop begins")


RoundTrip = Annotated[int, quantity(DURATION, 0, NS_PER_S)]


class GainRange(Shape):
    """The gains that are tried."""

    from_: Number = Field(description="the least")
    to: Number = Field(description="the greatest")


class Tuning(Shape):
    """A search for the PI gains whose curves tell round-trip times apart best."""

    kp: GainRange = Field(description="gain of the error")
    ki: GainRange = Field(description="gain of the error's integral, per second")
    round_trips_ns: list[RoundTrip] = Field(
        min_length=2,
        description="which the gains are to distinguish, from the shortest to the longest",
    )


class StepResponsesDescription(NetworkDescription):
    """A control loop over a network that takes longer and longer and loses more and more."""

    loop: Name = Field(description="a control loop of the network")
    round_trips_ns: list[RoundTrip] = Field(
        min_length=1,
        description="how much longer a sample and its command take together than over the network "
        "as it is, half of it each; from the shortest to the longest",
    )
    losses: list[Annotated[int, integer(0, 99, "a percentage from 0 to 99")]] = Field(
        min_length=1,
        description="how many samples are lost of a hundred, and how many commands, from the "
        "fewest to the most",
    )
    seeds: list[Seed] = Field(
        min_length=1, description="of which frames are lost: for each there is a curve"
    )
    tune: Tuning | None = Field(None, description="the search for gains; default: there is none")

    def contradictions(self) -> Iterator[tuple[KeyPath, str, str]]:
        yield from not_rising(("round-trips",), self.round_trips_ns, DURATION.format)
        yield from not_rising(("losses",), self.losses, str)
        yield from repeated(("seeds",), self.seeds, "a seed")
        if self.tune:
            path = ("tune", "round-trips")
            yield from not_rising(path, self.tune.round_trips_ns, DURATION.format)
            for key, its in (("kp", self.tune.kp), ("ki", self.tune.ki)):
                if its.from_ >= its.to:
                    yield ("tune", key, "to"), str(its.to), f"more than {its.from_}, its `from`"


FrequencyOffset = Annotated[int, quantity(FREQUENCY_OFFSET, -100_000, 100_000)]


class SyncDescription(Description):
    """A line of switches with clocks of their own, which ptp4l keeps together."""

    switches: Annotated[int, integer(3, 20)] = Field(description="of the line")
    oscillators_ppb: list[FrequencyOffset] = Field(
        min_length=1,
        description="how much faster those of the switches run, one after the other and again from "
        "the first; that of the first switch, which all follow, is right",
    )
    allowed_ns: Duration = Field(description="how far a clock in step may be from the first one's")
    asymmetry_ns: Duration = Field(
        description="how much longer a frame takes to the last switch than back from it"
    )
    steady_ns: Annotated[int, quantity(DURATION, NS_PER_S, 3600 * NS_PER_S)] = Field(
        description="how long before the first switch's ptp4l is killed, and after it came back"
    )
    grandmaster_away_ns: Annotated[int, quantity(DURATION, NS_PER_S, 3600 * NS_PER_S)] = Field(
        description="how long that is dead"
    )


class OwnClocksDescription(NetworkDescription):
    """A network of switches and end stations with clocks of their own, one of which goes wrong."""

    oscillators_ppb: list[FrequencyOffset] = Field(
        min_length=1,
        description="how much faster the oscillators of nodes run, one after the other and again "
        "from the first; that of the first switch, which all follow, is right",
    )
    switch: Name = Field(description="whose clock goes wrong; one that follows another")


class ClockLossDescription(OwnClocksDescription):
    """While ptp4l keeps the clocks together, and when it no longer does."""

    frames: Frames = Field(description="of all streams together, at least, with clocks in step")
    grandmaster_away_ns: Annotated[int, quantity(DURATION, NS_PER_S, 3600 * NS_PER_S)] = Field(
        description="how long the ptp4l of the first switch is dead, and for how long streams are "
        "sent after it has come back"
    )
    runs_off_ppb: list[FrequencyOffset] = Field(
        min_length=1,
        description="how much faster than the others the clock of the switch then runs while its "
        "ptp4l is dead, in one turn after the other",
    )
    runs_off_for_ns: Annotated[int, quantity(DURATION, 1_000_000, 3600 * NS_PER_S)] = Field(
        description="how long in each turn"
    )


class ClockStepsDescription(OwnClocksDescription):
    """Rollouts while the clock of a switch settles, and while it is set."""

    steps_ns: list[Annotated[int, quantity(TIME_OFFSET, -10 * NS_PER_S, 10 * NS_PER_S)]] = Field(
        min_length=1, description="by how much the clock is set ahead in one turn after the other"
    )
    during: Annotated[
        str, text("edit|commit|verify|confirm", "one of edit, commit, verify, confirm")
    ] = Field(description="with which step of a rollout")
    adds: Name = Field(description="the stream that a rollout adds, and the next one removes")
    sends_for_ns: Annotated[int, quantity(DURATION, NS_PER_S, 3600 * NS_PER_S)] = Field(
        description="for how long streams are sent in each turn, from before the rollout on"
    )


KINDS: dict[str, type[Description]] = {
    "aggregation": AggregationDescription,
    "bound-check": BoundCheckDescription,
    "bufferbloat": BufferbloatDescription,
    "chain": ChainDescription,
    "characterizer": CharacterizerDescription,
    "clock-error": ClockErrorDescription,
    "clock-loss": ClockLossDescription,
    "clock-steps": ClockStepsDescription,
    "control-loop": ControlLoopDescription,
    "control-overhead": ControlOverheadDescription,
    "cyclic-queuing": CyclicQueuingDescription,
    "edge-intelligence": EdgeIntelligenceDescription,
    "gate-share": GateShareDescription,
    "launch-time": LaunchTimeDescription,
    "on-demand": OnDemandDescription,
    "reliability": ReliabilityDescription,
    "replay": ReplayDescription,
    "shapers": ShapersDescription,
    "step-responses": StepResponsesDescription,
    "switching": SwitchingDescription,
    "sync": SyncDescription,
}


def load(path: Path) -> Description:
    """Read an experiment file. Raises InputError with one line for each problem found."""
    return description_of(read(path))


def description_of(problems: Problems) -> Description:
    """The description that a document holds which was read. Raises InputError as `load` does."""
    description = validate(problems, kind_of(problems))
    for contradiction in description.contradictions():
        problems.add(*contradiction)
    problems.raise_if_any()
    return description


def kind_of(problems: Problems) -> type[Description]:
    """The shape of the experiment that a document says it is of.

    Raises:
        InputError: it does not, or there is no such kind.
    """
    document = problems.document
    kind: Any = document.get("kind") if isinstance(document, dict) else None
    if kind not in KINDS:
        actual = "no kind" if kind is None else shown(kind)
        problems.add(("kind",) if kind else (), actual, one_of(KINDS, str(kind)))
        problems.raise_if_any()
    return KINDS[kind]
