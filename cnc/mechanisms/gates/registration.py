"""Gate control lists, as the controller registers them."""

from __future__ import annotations

from cnc.mechanism import Registered
from cnc.mechanisms.gates import control_traffic, starvation
from cnc.mechanisms.gates.measured import MEASURED
from cnc.support.lazy import lazy_import

_PLACE = lazy_import("cnc.mechanisms.gates.place")

MECHANISM = Registered(
    name="gates",
    measured=MEASURED,
    followed=(starvation.FOLLOWED, control_traffic.FOLLOWED),
    at_place=lambda: _PLACE.AT_PLACE,
)
