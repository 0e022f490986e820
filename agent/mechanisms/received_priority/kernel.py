"""The priorities of received frames in the kernel: a filter for each code point, and one for all
other frames, at the ingress of the port."""

from __future__ import annotations

from pyroute2 import IPRoute

from agent.kernel.cls_flower import ANY_PROTOCOL, INGRESS
from agent.kernel.priority_filters import FilterAdapter, Filters, Hook, Match, PriorityFilter
from agent.mechanisms.received_priority.model import (
    PRIORITIES,
    PriorityTable,
    ReceivedPriorityState,
)
from agent.mechanisms.received_priority.rules import IngressFilters, repair

_TAGGED, _OTHER = 0x7A00, 0x7A01  # the lower goes first
HOOK = Hook(INGRESS, {_TAGGED: 0x8100, _OTHER: ANY_PROTOCOL})


def adapter(ipr: IPRoute) -> FilterAdapter:
    """The kernel side of the mechanism."""
    return FilterAdapter(ipr, HOOK, IngressFilters, wanted=filters_of, part=_part, repair=repair)


def filters_of(table: PriorityTable) -> list[PriorityFilter]:
    """All filters of a table."""
    tagged = [
        PriorityFilter(_TAGGED, pcp + 1, Match(pcp=pcp), given)
        for pcp, given in enumerate(table.regenerated)
    ]
    return [*tagged, PriorityFilter(_OTHER, 1, Match(), table.default)]


def _part(filters: Filters) -> tuple[ReceivedPriorityState, PriorityTable | None]:
    """A table is in force where all of its filters are there."""
    by_code_point = {f.match.pcp: f.priority for f in filters if f and f.prio == _TAGGED}
    default = [each.priority for each in filters if each and each.prio == _OTHER]
    if len(default) != 1 or not by_code_point.keys() >= set(range(PRIORITIES)):
        return ReceivedPriorityState(), None
    table = PriorityTable(tuple(by_code_point[pcp] for pcp in range(PRIORITIES)), default[0])
    return ReceivedPriorityState(table), table
