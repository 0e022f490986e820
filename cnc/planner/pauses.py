"""How far a talker's link falls behind its plan after one late frame, and when it has caught up.

The late frame takes the time of others. These queue at the talker and leave one after another, late
by what the late one took, until the pauses in what is planned add up to as much. The talker's best
effort is ahead of the first of them at most, so that the time which the plan leaves for it before
each frame is a pause, too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from itertools import accumulate
from math import lcm
from typing import NamedTuple


class Sending(NamedTuple):
    """The frames that a talker sends together in each period of a stream: from `offset_ns` on, they
    and the control frames among them keep the link busy for `work_ns`."""

    stream: str
    traffic_class: int
    period_ns: int
    offset_ns: int
    work_ns: int


class Behind(NamedTuple):
    """How much later than planned frames leave a talker's link at most, by class, and how long
    after a late frame all have left that it delays: those planned then or later are on time."""

    late_ns: dict[int, int]
    back_ns: int


def behind(sendings: Collection[Sending], ahead_ns: int) -> Behind | None:
    """For those of a link, of which no two overlap; None if it never catches up.

    The late frame is the longest of them, and comes at the worst time. Best effort may go ahead of
    the first that waits for `ahead_ns`.
    """
    cycle = lcm(*{sending.period_ns for sending in sendings})
    if sum(cycle // sending.period_ns * sending.work_ns for sending in sendings) >= cycle:
        return None
    work = max(sending.work_ns for sending in sendings)
    late = {}
    for number in {sending.traffic_class for sending in sendings}:
        # Those of greater classes go first: frames of this one wait for pauses between them.
        before = [sending for sending in sendings if sending.traffic_class > number]
        late[number] = _longest_ns(before, cycle, work)
    return Behind(late, _longest_ns(sendings, cycle, work) + ahead_ns)


def _longest_ns(sendings: Collection[Sending], cycle_ns: int, work_ns: int) -> int:
    """The longest time in which pauses between `sendings` add up to `work_ns`."""
    if not sendings:
        return work_ns
    works = sorted(
        (time, sending.work_ns)
        for sending in sendings
        for time in range(sending.offset_ns % sending.period_ns, cycle_ns, sending.period_ns)
    )
    sums = list(accumulate((work for _, work in works), initial=0))
    # The pauses of the cycle before each, and what those of a whole cycle add up to.
    pauses = [time - before for (time, _), before in zip(works, sums, strict=False)]
    in_cycle = cycle_ns - sums[-1]
    return work_ns + max(
        _works_until(pauses, sums, in_cycle, paused + work_ns) - before
        for paused, before in zip(pauses, sums, strict=False)
    )


def _works_until(
    pauses: Sequence[int], sums: Sequence[int], in_cycle_ns: int, paused_ns: int
) -> int:
    """What the frames take together that are due before there were pauses of `paused_ns`."""
    turns, rest = divmod(paused_ns - pauses[0] - 1, in_cycle_ns)
    return turns * sums[-1] + sums[bisect_left(pauses, pauses[0] + rest + 1)]
