"""The ways of frames that may be late: what talkers send, and the gated ports that it crosses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cnc.mechanisms.terms import interference_ns, may_be_dropped, start_delay_ns
from cnc.planner.pauses import Behind, Sending
from cnc.planner.problem import Problem
from cnc.planner.route import Placement


class Visit(NamedTuple):
    """The frames of each period of a placement on one gated link; `parent` is the visit before, if
    that is gated."""

    stream: str
    link: int
    traffic_class: int
    period_ns: int
    earliest_ns: int
    latest_ns: int  # when it is planned to leave, or the latest arrival if that is after it
    gone_ns: int
    wire_ns: int
    parent: int | None
    way_ns: int  # from `gone_ns` on the port before to the latest arrival of any frame here
    fed_ns: int  # after a late frame of its talker, until the last that it delays comes from there
    spread_ns: int  # how much later than the first of its frames the last has its turn
    late_ns: int  # how late it may come from its talker, after a frame that is late there
    is_dropped: bool  # by the first switch, if it comes otherwise than planned


def sendings(problem: Problem, placements: Iterable[Placement]) -> dict[int, list[Sending]]:
    """What talkers send, by their links."""
    found: defaultdict[int, list[Sending]] = defaultdict(list)
    ahead = [interference_ns(problem.intent, link) for link in problem.links]
    for route, offsets, number in placements:
        name = route.member.stream
        for leg, offset in zip(route.legs, offsets, strict=True):
            if leg.parent is None and not leg.is_copied:
                work = problem.busy_ns(name, leg.link) - ahead[leg.link]
                found[leg.link].append(Sending(name, number, route.period_ns, offset, work))
    return found


def visits(
    problem: Problem, placements: Iterable[Placement], talkers: Mapping[int, Behind]
) -> Iterator[Visit]:
    """Those of each placement from its talker on; `talkers` has how far their links may be behind
    the plan."""
    delays = [start_delay_ns(problem.intent, link) for link in problem.links]
    count = 0
    class_name = {its.number: its.name for its in problem.intent.classes.values()}
    bridges = problem.intent.network.bridges
    for route, offsets, number in placements:
        name = route.member.stream
        dropped = may_be_dropped(problem.intent, name, class_name[number])
        visit_of: dict[int, tuple[int, int]] = {}  # its number, and when it is gone
        for index, (leg, offset) in enumerate(zip(route.legs, offsets, strict=True)):
            if leg.parent is None:
                continue
            busy = problem.busy_ns(name, leg.link)
            arrival = offsets[leg.parent] + leg.max_ns + leg.late_ns
            latest = max(offset, arrival)
            late = back = 0
            before = None
            if leg.parent in visit_of:
                before, before_gone = visit_of[leg.parent]
            else:
                from_talker = route.legs[leg.parent].link
                before_gone = offsets[leg.parent] + problem.busy_ns(name, from_talker)
                back = talkers[from_talker].back_ns
                late = talkers[from_talker].late_ns[number]
                if dropped:  # what the filter lets pass last is in the queue so much later
                    late = bridges[problem.links[leg.link].source.node].processing_max_ns
            way = arrival + leg.spread_ns - before_gone
            yield Visit(
                name,
                leg.link,
                number,
                route.period_ns,
                offsets[leg.anchor] + leg.min_ns,
                latest,
                latest + busy,
                busy - delays[leg.link],
                before,
                way,
                back + way if before is None else 0,
                leg.spread_ns,
                late,
                dropped,
            )
            visit_of[index] = count, latest + busy
            count += 1
