"""Gate control lists of talkers' ports: what the talker sends at any time is kept back, best effort
and classes whose windows are given by share, nothing else.

A talker sends its scheduled frames when they are due, so that no gate has to hold them. Those of
scheduled classes are never shut: a frame that is sent too late leaves at once, where it would wait
for the window of another frame otherwise, and with it all that follow. Best effort is shut from a
guard band before each planned frame until that has left for sure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from cnc.model import GateControlList, Intent, Link
from cnc.planner.edges import cut, list_from_edges
from cnc.planner.ports import guard_band_ns, interval_min_ns


def talker_list(
    intent: Intent,
    link: Link,
    cycle_ns: int,
    frames: Iterable[tuple[int, int, int]],
    limit: int | None,
) -> GateControlList:
    """The list of one cycle around planned `frames`: from when, until when, and in which class.

    Where best effort would have more turns than fit into `limit` entries, it gets the longest.
    """
    unplanned = intent.unplanned_classes()
    everyone = sum(1 << c.number for c in intent.classes.values())
    shut = everyone - sum(1 << c.number for c in unplanned)
    shortest = interval_min_ns(link)
    guard = guard_band_ns(intent, link, unplanned)
    turns = [
        turn
        for start, end in _pauses(sorted(frames), guard, cycle_ns)
        if (turn := _clear_of_seam(start, end, cycle_ns, shortest))
    ]
    while True:
        times = [time for turn in turns for time in turn]
        states = [everyone, shut] * len(turns)
        gates = cut(list_from_edges(times or [0], states or [shut], cycle_ns), link)
        if not turns or limit is None or len(gates.entries) <= limit:
            return gates
        surplus = max(1, (len(gates.entries) - limit) // 2)  # a turn is two entries, or more
        turns = sorted(sorted(turns, key=_length_ns)[surplus:])


_Turn = tuple[int, int]  # best effort is open: from when, until when


def _pauses(
    frames: Sequence[tuple[int, int, int]], guard_ns: int, cycle_ns: int
) -> Iterator[_Turn]:
    """What is left for best effort between frames, none of which overlap."""
    opens, closes, number = frames[0]
    again = opens + cycle_ns, closes + cycle_ns, number
    for (_, end, _), (start, _, _) in pairwise([*frames, again]):
        yield end, start - guard_ns


def _clear_of_seam(start_ns: int, end_ns: int, cycle_ns: int, shortest_ns: int) -> _Turn | None:
    """A turn of which the end of the cycle cuts off no part that is too short for an entry, nor of
    the time beside it; None if none is left that is long enough."""
    phase = start_ns % cycle_ns
    if 0 < phase < shortest_ns:
        start_ns += shortest_ns - phase
    elif phase > cycle_ns - shortest_ns:
        start_ns += cycle_ns - phase
    phase = end_ns % cycle_ns
    if phase > cycle_ns - shortest_ns:
        end_ns -= phase - (cycle_ns - shortest_ns)
    elif phase < shortest_ns:
        end_ns -= phase
    return (start_ns, end_ns) if end_ns - start_ns >= shortest_ns else None


def _length_ns(turn: _Turn) -> int:
    start, end = turn
    return end - start
