"""The keys `elimination`: who eliminates duplicates."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cnc.keys.mapping import After, Shape
from cnc.keys.values import choice
from cnc.model import Elimination

_Elimination = Annotated[Elimination, choice(Elimination)]


class DefaultsKeys(Shape):
    """Of the defaults."""

    elimination: Annotated[_Elimination | None, After("recovery")] = Field(
        None,
        description="in a bridged network, of all streams with two paths: which eliminates "
        "duplicates, listener or switch; default: listener",
    )


class StreamKeys(Shape):
    """Of a stream."""

    elimination: Annotated[_Elimination | None, After("paths")] = Field(
        None,
        description="in a bridged network, of a stream with two paths: which eliminates "
        "duplicates; listener: it gets both copies; switch: the first switch numbers the frames, "
        "the last one before each listener passes the first copy of each (IEEE 802.1CB); default: "
        "defaults.elimination",
    )
