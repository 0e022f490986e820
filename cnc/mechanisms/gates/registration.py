"""Gate control lists of ports, as the controller asks for them."""

from __future__ import annotations

from collections.abc import Iterator

from cnc.mechanism import Mechanism, Planned
from cnc.mechanisms.gates.measured import MEASURED
from cnc.mechanisms.gates.starvation import FOLLOWED
from cnc.model import PortGates
from cnc.support.lazy import lazy_import

_PLACE = lazy_import("cnc.mechanisms.gates.place")


def _cycles_ns(its: PortGates) -> Iterator[int]:
    if its.configuration:
        yield its.configuration.gates.cycle_ns


MECHANISM = Mechanism(
    name="gates",
    part=PortGates,
    planned=Planned(cycles_ns=_cycles_ns),
    measured=MEASURED,
    followed=FOLLOWED,
    at_place=lambda: _PLACE.AT_PLACE,
)
