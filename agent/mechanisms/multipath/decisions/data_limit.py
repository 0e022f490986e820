"""How much of its data limit a path has used up, and what follows."""

from __future__ import annotations

from enum import IntEnum

from agent.mechanisms.multipath.decisions.policy import PathPolicy


class Use(IntEnum):
    """In the order in which they come."""

    WITHIN = 0
    WARNED = 1
    EXCEEDED = 2


def used(path: PathPolicy, octets: int | None) -> Use:
    """The limit itself may be used up; a path without one is within it."""
    if path.limit_octets is None or octets is None:
        return Use.WITHIN
    if octets > path.limit_octets:
        return Use.EXCEEDED
    if 100 * octets >= path.warn_percent * path.limit_octets:
        return Use.WARNED
    return Use.WITHIN
