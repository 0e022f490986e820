"""The credit-based shaper and strict priority, as the controller registers them."""

from __future__ import annotations

from cnc.mechanism import Registered
from cnc.mechanisms.cbs.admission import ADMISSION
from cnc.mechanisms.cbs.decided import DECIDED
from cnc.support.lazy import lazy_import

_JUDGE = lazy_import("cnc.mechanisms.cbs.judge")
_PLACE = lazy_import("cnc.mechanisms.cbs.place")
_SEMANTICS = lazy_import("cnc.mechanisms.cbs.semantics")

MECHANISM = Registered(
    name="cbs",
    keys=lambda: _SEMANTICS.KEYS,
    admission=ADMISSION,
    decided=DECIDED,
    judge=lambda: _JUDGE.JUDGE,
    at_place=lambda: _PLACE.AT_PLACE,
)
