"""How bridges forward the frames of streams, as the controller asks for it."""

from __future__ import annotations

from cnc.mechanism import Mechanism, Planned
from cnc.mechanisms.forwarding.derive import derive
from cnc.model import BridgeForwarding
from cnc.support.lazy import lazy_import

_PLACE = lazy_import("cnc.mechanisms.forwarding.place")
_SEMANTICS = lazy_import("cnc.mechanisms.forwarding.semantics")


MECHANISM = Mechanism(
    name="forwarding",
    part=BridgeForwarding,
    planned=Planned(derive),
    at_place=lambda: _PLACE.AT_PLACE,
    keys=lambda: _SEMANTICS.KEYS,
)
