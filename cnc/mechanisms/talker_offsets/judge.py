"""What one late frame of a talker does on the talker's own link.

The talker sends it beside all others, and each of these may have to wait. The link makes up for it
in its pauses, one after the other. Whatever comes first of best effort was planned for: it does so
once while frames wait, so that only what a frame takes besides keeps the link from pausing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import lcm
from typing import NamedTuple


class Load(NamedTuple):
    """The frames of each period of a stream on its talker's link: planned from `offset_ns` on, they
    take `takes_ns` of it, without best effort."""

    traffic_class: int
    period_ns: int
    offset_ns: int
    takes_ns: int


class Lag(NamedTuple):
    """By class how much later than planned frames leave the link, and how long after the late
    frame the last one that it delays has left; None: without a bound."""

    late_ns: dict[int, int | None]
    over_ns: int | None


def lag(loads: Sequence[Load], extra_ns: int, best_effort_ns: int) -> Lag:
    """That of a link, after a frame at any time, which takes `extra_ns` of it; a frame of best
    effort keeps it for so long."""
    # A frame waits for those that were before it, and for all of a class above its own.
    classes = {load.traffic_class for load in loads}
    late = {
        number: _made_up_ns((load for load in loads if load.traffic_class > number), extra_ns)
        for number in classes
    }
    made_up_ns = _made_up_ns(loads, extra_ns)
    return Lag(late, None if made_up_ns is None else made_up_ns + best_effort_ns)


def _made_up_ns(loads: Iterable[Load], extra_ns: int) -> int | None:
    """In how long `extra_ns` more are sent beside the loads, from the worst time on."""
    loads = list(loads)
    if not loads:
        return extra_ns
    cycle = lcm(*{load.period_ns for load in loads})
    starts = sorted(
        ((load.offset_ns + shift) % cycle, load.takes_ns)
        for load in loads
        for shift in range(0, cycle, load.period_ns)
    )
    first, _ = starts[0]
    following = [*starts[1:], (first + cycle, 0)]
    # A busy time, and the pause after it: none where the next follows at once.
    turns = [
        (takes, then - at - takes) for (at, takes), (then, _) in zip(starts, following, strict=True)
    ]
    pauses_ns = sum(pause for _, pause in turns)
    if pauses_ns <= 0:
        return None
    cycles, left = divmod(extra_ns, pauses_ns)
    if not left:  # the last of the cycles ends with the pause that is the last one needed
        cycles, left = cycles - 1, pauses_ns
    longest = passed = made_up = end = 0
    for takes, pause in turns:
        # From this busy time on, through those up to `end` and the pauses behind them.
        while made_up < left:
            its_takes, its_pause = turns[end % len(turns)]
            passed += its_takes
            made_up += its_pause
            end += 1
        longest = max(longest, passed + left)
        passed -= takes
        made_up -= pause
    return cycles * cycle + longest
