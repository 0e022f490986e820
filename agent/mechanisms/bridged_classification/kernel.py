"""The DSCP rules of bridged ports in the kernel: four filters a rule, at the egress of the port.

For IPv4 and IPv6, without and with a VLAN tag.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pyroute2 import IPRoute

from agent.kernel.cls_flower import EGRESS
from agent.kernel.hook_filters import Hook, HookAdapter
from agent.kernel.priority_filters import FLOWER, Filters, Match, PriorityFilter
from agent.mechanisms.bridged_classification.model import BridgedState
from agent.mechanisms.bridged_classification.rules import EgressFilters

_IPV4, _IPV6, _VLAN = 0x0800, 0x86DD, 0x8100
HOOK = Hook(EGRESS, {0x7A00: _IPV4, 0x7A01: _IPV6, 0x7A02: _VLAN})


class _Kind(NamedTuple):
    """One of the four filters of a rule; `handle` is that of DSCP 0."""

    prio: int
    handle: int
    vlan_ethertype: int | None


_KINDS = (
    _Kind(0x7A00, 1, None),
    _Kind(0x7A01, 1, None),
    _Kind(0x7A02, 1, _IPV4),
    _Kind(0x7A02, 0x101, _IPV6),
)


def adapter(ipr: IPRoute) -> HookAdapter[PriorityFilter]:
    """The kernel side of the mechanism."""
    return HookAdapter(
        ipr,
        HOOK,
        FLOWER,
        EgressFilters,
        object_words="the egress filters",
        wanted=filters_of,
        part=_part,
    )


def filters_of(priorities: Mapping[int, int]) -> list[PriorityFilter]:
    """All filters of these rules (priority by DSCP)."""
    return [
        PriorityFilter(kind.prio, kind.handle + dscp, Match(None, kind.vlan_ethertype, dscp), given)
        for kind in _KINDS
        for dscp, given in priorities.items()
    ]


def _part(filters: Filters) -> tuple[BridgedState, Mapping[int, int]]:
    """A rule is in force where all four of its filters are there."""
    candidates = {
        (each.match.dscp, each.priority) for each in filters if each and each.match.dscp is not None
    }
    rules = {d: p for d, p in sorted(candidates) if filters >= set(filters_of({d: p}))}
    return BridgedState(rules), rules
