"""What the latency bounds of streams that share windows would be in windows of their own."""

from __future__ import annotations

from collections.abc import Iterable

from cnc.model import Plan
from cnc.planner.incremental import planned_placements
from cnc.planner.problem import Problem


def least_ns(plan: Plan, names: Iterable[str]) -> dict[str, int]:
    """The least bound that this planner would give each of these streams of a plan in windows of
    its own, on the way that it has: that of one whose frames wait for no other stream's."""
    streams = {name: plan.streams[name] for name in names}
    found = dict.fromkeys(streams, 0)
    for (name, _), placement in planned_placements(Problem(plan.intent, {}), streams).items():
        found[name] = max(found[name], placement.route.least_latency_ns)
    return found
