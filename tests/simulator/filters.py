"""Stream filters of first switches: which frames of talkers go on (IEEE 802.1Q-2022 8.6.5.2)."""

from __future__ import annotations

from collections.abc import Collection

from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.stream_filters.model import (
    FilteredStream,
    Policing,
    StreamFilter,
    StreamFilters,
    WindowGate,
)
from cnc.model import Plan, PortRef
from tests.simulator.ports import Flow

_TAG_OCTETS = 6  # of a number, which the first switch puts into a frame before it looks at it


class DroppingFilters:
    """The filters of a plan that drop what does not come as planned, those of strangers apart."""

    def __init__(self, plan: Plan) -> None:
        names = {(a.destination_mac, a.vlan_id): name for name, a in plan.addresses.items()}
        self._filters: dict[tuple[PortRef, str], StreamFilter] = {}
        for switch, its in bridge_forwardings(plan).items():
            for each in _dropping(its[StreamFilters].filters):
                if isinstance(each.of, FilteredStream):
                    name = names[each.of.destination_mac, each.of.vlan_id]
                    self._filters[PortRef(switch, each.of.port), name] = each
        # How many octets have passed each gate since it opened last, and in which period that was.
        self._passed: dict[tuple[PortRef, str], tuple[int, int]] = {}

    def passes(self, flow: Flow, ingress: PortRef, at_ns: int) -> bool:
        """Whether a frame goes on that the switch looks at then, by its clock."""
        key = ingress, flow.name
        its = self._filters.get(key)
        if its is None or not isinstance(its.gate, WindowGate):
            return True
        octets = flow.payload_octets + _TAG_OCTETS * bool(flow.numbered)
        period, since_ns = divmod(at_ns - its.gate.start_ns, its.gate.period_ns)
        counted_in, passed = self._passed.get(key, (period, 0))
        if counted_in != period:
            passed = 0
        fits = octets <= its.max_sdu_octets and passed + octets <= its.gate.octets_max
        if since_ns >= its.gate.open_ns or not fits:
            return False
        self._passed[key] = period, passed + octets
        return True


def _dropping(filters: Collection[StreamFilter]) -> list[StreamFilter]:
    return [each for each in filters if each.policing is Policing.DROP]
