"""Planning around a schedule that runs: what is kept does not move by a nanosecond."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from cnc.errors import InputError
from cnc.model import ClassRole, Intent, Link, Plan, PortRef, StreamPlan
from cnc.planner.problem import (
    Member,
    Placement,
    Problem,
    Tree,
    entries_max,
    interval_max_ns,
)

_FOUNDATIONS: Mapping[str, Callable[[Intent], object]] = {
    "clock error": lambda intent: intent.network.clock_error_ns,
    "gate margin": lambda intent: intent.network.gate_margin_ns,
    "frame overhead": lambda intent: intent.network.overhead,
    "set of control classes": lambda intent: intent.classes_with(ClassRole.CONTROL),
}


def unchanged(intent: Intent, running: Plan) -> dict[str, StreamPlan]:
    """The streams of `running` that `intent` asks for in the same words, on links that still are.

    A stream whose requirements changed is a new one: it is placed again. Raises `InputError` where
    the figures differ on which every offset rests.
    """
    before, after = running.intent, intent
    for what, its_figure in _FOUNDATIONS.items():
        if its_figure(before) != its_figure(after):
            raise InputError(
                f"the running plan was made for another {what} than {intent.name} has now",
                hint="its offsets may not hold any more: plan anew, without --keep",
            )
    return {
        name: planned
        for name, planned in running.streams.items()
        if after.streams.get(name) == before.streams.get(name)
        and running.class_of(name) in after.classes.values()
        and all(_is_same(before, after, hop.egress) for hop in planned.hops)
    }


def _is_same(before: Intent, after: Intent, port: PortRef) -> bool:
    """Whether a port and the switch before it are what they were."""
    link, now = before.network.links[port], after.network.links.get(port)
    one, other = (intent.network.bridges.get(port.node) for intent in (before, after))
    if now is None or one is None or other is None:
        return link == now and one is other
    if _as_gated(before, link) != _as_gated(after, now):
        return False
    return (one.processing_min_ns, one.processing_max_ns, one.gate_mode) == (
        other.processing_min_ns,
        other.processing_max_ns,
        other.gate_mode,
    )


def _as_gated(intent: Intent, link: Link) -> Link:
    """A bridge's link with those limits on its list that may bind: a shorter list may let frames
    leave early, and offsets rest on that. A running list keeps its cycle."""
    return replace(
        link,
        gate_entries_max=entries_max(intent, link) or 0,
        gate_interval_max_ns=interval_max_ns(link),
        gate_cycle_max_ns=0,
    )


def placements(problem: Problem, kept: Mapping[str, StreamPlan]) -> dict[Member, Placement]:
    """The kept streams as the planner sees them."""
    number = {link.source: index for index, link in enumerate(problem.links)}
    found = {}
    for name, planned in kept.items():
        for path, hops in enumerate(planned.paths):
            member = Member(name, path)
            tree: Tree = tuple(number[hop.egress] for hop in hops)
            found[member] = Placement(
                problem.route(member, tree),
                tuple(hop.offset_ns for hop in hops),
                hops[0].traffic_class,
            )
    return found


def moved(running: Plan, plan: Plan) -> list[str]:
    """The streams of both plans that do not keep their route, offsets and class."""
    return [
        name
        for name, planned in plan.streams.items()
        if name in running.streams and running.streams[name].paths != planned.paths
    ]
