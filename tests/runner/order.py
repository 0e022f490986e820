"""Which lanes a limited run takes first, from the number of commits alone.

The lanes lie on a circle, each as long as it takes. Commit n starts at the fractional part of n
times the golden ratio: each start falls into the widest gap between those before it, so that it is
near what was run longest ago; and because the ratio is irrational every lane has its turn however
many commits a push has. A clean clone finds the same order: there is no state.

A lane that runs once in N commits has an arc of the circle, its N-th part, and its turn where the
start falls there. The arcs are spread evenly, so that few such lanes have their turn at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tests.runner.table import Lane

# 64 bits of (sqrt(5) - 1) / 2, exact for any number of commits.
GOLDEN = Fraction(0x9E3779B97F4A7C15, 1 << 64)


def at_commit(lanes: Sequence[Lane], commits: int) -> list[Lane]:
    """The same lanes: those that are always first, those that run once in so many commits, then
    the others as a circle that begins where commit number `commits` starts."""
    always = [lane for lane in lanes if lane.first]
    rare = [lane for lane in lanes if lane.once_in > 1]
    circle = [lane for lane in lanes if not lane.first and lane.once_in == 1]
    return [*always, *rare, *rotated(circle, commits)]


def waiting(lanes: Sequence[Lane], commits: int) -> list[Lane]:
    """Those that run once in so many commits, and not at commit number `commits`."""
    rare = [lane for lane in lanes if lane.once_in > 1]
    return [
        lane
        for index, lane in enumerate(rare)
        if (commits * GOLDEN + Fraction(index, len(rare))) % 1 >= Fraction(1, lane.once_in)
    ]


def rotated(lanes: Sequence[Lane], commits: int) -> list[Lane]:
    """The same lanes in the same circle, beginning where commit number `commits` starts."""
    start = commits * GOLDEN % 1 * Fraction(sum(lane.cost.wall_s for lane in lanes))
    position = Fraction(0)
    for index, lane in enumerate(lanes):
        position += Fraction(lane.cost.wall_s)
        if start < position:
            return [*lanes[index:], *lanes[:index]]
    return list(lanes)
