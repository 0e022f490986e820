"""Disturbances end: how long after one the streams of a plan may still be late.

A disturbance keeps a port from sending, or makes a frame miss its window. What the port could not
send leaves in spare room (`spare`), late, and may make others late there and on later ports. How
late a frame can be grows from port to port, until nothing changes any more. From the last port to
the first, each is back to the plan once the ports that feed it are, and its backlog is gone. After
a frame that was late at its talker, the talker's link is back first (`pauses`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cnc.model import Intent, PortRef
from cnc.planner.gates import Lists
from cnc.planner.lateness import lateness
from cnc.planner.problem import Problem
from cnc.planner.route import Placement


class Recovery(NamedTuple):
    """By stream, how long after a disturbance it may be late, where there is a bound; by port, why
    none is found for streams that cross it, or that meet those later on their way."""

    recovery_ns: dict[str, int]
    endless: dict[PortRef, str]

    def refused(self, intent: Intent) -> dict[PortRef, str]:
        """The ports for which no plan is to be made: those, where each stream must have a bound."""
        return self.endless if intent.network.recovery_required else {}


def recovery(problem: Problem, placements: Iterable[Placement], lists: Lists) -> Recovery:
    """For placements that are sound with `lists`; nothing where the network need not recover, and
    where ports cannot run their lists anyway."""
    if problem.intent.network.disturbance_ns is None or lists.crowded():
        return Recovery({}, {})
    its = lateness(problem, placements, lists.lists)
    return Recovery(its.bounds_ns(), its.endless())
