"""Gate control lists, as the controller registers them."""

from __future__ import annotations

from cnc.mechanism import Registered
from cnc.mechanisms.gates import control_traffic, starvation
from cnc.mechanisms.gates.admission import ADMISSION
from cnc.mechanisms.gates.measured import MEASURED
from cnc.mechanisms.gates.openings import openings
from cnc.support.lazy import lazy_import

_FOUND = lazy_import("cnc.mechanisms.gates.found")
_JUDGE = lazy_import("cnc.mechanisms.gates.judge")
_SEMANTICS = lazy_import("cnc.mechanisms.gates.semantics")
_PLACE = lazy_import("cnc.mechanisms.gates.place")

MECHANISM = Registered(
    name="gates",
    keys=lambda: _SEMANTICS.KEYS,
    admission=ADMISSION,
    judge=lambda: _JUDGE.JUDGE,
    openings=openings,
    found_lists=lambda: _FOUND.FOUND_LISTS,
    measured=MEASURED,
    followed=(starvation.FOLLOWED, control_traffic.FOLLOWED),
    at_place=lambda: _PLACE.AT_PLACE,
)
