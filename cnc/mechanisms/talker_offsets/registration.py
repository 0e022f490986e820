"""Talker offsets, as the controller registers them."""

from __future__ import annotations

from cnc.mechanism import Registered
from cnc.mechanisms.talker_offsets.measured import MEASURED
from cnc.support.lazy import lazy_import

_PLACE = lazy_import("cnc.mechanisms.talker_offsets.place")
_SEMANTICS = lazy_import("cnc.mechanisms.talker_offsets.semantics")

MECHANISM = Registered(
    name="talker_offsets",
    measured=MEASURED,
    at_place=lambda: _PLACE.AT_PLACE,
    keys=lambda: _SEMANTICS.KEYS,
)
