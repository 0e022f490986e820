"""Streams that share windows, beside new ones: none of their bounds rises.

They have no instant to keep, and which frames leave when is counted anew for all. But a bound that
was stated to somebody holds on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cnc.errors import Unschedulable
from cnc.model import Plan
from cnc.planner import incremental
from cnc.planner.floor import us
from cnc.planner.own_windows import HINT


def held(place: Callable[..., Plan], made: Plan, keep: Plan, *, best_effort: bool) -> Plan:
    """The plan `made` around `keep`, or one with as many of the new streams, in their order, as
    raise no bound. Raises `Unschedulable` where these are not all, unless with `best_effort`."""
    if (raised := _raised(made, keep)) is None:
        return made
    intent = made.intent
    kept = incremental.unchanged(intent, keep)
    new = [name for name in intent.streams if name not in kept]
    found: Plan | None = None
    low, high = -1, len(new)
    while high - low > 1:
        count = (low + high) // 2
        out = set(new[count:])
        its = {name: stream for name, stream in intent.streams.items() if name not in out}
        tried = place(replace(intent, streams=its), keep=keep, best_effort=True)
        if (worse := _raised(tried, keep)) is None:
            low, found = count, tried
        else:
            high, raised = count, worse
    why = (
        f"with it {raised}, and a plan with --keep raises no bound. What would help: to plan "
        "without --keep, or longer periods and smaller payloads of what is new"
    )
    if found is None or not best_effort:
        raise Unschedulable(dict.fromkeys(new[max(low, 0) :], why), hint=HINT)
    return replace(found, intent=intent, refused={**found.refused, **dict.fromkeys(new[low:], why)})


def _raised(made: Plan, keep: Plan) -> str | None:
    """How a plan is worse for a stream that shared windows in the kept one; None if for none."""
    for name, before in incremental.unchanged(made.intent, keep).items():
        if not before.is_shared:
            continue
        after, was = made.streams.get(name), us(before.latency_bound_ns)
        if after is None:
            return f"frames of {name}, which are there within {was} now, would have no place"
        if after.latency_bound_ns > before.latency_bound_ns:
            return f"frames of {name} could take {us(after.latency_bound_ns)} in place of {was}"
    return None
