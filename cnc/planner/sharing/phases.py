"""By how much windows are moved to later, so that frames neither wait long nor come too early.

A frame that comes before the window of its slot waits, which is no loss; but if it comes before the
window of the slot before has shut, it counts there as well. How far windows of successive links may
be moved against each other is a system of differences, which has a solution unless some of them
contradict each other around a ring (Cormen, Leiserson, Rivest, Stein: Introduction to Algorithms,
section 22.4). Then the difference is left out by which fewest frames are early: they are added one
by one, those of most frames first, each to a solution of all before (Cotton, Maler: Fast and
Flexible Difference Constraint Propagation for DPLL(T). SAT 2006).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from heapq import heappop, heappush
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
    """The window of a link is moved by at least as much as another one is, less `less_ns`."""

    link: int
    less_ns: int


_ORIGIN = -1  # the link of what cannot be moved


def apart(
    links: Collection[int], bounds: Sequence[Apart], pinned: Mapping[int, int]
) -> dict[int, int]:
    """By how much to move the window of each link, in ns: no further than some are `pinned`."""
    later_ns = dict.fromkeys((_ORIGIN, *links), 0)
    following: defaultdict[int, list[_Least]] = defaultdict(list)
    for link, most_ns in pinned.items():
        following[link].append(_Least(_ORIGIN, most_ns))
    for its in bounds:
        following[its.before].append(_Least(its.link, its.slack_ns))
    # Nothing need be moved so far.
    for its in sorted(bounds, key=lambda its: -its.work_ns):
        least = _Least(its.before, its.room_ns)
        more_ns = _more_ns(later_ns, following, its.link, least)
        if more_ns is not None:
            following[its.link].append(least)
            for link, ns in more_ns.items():
                later_ns[link] += ns
    feeding = {its.before for its in bounds}
    for link in reversed(tuple(links)):
        if link in feeding:
            later_ns[link] = min(later_ns[most.link] + most.less_ns for most in following[link])
    return {link: later_ns[link] for link in links}


def _more_ns(
    later_ns: Mapping[int, int],
    following: Mapping[int, Sequence[_Least]],
    other: int,
    least: _Least,
) -> dict[int, int] | None:
    """By how much more windows are to be moved, by link, if that of a link is to follow `other`,
    too; None if that contradicts what they follow so far.

    The link that is to be moved most is next, so that none is to be moved further after its turn.
    """
    found: dict[int, int] = {}
    more_ns = {least.link: later_ns[other] - least.less_ns - later_ns[least.link]}
    waiting = [(-ns, link) for link, ns in more_ns.items() if ns > 0]
    while waiting:
        _, moved = heappop(waiting)
        if moved in found:
            continue
        found[moved] = more_ns[moved]
        for link, less_ns in following[moved]:
            ns = later_ns[moved] + found[moved] - less_ns - later_ns[link]
            if ns <= more_ns.get(link, 0):
                continue
            if link in (other, _ORIGIN):
                return None
            more_ns[link] = ns
            heappush(waiting, (-ns, link))
    return found
