"""The ways of frames that may be late: what talkers send, and the gated ports that it crosses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cnc.mechanisms.terms import interference_ns, may_be_dropped
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
    from_talker: int | None  # the talker's link before it, where that is

    def behind(self, talker: Behind) -> Visit:
        """The same behind a talker whose link may be so far behind the plan."""
        late_ns = self.late_ns if self.is_dropped else talker.late_ns[self.traffic_class]
        return self._replace(late_ns=late_ns, fed_ns=talker.back_ns + self.way_ns)


def sendings(problem: Problem, placements: Iterable[Placement]) -> dict[int, list[Sending]]:
    """What talkers send, by their links."""
    found: defaultdict[int, list[Sending]] = defaultdict(list)
    for placement in placements:
        for link, sending in sendings_of(problem, placement):
            found[link].append(sending)
    return found


def sendings_of(problem: Problem, placement: Placement) -> Iterator[tuple[int, Sending]]:
    """What the talker of a placement sends, each with its link."""
    route, offsets, number = placement
    name = route.member.stream
    for leg, offset in zip(route.legs, offsets, strict=True):
        if leg.parent is None and not leg.is_copied:
            ahead = interference_ns(problem.intent, problem.links[leg.link])
            work = problem.busy_ns(name, leg.link) - ahead
            yield leg.link, Sending(name, number, route.period_ns, offset, work)


def visits_of(
    problem: Problem, placement: Placement, talkers: Mapping[int, Behind], first: int
) -> Iterator[Visit]:
    """Those of a placement from its talker on, numbered from `first` on; `talkers` has how far
    their links may be behind the plan."""
    route, offsets, number = placement
    name = route.member.stream
    dropped = may_be_dropped(problem.intent, name, problem.class_names[number])
    bridges = problem.intent.network.bridges
    visit_of: dict[int, tuple[int, int]] = {}  # by leg its number, and when it is gone
    for index, (leg, offset) in enumerate(zip(route.legs, offsets, strict=True)):
        if leg.parent is None:
            continue
        busy = problem.busy_ns(name, leg.link)
        arrival = offsets[leg.parent] + leg.max_ns + leg.late_ns
        latest = max(offset, arrival)
        late = back = 0
        before = from_talker = None
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
            busy - problem.start_delay_ns(leg.link),
            before,
            way,
            back + way if before is None else 0,
            leg.spread_ns,
            late,
            dropped,
            from_talker,
        )
        visit_of[index] = first + len(visit_of), latest + busy
