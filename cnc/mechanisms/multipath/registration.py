"""Multipath TCP, as the controller registers it."""

from __future__ import annotations

from cnc.mechanism import Registered
from cnc.support.lazy import lazy_import

_NOTED = lazy_import("cnc.mechanisms.multipath.noted")
_PLACE = lazy_import("cnc.mechanisms.multipath.place")
_SEMANTICS = lazy_import("cnc.mechanisms.multipath.semantics")

MECHANISM = Registered(
    name="multipath",
    at_place=lambda: _PLACE.AT_PLACE,
    keys=lambda: _SEMANTICS.KEYS,
    noted=lambda: _NOTED.NOTED,
)
