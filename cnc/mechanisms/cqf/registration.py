"""Cyclic queuing and forwarding, as the controller registers it."""

from __future__ import annotations

from cnc.mechanism import Registered
from cnc.mechanisms.cqf.admission import ADMISSION
from cnc.support.lazy import lazy_import

_JUDGE = lazy_import("cnc.mechanisms.cqf.judge")
_SEMANTICS = lazy_import("cnc.mechanisms.cqf.semantics")

MECHANISM = Registered(
    name="cqf",
    keys=lambda: _SEMANTICS.KEYS,
    admission=ADMISSION,
    judge=lambda: _JUDGE.JUDGE,
)
