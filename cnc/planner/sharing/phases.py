"""By how much windows are moved to later, so that frames neither wait long nor come too early.

A frame that comes before the window of its slot waits, which is no loss; but if it comes before the
window of the slot before has shut, it counts there as well. How far windows of successive links may
be moved against each other is a system of differences, which has a solution unless some of them
contradict each other around a ring (Cormen, Leiserson, Rivest, Stein: Introduction to Algorithms,
section 22.4). Then the difference is left out by which fewest frames are early.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple


class Apart(NamedTuple):
    """Frames come from the link `before` to the link `link`: the window of the first may be moved
    by `slack_ns` before that of the second is, and that of the second by `room_ns` before that of
    the first has to be. `work_ns` is what they take of the second."""

    before: int
    link: int
    slack_ns: int
    room_ns: int
    work_ns: int


class _Least(NamedTuple):
    """The window of a link is moved by at least as much as that of another, less `less_ns`."""

    link: int
    other: int
    less_ns: int
    cost_ns: int | None  # of leaving it out, where that is possible


_ORIGIN = -1  # the link of what cannot be moved
_STEPS = 16  # after so many differences that follow from each other, see whether they go around


def apart(
    links: Collection[int], bounds: Sequence[Apart], pinned: Mapping[int, int]
) -> dict[int, int]:
    """By how much to move the window of each link, in ns: no further than some are `pinned`."""
    leasts = [_Least(_ORIGIN, link, most_ns, None) for link, most_ns in pinned.items()]
    for before, link, slack_ns, room_ns, work_ns in bounds:
        leasts.append(_Least(link, before, slack_ns, None))
        leasts.append(_Least(before, link, room_ns, work_ns))
    left_out: set[int] = set()
    while True:
        later_ns, circle = _solved(links, leasts, left_out)
        if not circle:
            break
        costs = {n: cost for n in circle if (cost := leasts[n].cost_ns) is not None}
        if not costs:
            return {}
        left_out.add(min(costs, key=lambda n: (costs[n], n)))
    mosts: defaultdict[int, list[_Least]] = defaultdict(list)
    for number, least in enumerate(leasts):
        if number not in left_out:
            mosts[least.other].append(least)
    feeding = {its.before for its in bounds}
    for link in reversed(tuple(links)):
        if link in feeding:
            later_ns[link] = min(later_ns[most.link] + most.less_ns for most in mosts[link])
    return {link: later_ns[link] for link in links}


def _solved(
    links: Collection[int], leasts: Sequence[_Least], left_out: Collection[int]
) -> tuple[dict[int, int], list[int]]:
    """The least moves, or the numbers of those that contradict each other."""
    found_ns = dict.fromkeys((_ORIGIN, *links), 0)
    because: dict[int, int] = {}
    depending: defaultdict[int, list[int]] = defaultdict(list)
    for number, its in enumerate(leasts):
        if number not in left_out:
            depending[its.other].append(number)
    waiting, queued = deque(links), set(links)
    steps: dict[int, int] = dict.fromkeys(found_ns, 0)
    while waiting:
        other = waiting.popleft()
        queued.discard(other)
        for number in depending[other]:
            link, _, less_ns, _ = leasts[number]
            least_ns = found_ns[other] - less_ns
            if least_ns <= found_ns[link]:
                continue
            found_ns[link] = least_ns
            because[link] = number
            steps[link] = steps[other] + 1
            if link == _ORIGIN or steps[link] % _STEPS == 0:
                way, is_circle = _way(leasts, because, link)
                if is_circle or link == _ORIGIN:
                    return found_ns, way
            if link not in queued:
                queued.add(link)
                waiting.append(link)
    return found_ns, []


def _way(leasts: Sequence[_Least], because: Mapping[int, int], link: int) -> tuple[list[int], bool]:
    """The differences from which that of a link follows; those that lead around, if some do."""
    seen: dict[int, int] = {}
    way: list[int] = []
    while link in because:
        if link in seen:
            return way[seen[link] :], True
        seen[link] = len(way)
        way.append(because[link])
        link = leasts[because[link]].other
    return way, False
