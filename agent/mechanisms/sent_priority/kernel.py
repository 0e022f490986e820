"""The code points of sent frames in the kernel: a filter for each priority, at the egress of the
port, behind those that give frames their priority."""

from __future__ import annotations

from collections.abc import Set

from pyroute2 import IPRoute

from agent.kernel.cls_flower import EGRESS
from agent.kernel.code_point_filters import CODE_POINTS, CodePointFilter
from agent.kernel.hook_filters import Hook, HookAdapter
from agent.mechanisms.sent_priority.model import PRIORITIES, CodePoints, SentPriorityState
from agent.mechanisms.sent_priority.rules import CodePointFilters

_PRIO = 0x7C00
HOOK = Hook(EGRESS, {_PRIO: 0x8100})


def adapter(ipr: IPRoute) -> HookAdapter[CodePointFilter]:
    """The kernel side of the mechanism."""
    return HookAdapter(
        ipr,
        HOOK,
        CODE_POINTS,
        CodePointFilters,
        object_words="the filters of code points",
        wanted=filters_of,
        part=_part,
    )


def filters_of(code_points: CodePoints) -> list[CodePointFilter]:
    """All filters of a table."""
    return [
        CodePointFilter(_PRIO, priority + 1, priority, code_point)
        for priority, code_point in enumerate(code_points)
    ]


def _part(filters: Set[CodePointFilter | None]) -> tuple[SentPriorityState, CodePoints | None]:
    """A table is in force where all of its filters are there."""
    by_priority = {each.priority: each.code_point for each in filters if each}
    if not by_priority.keys() >= set(range(PRIORITIES)):
        return SentPriorityState(), None
    code_points = tuple(by_priority[priority] for priority in range(PRIORITIES))
    return SentPriorityState(code_points), code_points
