"""The priorities of received frames in the kernel: at the ingress of the port a filter for all
frames, and behind it one for each code point; or, where hardware forwards, tables of its driver.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from contextlib import suppress

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from agent.composition import Contribution, KernelObject
from agent.filter_placement import with_placement
from agent.kernel.cls_flower import ANY_PROTOCOL, INGRESS
from agent.kernel.hook_filters import Hook, HookAdapter
from agent.kernel.priority_filters import FLOWER, Filters, Match, PriorityFilter
from agent.kernel.refusal import reason
from agent.mechanisms.received_priority.driver_tables import DriverTables
from agent.mechanisms.received_priority.model import (
    PRIORITIES,
    PriorityTable,
    ReceivedPriorityState,
)
from agent.mechanisms.received_priority.rules import IngressFilters
from agent.model import AgentError, PortState

_ANY, _TAGGED = 0x7A00, 0x7A01  # the lower goes first
HOOK = Hook(INGRESS, {_ANY: ANY_PROTOCOL, _TAGGED: 0x8100})


class ReceivedPriorityAdapter(HookAdapter[PriorityFilter]):
    """Filters, but tables of the driver where hardware forwards and its driver has them."""

    def __init__(self, ipr: IPRoute) -> None:
        super().__init__(
            ipr,
            HOOK,
            FLOWER,
            IngressFilters,
            object_words="the ingress filters",
            wanted=filters_of,
            part=_part,
        )
        self.objects = {IngressFilters: self._set_tables}
        self._tables = DriverTables(self._kernel)

    def read(self, states: Mapping[str, PortState]) -> dict[str, PortState]:
        found = super().read(states)
        for name, state in found.items():
            if table := self._tables.table(name):
                found[name] = with_placement(state, [True]).with_part(ReceivedPriorityState(table))
        return found

    def _set_tables(
        self, target: KernelObject, before: Sequence[Contribution], after: Sequence[Contribution]
    ) -> None:
        """Let the port have what `after` holds; if refused, it is as before, and AgentError."""
        port, ifindex = target.port_and_ifindex()
        if not (self.in_switch(ifindex) or self._tables.has(port)):
            self._replace(target, before, after)
            return
        try:
            if after:
                self._tables.set(port, after[0].content)
            elif self._tables.has(port):
                self._tables.restore(port)
        except NetlinkError as refusal:
            if not after or refusal.code != errno.EOPNOTSUPP:
                raise AgentError(
                    f"port {port}: its driver refused a table of priorities (dcb app): "
                    f"{reason(refusal)}"
                ) from refusal
            self._set_filters(target, before, after, refusal)
        else:
            self._remove_filters(port, target, before)

    def _remove_filters(
        self, port: str, target: KernelObject, before: Sequence[Contribution]
    ) -> None:
        """Those with which another version of the agent did what the tables do."""
        try:
            self._replace(target, before, ())
        except AgentError:
            if self._tables.has(port):
                with suppress(NetlinkError):
                    self._tables.restore(port)
            raise

    def _set_filters(
        self,
        target: KernelObject,
        before: Sequence[Contribution],
        after: Sequence[Contribution],
        refusal: NetlinkError,
    ) -> None:
        try:
            self._replace(target, before, after)
        except AgentError as other:
            raise AgentError(
                f"{other}; nor does it take a table of priorities (dcb app): {reason(refusal)}"
            ) from other


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
