"""The offsets at which talkers send, as the controller asks for them."""

from __future__ import annotations

from collections.abc import Iterator

from cnc.mechanism import Mechanism, Planned
from cnc.mechanisms.talker_offsets.measured import MEASURED
from cnc.model import TalkerStreams
from cnc.support.lazy import lazy_import

_PLACE = lazy_import("cnc.mechanisms.talker_offsets.place")
_SEMANTICS = lazy_import("cnc.mechanisms.talker_offsets.semantics")


def _periods_ns(its: TalkerStreams) -> Iterator[int]:
    return (stream.period_ns for stream in its.streams)


MECHANISM = Mechanism(
    name="talker_offsets",
    part=TalkerStreams,
    planned=Planned(cycles_ns=_periods_ns),
    measured=MEASURED,
    at_place=lambda: _PLACE.AT_PLACE,
    keys=lambda: _SEMANTICS.KEYS,
)
