"""The keys of filtering and policing."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cnc.keys.mapping import After, Shape
from cnc.keys.values import choice, integer
from cnc.mechanisms.stream_filters.model import DEFAULT_STREAM_FILTERS_MAX, Policing

_STREAM_FILTERS_MAX = 1_000_000
_MostFilters = Annotated[int, integer(1, _STREAM_FILTERS_MAX)]
_Policing = Annotated[Policing, choice(Policing)]


class NetworkKeys(Shape):
    """Of the network."""

    policing: Annotated[_Policing | None, After("addresses")] = Field(
        None,
        description="in a bridged network: what switches do with frames of end stations that are "
        "out of profile (outside their window, too long, too many) or unidentified, with the "
        "priority of a class that has streams (IEEE 802.1Q 8.6.5.2); off: nothing; count: count "
        "them; drop: drop and count them; default: count at switches that hold the stream filters "
        "for that",
    )


class ClassKeys(Shape):
    """Of a class."""

    policing: _Policing | None = Field(
        None,
        description="of a class in a bridged network that has streams; "
        "default: policing of the network",
    )


class StreamKeys(Shape):
    """Of a stream."""

    policing: _Policing | None = Field(
        None, description="in a bridged network; default: policing of its class"
    )


class SwitchKeys(Shape):
    """Of a switch."""

    stream_filters_max: Annotated[_MostFilters | None, After("filtering-entries-max")] = Field(
        None,
        description="in a bridged network: the most stream filters that it may hold, one for each "
        "policed stream at its first switch, and one for each policed class at each port to an "
        f"end station; default: {DEFAULT_STREAM_FILTERS_MAX}",
    )
