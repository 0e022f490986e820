"""The files of experiments on networks as they are, without a schedule."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated

from pydantic import Field

from cnc.keys.mapping import Shape
from cnc.keys.problems import KeyPath
from cnc.keys.units import DURATION
from cnc.keys.values import Boolean, Duration, Name, Rate, decimal, integer, quantity, text
from cnc.model import NS_PER_S
from cnc.testbed.experiments.keys import (
    NAMES_A_FILE,
    Description,
    Frames,
    NetworkDescription,
    PacketOctets,
    Percent,
    not_rising,
    repeated,
)


class BufferbloatDescription(NetworkDescription):
    """A flow that shares the ports of switches with others, over how much these ports hold."""

    talker: Name = Field(description="the end station that sends the flow")
    listener: Name = Field(description="the end station that the flow is for")
    packet_octets: PacketOctets = Field(description="an IP packet of the flow with its headers")
    intervals_ns: list[Annotated[int, quantity(DURATION, 100_000, NS_PER_S)]] = Field(
        min_length=1, description="at which the flow is sent, from the shortest to the longest"
    )
    buffers: list[Annotated[int, integer(2, 1_000)]] = Field(
        min_length=2,
        description="how many frames a port of a switch holds, the one that it sends among them, "
        "from the fewest to the most",
    )
    others: list[Name] = Field(
        min_length=2, description="end stations of which each sends to each other"
    )
    others_rate_bps: Rate = Field(
        description="at which each of them sends to each other, counting whole IP packets"
    )
    others_packet_octets: PacketOctets = Field(description="an IP packet of theirs")
    jitter_ns: Annotated[int, quantity(DURATION, 0, NS_PER_S)] = Field(
        description="how much later than at a constant rate their frames may leave, drawn by seed"
    )
    duration_ns: Annotated[int, quantity(DURATION, 1_000_000, 60 * NS_PER_S)] = Field(
        description="for how long is sent with each buffer, at each interval"
    )
    bound_ns: Duration = Field(
        description="how long the flow may take on average with the smallest buffer, at the "
        "shortest interval"
    )

    def contradictions(self) -> Iterator[tuple[KeyPath, str, str]]:
        if self.listener == self.talker:
            yield ("listener",), self.listener, "another end station than the talker"
        yield from not_rising(("intervals",), self.intervals_ns, DURATION.format)
        if self.intervals_ns[-1] > self.duration_ns:
            longest = DURATION.format(self.intervals_ns[-1])
            yield (
                ("duration",),
                DURATION.format(self.duration_ns),
                f"at least the longest of the intervals, {longest}",
            )
        yield from not_rising(("buffers",), self.buffers, str)
        yield from repeated(("others",), self.others, "an end station")


class EdgeIntelligenceDescription(NetworkDescription):
    """A signal that comes over a lossy last cable, from a station that predicts it or does not."""

    source: Name = Field(description="the end station that has the signal")
    edge: Name = Field(description="the end station before the lossy cable, which predicts it")
    device: Name = Field(description="the end station that the signal is for")
    interval_ns: Annotated[int, quantity(DURATION, 2_000_000, NS_PER_S)] = Field(
        description="at which the source sends a value"
    )
    values: Annotated[int, integer(4, 1_000)] = Field(description="how many it sends")
    period_ns: Annotated[int, quantity(DURATION, 1_000_000, NS_PER_S)] = Field(
        description="at which the edge predicts and sends a value"
    )
    loss: Percent = Field(
        description="how many frames of a hundred are lost behind the edge, drawn by seed"
    )
    gap_error_ns: Duration = Field(
        description="how far, with what the edge holds, two changes at the device may be nearer or "
        "farther apart than at the source"
    )

    def contradictions(self) -> Iterator[tuple[KeyPath, str, str]]:
        before = [self.source]
        for key, its in (("edge", self.edge), ("device", self.device)):
            if its in before:
                yield (key,), its, f"another end station than {' and '.join(before)}"
            before.append(its)
        if self.interval_ns % self.period_ns or self.interval_ns == self.period_ns:
            yield (
                ("interval",),
                DURATION.format(self.interval_ns),
                f"a multiple of the period, {DURATION.format(self.period_ns)}",
            )


class ReplayWay(Shape):
    """A way of the flow, and who sends beside it."""

    talker: Name = Field(description="the end station that sends the flow")
    listener: Name = Field(description="the end station that the flow is for")
    others: Annotated[tuple[Name, Name], Field()] = Field(
        description="two end stations, of which the first sends the capture to the second"
    )
    speeds: list[Annotated[Decimal, decimal(0, 1000)]] = Field(
        min_length=2,
        description="how many times as fast as it was captured, from 0, for not at all, upwards",
    )
    overloaded: Boolean = Field(
        description="whether at the greatest speed the flow takes ten times as long on average as "
        "without others, or longer"
    )


class ReplayDescription(NetworkDescription):
    """A captured flow beside captured traffic, on ways with links of different rates."""

    flow: Annotated[str, text(".+", "the path of a capture"), NAMES_A_FILE] = Field(
        description="path of the flow's capture, pcap or pcapng"
    )
    capture: Annotated[str, text(".+", "the path of a capture"), NAMES_A_FILE] = Field(
        description="path of the others' capture"
    )
    ways: list[ReplayWay] = Field(min_length=1, description="ways, one after the other")
    duration_ns: Annotated[int, quantity(DURATION, 1_000_000, 60 * NS_PER_S)] = Field(
        description="for how long is sent on each way, at each speed"
    )

    def contradictions(self) -> Iterator[tuple[KeyPath, str, str]]:
        for number, its in enumerate(self.ways):
            path: KeyPath = ("ways", number)
            if its.speeds[0]:
                yield (*path, "speeds", 0), str(its.speeds[0]), "0, the flow without others"
            yield from not_rising((*path, "speeds"), its.speeds, str)
            if its.listener == its.talker:
                yield (*path, "listener"), its.listener, "another end station than the talker"
            yield from repeated((*path, "others"), its.others, "an end station")


class SwitchingDescription(Description):
    """Packets through a switch in software of two ports: Linux bridge, XDP, AF_XDP."""

    rounds: Annotated[int, integer(1, 100)] = Field(
        description="in each of which all ways take turns"
    )
    frames: Frames = Field(description="that are sent through each in a round, with each load")
    period_ns: Annotated[int, quantity(DURATION, 10_000, NS_PER_S)] = Field(
        description="at which they are sent"
    )
    packet_octets: PacketOctets = Field(description="an IP packet with its headers")
    busy: list[Annotated[int, integer(0, 64)]] = Field(
        min_length=1, description="how many programs compute beside it without a pause"
    )
    xdp: Annotated[str, text("generic|native", "generic or native")] = Field(
        description="whether XDP programs run in the kernel's receive path or in the driver"
    )
    af_xdp: Annotated[str, text("polls|sleeps", "polls or sleeps")] = Field(
        description="what the program of AF_XDP does while there is no frame"
    )
    alike: Percent = Field(
        description="by how many per cent of the greater two maxima may differ that count as equal"
    )

    def contradictions(self) -> Iterator[tuple[KeyPath, str, str]]:
        yield from repeated(("busy",), self.busy, "a number of programs")
