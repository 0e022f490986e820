"""The files of experiments on a station with two uplinks."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cnc.keys.units import DURATION
from cnc.keys.values import Duration, Name, Rate, integer, quantity
from cnc.model import NS_PER_S
from cnc.testbed.experiments.keys import NetworkDescription, Percent

_Rates = Annotated[tuple[Rate, Rate], Field()]
_Span = Annotated[int, quantity(DURATION, NS_PER_S, 3600 * NS_PER_S)]


class UplinksDescription(NetworkDescription):
    """A server that a station reaches by two uplinks, both of them paths of multipath TCP."""

    station: Name = Field(description="the end station with the uplinks, one of them a backup")
    server: Name = Field(description="the end station that both of them lead to")
    queue: Annotated[int, integer(2, 100_000)] = Field(
        description="how many frames wait before an uplink, in both directions"
    )


class AggregationDescription(UplinksDescription):
    """What two uplinks carry alone and together."""

    rates_bps: list[_Rates] = Field(
        min_length=1,
        description="of the uplink that is no backup and of the other one, one pair after another",
    )
    settle_ns: _Span = Field(description="for how long a connection finds its rate")
    duration_ns: _Span = Field(description="for how long it is then measured")
    share: Percent = Field(
        description="how much of the sum of both they carry together, in per cent, at least"
    )


class OnDemandDescription(UplinksDescription):
    """A medium whose second path is there on demand, or always, or never."""

    rates_bps: _Rates = Field(description="of the uplink that is no backup and of the other one")
    media_rate_bps: Rate = Field(description="what the medium needs to be played")
    duration_ns: _Span = Field(description="of the medium")
    ahead_ns: _Span = Field(description="how far ahead of what is played a player loads it")
    share: Percent = Field(
        description="how many of a hundred octets the second path carries on demand, at most"
    )
    stall_ns: Duration = Field(
        description="for how much longer it stalls on demand than with both paths, at most"
    )


class ReliabilityDescription(UplinksDescription):
    """An uplink that loses all frames for a while, under a transfer."""

    rates_bps: _Rates = Field(description="of the uplink that is no backup and of the other one")
    before_ns: _Span = Field(description="for how long both uplinks are there first")
    outage_ns: _Span = Field(description="for how long the one that is no backup then fails")
    after_ns: _Span = Field(description="for how long it carries frames again")
    stall_ns: Duration = Field(
        description="for how long a transfer with two paths makes no progress, at most"
    )
