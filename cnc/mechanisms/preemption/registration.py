"""Frame preemption, as the controller registers it."""

from __future__ import annotations

from cnc.mechanism import Registered
from cnc.support.lazy import lazy_import

_PLACE = lazy_import("cnc.mechanisms.preemption.place")

MECHANISM = Registered(name="preemption", at_place=lambda: _PLACE.AT_PLACE)
