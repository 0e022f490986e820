"""The priorities of received frames in the kernel: at the ingress of the port a filter for all
frames, and behind it one for each code point."""

from __future__ import annotations

from pyroute2 import IPRoute

from agent.kernel.cls_flower import ANY_PROTOCOL, INGRESS
from agent.kernel.priority_filters import (
    FLOWER,
    FilterAdapter,
    Filters,
    Hook,
    Match,
    PriorityFilter,
)
from agent.mechanisms.received_priority.model import (
    PRIORITIES,
    PriorityTable,
    ReceivedPriorityState,
)
from agent.mechanisms.received_priority.rules import IngressFilters, repair

_ANY, _TAGGED = 0x7A00, 0x7A01  # the lower goes first
HOOK = Hook(INGRESS, {_ANY: ANY_PROTOCOL, _TAGGED: 0x8100})


def adapter(ipr: IPRoute) -> FilterAdapter[PriorityFilter]:
    """The kernel side of the mechanism."""
    return FilterAdapter(
        ipr, HOOK, FLOWER, IngressFilters, wanted=filters_of, part=_part, repair=repair
    )


def filters_of(table: PriorityTable) -> list[PriorityFilter]:
    """All filters of a table."""
    tagged = [
        PriorityFilter(_TAGGED, pcp + 1, Match(pcp=pcp), given, _label(pcp, decoded))
        for pcp, (given, decoded) in enumerate(zip(table.regenerated, table.decoded, strict=True))
    ]
    return [*tagged, PriorityFilter(_ANY, 1, Match(), table.default)]


def _part(filters: Filters) -> tuple[ReceivedPriorityState, PriorityTable | None]:
    """A table is in force where all of its filters are there."""
    by_code_point = {f.match.pcp: f for f in filters if f and f.prio == _TAGGED}
    default = [each.priority for each in filters if each and each.prio == _ANY]
    if len(default) != 1 or not by_code_point.keys() >= set(range(PRIORITIES)):
        return ReceivedPriorityState(), None
    tagged = [by_code_point[pcp] for pcp in range(PRIORITIES)]
    table = PriorityTable(
        regenerated=tuple(each.priority for each in tagged),
        default=default[0],
        decoded=tuple(
            pcp if each.label is None else each.label - 1 for pcp, each in enumerate(tagged)
        ),
    )
    return ReceivedPriorityState(table), table


def _label(pcp: int, decoded: int) -> int | None:
    """What the filter shows of a code point that does not stand for its own value."""
    return None if decoded == pcp else decoded + 1
