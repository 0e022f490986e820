"""How bridges forward the frames of streams, as the controller registers it."""

from __future__ import annotations

from cnc.mechanism import Registered
from cnc.mechanisms.forwarding.derive import derive
from cnc.support.lazy import lazy_import

_PLACE = lazy_import("cnc.mechanisms.forwarding.place")
_SEMANTICS = lazy_import("cnc.mechanisms.forwarding.semantics")

MECHANISM = Registered(
    name="forwarding",
    forwards=derive,
    at_place=lambda: _PLACE.AT_PLACE,
    keys=lambda: _SEMANTICS.KEYS,
)
