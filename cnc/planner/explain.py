"""Why a stream cannot be placed, in the operator's words: where, how much, what would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import gcd, isqrt, lcm
from typing import NamedTuple

from cnc.mechanisms import terms
from cnc.mechanisms.terms import interference_ns
from cnc.model import Elimination, Forwarding, PortRef, Stream, Windows
from cnc.planner import jitter
from cnc.planner.capacity import Overload
from cnc.planner.circle import Circle
from cnc.planner.floor import floor, gate_margin, us
from cnc.planner.ports import CYCLE_MAX_NS
from cnc.planner.problem import Problem
from cnc.planner.route import Leg, Route
from cnc.planner.search import first_free
from cnc.planner.shares import Turns, percent
from cnc.planner.timetable import Resource, Timetable

INTERRUPTED = "had no place yet when the search was interrupted"
_NAMED_MAX = 8
LIST_FULL = (
    "its gate control list would exceed the limit of the port; plan again from scratch, which may "
    "leave gates open over small gaps"
)


def unreachable(talker: str, listeners: tuple[str, ...]) -> str:
    return f"no path from {talker} to {', '.join(listeners)}; add the missing link"


def _routes_meet(stream: Stream) -> str:
    """That the paths that an operator gives have a switch in common."""
    routes = " and ".join(" - ".join(route) for route in stream.routes)
    return (
        f"switches of a bridged network do not keep the routes {routes} apart: each sends a frame "
        "on by all ports of its filtering entry, so that copies would multiply where the routes "
        "meet before their last switch; give routes that share their first and their last switch "
        "alone"
    )


def no_second_path(stream: Stream, forwarding: Forwarding) -> str:
    ends = f"{stream.talker} to {', '.join(stream.listeners)}"
    if stream.routes:
        return _routes_meet(stream)
    if stream.elimination is Elimination.SWITCH and len(stream.listeners) > 1:
        return (
            f"no two paths from {ends} that end at the last switch before each listener: a switch "
            "that eliminates duplicates removes the R-TAG, so that no switch behind it can; choose "
            "elimination: listener, or a stream for each listener"
        )
    if forwarding is Forwarding.BRIDGED:
        return (
            f"no two disjoint paths from {ends}: in a bridged network paths may not meet before "
            "their last switch, since a bridge forwards a frame to every port of its filtering "
            "entry, and copies would multiply; add a link that closes a ring, or ask for one path"
        )
    return (
        f"no two paths from {ends} without a common link between "
        "switches; add a link that closes a ring, or ask for one path"
    )


def no_common_cycle(port: PortRef, period_ns: int, others_ns: int, cycle_ns: int) -> str:
    """That a stream and those beside it at a port, which repeat together every `others_ns`, do so
    together only every `cycle_ns`."""
    return (
        f"its period of {us(period_ns)} and that of the other streams at {port}, which repeat "
        f"together every {us(others_ns)}, meet only every {us(cycle_ns)}; a cycle lasts "
        f"{us(CYCLE_MAX_NS)} at most in the kernel. {_suiting(period_ns, {others_ns: 1})}"
    )


def excluded_together(streams: tuple[str, ...], *, beside_kept: bool = False) -> str:
    """That `streams` do not go together by this planner's rules, which say nothing of other plans;
    with `beside_kept`, where kept ones stay put."""
    beside = " beside the streams that are kept" if beside_kept else ""
    return (
        "By the rules of this planner no offsets on these routes carry these together"
        f"{beside}: {_named(streams)}. Each stream leaves a port at one time of its period, with "
        "its margins for itself alone and all its frames right behind each other: this is not a "
        "proof that no other plan carries them"
    )


def proved_overload(overload: Overload) -> str:
    """The sum that no plan can undercut on these routes."""
    shares = [f"{name} {float(share):.1%}" for name, share in overload.shares.items()]
    return (
        "It is proved that no offsets on these routes carry these together: their frames alone "
        f"take {float(sum(overload.shares.values())):.1%} of {overload.port} ({_named(shares)})"
    )


def _named(names: Sequence[str]) -> str:
    listed = ", ".join(names[:_NAMED_MAX])
    more = len(names) - _NAMED_MAX
    return f"{listed} and {more} more" if more > 0 else listed


def hopeless(problem: Problem, route: Route) -> str | None:
    """Why the stream would not even fit an empty network on this route, if so."""
    stream = problem.stream(route.member)
    if is_too_long(problem, route):
        return floor(problem, route).reason(problem.intent)
    if unsteady := _too_unsteady(problem, route):
        return unsteady
    from_talker = (problem.links[leg.link] for leg in route.legs if leg.parent is None)
    for link in from_talker:
        if reason := terms.impossible(problem.intent, stream, link):
            return reason
    longest = max(
        route.legs,
        key=lambda leg: max(leg.window_ns, leg.hold_ns + leg.max_ns - leg.min_ns),
    )
    taken = max(longest.window_ns, longest.hold_ns + longest.max_ns - longest.min_ns)
    if taken > route.period_ns:
        link = problem.links[longest.link]
        tick = f", a tick of {us(link.gate_tick_ns)}" if link.gate_tick_ns > 1 else ""
        tick += f", gates {us(link.gate_early_ns)} early" if link.gate_early_ns else ""
        what = "one frame takes" if stream.frames == 1 else f"its {stream.frames} frames take"
        return (
            f"{what} {us(taken)} of {link.source}{tick}, jitter and blocking included, "
            f"more than its period of {us(route.period_ns)}. A longer period, {_less(stream)} or "
            "a faster link would help"
        )
    return _without_share(problem, route) if problem.shares_ppb else None


def is_too_long(problem: Problem, route: Route) -> bool:
    """Whether the stream would be too late on this route even alone."""
    return route.least_latency_ns > problem.stream(route.member).max_latency_ns


def _without_share(problem: Problem, route: Route) -> str | None:
    """That best effort would keep less of a link than it is to, were the route alone there."""
    for leg, offset in zip(route.legs, route.offsets_ns, strict=True):
        alone = Turns(
            problem.intent, problem.links[leg.link], [(offset, leg.window_ns, route.period_ns)]
        )
        if alone.share_ppb() < problem.shares_ppb.get(leg.link, 0):
            before = ", even with no other stream in the network"
            stream = problem.stream(route.member)
            return _share_text(problem, leg.link, alone.share_ppb(), before, stream)
    return None


def _too_unsteady(problem: Problem, route: Route) -> str | None:
    """The reason if arrivals vary more than they may even where no frame waits: its components."""
    allowed = problem.stream(route.member).max_jitter_ns
    if allowed is None:
        return None
    intent, stream = problem.intent, problem.stream(route.member)
    network = intent.network
    for listener, least in jitter.least_ns(problem.links, route).items():
        if least <= allowed:
            continue
        link = next(
            link for leg in route.legs if (link := problem.links[leg.link]).target.node == listener
        )
        margin, own = network.lateness_ns(link.source.node), interference_ns(intent, link)
        control = problem.control_ns(link, stream)
        occupation = network.occupation_max_ns(link, stream.payload_octets)
        received = network.reception_max_ns(link, stream.payload_octets)
        by_rate = problem.delay_ns(link, stream) - own - margin - control
        by_rate += received - network.reception_min_ns(link, stream.payload_octets)
        nearer = occupation - network.occupation_min_ns(link, stream.payload_octets)
        by_rate += (stream.frames - 1) * nearer
        talker = network.end_stations.get(link.source.node)
        late, key = ("late gates", gate_margin(intent))
        if talker is not None and talker.lateness_ns is not None:
            late, key = ("lateness", talker.lateness_key)
        error = 2 * problem.clocks.between_ns(link.source.node, listener)
        rest = least - margin - own - control - error - by_rate
        parts = [
            (f"{late} {us(margin)} ({key})", margin),
            (
                f"best effort {'of the talker itself' if talker else 'that gives way'} {us(own)}",
                own,
            ),
            (f"control frames in the way {us(control)}", control),
            (f"clock error {us(error)}", error),
            (f"a link within 100 ppm of its rate {us(by_rate)}", by_rate),
            (
                f"gates of {link.source} that do not hold frames back to the nanosecond {us(rest)}",
                rest,
            ),
        ]
        return (
            f"arrives at {listener} within {us(least)} at best, max-jitter is {us(allowed)}. Of "
            f"this, {', '.join(text for text, part in parts if part)}. Raise max-jitter to "
            f"{us(least)} or lower one of these"
        )
    return None


def _less(stream: Stream) -> str:
    """What the talker could send instead."""
    return "a smaller payload" if stream.frames == 1 else "fewer or smaller frames"


class _Room(NamedTuple):
    """How much of a link, or of its queue, is left for one more stay: the sum of the starts that
    are free by themselves, and the longest free stretch."""

    starts_ns: int
    longest_ns: int


class _Place(NamedTuple):
    """Where a frame of `leg` stays on its way, for how long, and beside what."""

    room: _Room
    leg: Leg
    classes: tuple[int, ...]  # empty: on the link itself
    stay_ns: int
    rivals: Sequence[Resource]

    def load(self) -> float:
        return sum(others.load() for others in self.rivals)


def no_place(table: Timetable, route: Route) -> str:
    """No start of the talker's window is free: names the link or queue that leaves the fewest."""
    problem, period = table.problem, route.period_ns
    if too_little := _too_little_left(table, route):
        return too_little
    tightest = min(_places(table, route), key=lambda place: place.room)
    first, last = problem.window_ns(route.member)
    stream = problem.stream(route.member)
    helps = ["a longer period", _less(stream), "a faster link", "less clock error"]
    if last - first < period - 1:
        helps.insert(0, "a wider talker window")
    where, taken = str(problem.links[tightest.leg.link].source), "Scheduled frames already take"
    if tightest.classes:
        names = [c.name for c in problem.intent.classes.values() if c.number in tightest.classes]
        where = f"the queue of {' or '.join(names)} at {where}"
        taken = f"{_rule(table, route, tightest)}. The stays of others already take"
        helps[-2:] = ["another scheduled class", "less clock error or processing jitter"]
    may_share = stream.max_jitter_ns is None and not problem.given
    if stream.windows is Windows.EXACT and may_share:
        helps.append("`windows: auto`, with which frames share windows")
    if drifting := _drifting(route, tightest):
        return f"{drifting} on {where}. {_suiting(period, _apart_ns(tightest))}"
    slot = f"no free slot of {us(tightest.stay_ns)} every {us(period)}"
    if tightest.room.starts_ns:
        why = (
            f"{slot} for a talker that starts between {us(first)} and {us(last)}; the tightest "
            f"place is {where}: {tightest.room.starts_ns / period:.1%} of the period's starts "
            "are free there"
        )
    else:
        why = (
            f"{slot} on {where}, whenever the talker starts: the longest stretch free in every "
            f"period is {us(tightest.room.longest_ns)}"
        )
    load = tightest.load()
    return (
        f"{why}. {taken} {load:.0%} of the time; with this stream "
        f"{load + tightest.stay_ns / period:.0%}. What would help: {', '.join(helps[:-1])} or "
        f"{helps[-1]}"
    )


def _too_little_left(table: Timetable, route: Route) -> str | None:
    """That there is a place, where best effort would keep less of a link than its `min-share`."""
    placement = first_free(table, route) if table.problem.shares_ppb else None
    crowded = table.crowded(placement) if placement else []
    if placement is None or not crowded:
        return None

    def share_ppb(index: int) -> int:
        leg = route.legs[index]
        its = placement.offsets_ns[index], leg.window_ns, route.period_ns
        return table.turns(leg.link).share_ppb(*its)

    index = min(crowded, key=share_ppb)
    number = route.legs[index].link
    turns, stream = table.turns(number), table.problem.stream(route.member)
    before = f"; without this stream it keeps {percent(turns.share_ppb())}"
    return _share_text(table.problem, number, share_ppb(index), before, stream)


def _share_text(problem: Problem, link: int, share_ppb: int, before: str, stream: Stream) -> str:
    """What best effort would keep beside a stream, and what would help."""
    port = problem.links[link].source
    return (
        f"best effort would keep {percent(share_ppb)} of {port} in turns of its largest frame or "
        f"longer, its min-share is {percent(problem.shares_ppb[link])}"
        f"{before}. What would help: a smaller min-share, {_less(stream)}, a longer period, a "
        "smaller max-frame of best effort or a faster link"
    )


def _rule(table: Timetable, route: Route, place: _Place) -> str:
    """The rule of this planner that keeps the frame out of a queue."""
    links = table.problem.links
    by = {
        _parent_link(table.placements[member].route, place.leg.link)
        for rivals in place.rivals
        for member in rivals.reservations
    }
    own = _parent_link(route, place.leg.link)
    if by == {own} and own is not None:
        port = links[own].target
        apart = f"lets one frame at a time stay in a queue, even of those that arrive at {port}"
    else:
        apart = "never lets frames from two ingress ports share a queue at the same time"
    return (
        f"The planner {apart}, each from its earliest arrival on; the standard does not require "
        "that, so a plan may still exist"
    )


def _parent_link(route: Route, link: int) -> int | None:
    """The link by which the frames of a route come to the sender of `link`."""
    leg = next(leg for leg in route.legs if leg.link == link)
    return None if leg.parent is None else route.legs[leg.parent].link


def _drifting(route: Route, place: _Place) -> str | None:
    """Of two periods one of whose frames comes at every distance from one of the other's: that no
    distance is long enough."""
    period = route.period_ns
    needs = [
        (gcd(period, other), together, name, other)
        for name, other, together in _beside(place)
        if gcd(period, other) < together
    ]
    if not needs:
        return None
    step, together, name, other = min(needs)
    return (
        f"its period of {us(period)} and that of {name}, {us(other)}, have only {us(step)} in "
        f"common, so that its frames and those of {name} come within that of each other sooner or "
        f"later, whatever the offsets; both need {us(together)}"
    )


def _beside(place: _Place) -> Iterator[tuple[str, int, int]]:
    """The streams beside which a frame stays, their periods, and how long a frame of both takes."""
    for rivals in place.rivals:
        for member, (_, duration, period) in rivals.reservations.items():
            yield member.stream, period, duration + place.stay_ns


def _apart_ns(place: _Place) -> dict[int, int]:
    """By the periods of frames beside which one stays how long both take."""
    found: dict[int, int] = {}
    for _, other, together in _beside(place):
        found[other] = max(together, found.get(other, 0))
    return found


def _suiting(period_ns: int, apart_ns: Mapping[int, int]) -> str:
    """The period near that of a stream with which its frames keep a distance from those of other
    periods that is no less than stated, in a cycle that a kernel can run."""
    cycle_ns = lcm(*apart_ns)
    suiting = [
        near
        for step in _divisors(min(apart_ns))
        for near in {max(1, period_ns // step) * step, (period_ns // step + 1) * step}
        if lcm(cycle_ns, near) <= CYCLE_MAX_NS
        and all(gcd(near, other) >= least for other, least in apart_ns.items())
    ]
    if not suiting:
        return "No period of it suits theirs, which would have to be longer"
    nearest = min(suiting, key=lambda near: (abs(near - period_ns), near))
    return f"A period that suits theirs is {us(nearest)}"


@lru_cache(maxsize=64)
def _divisors(number: int) -> list[int]:
    """For periods up to 2.1 s in up to 46,000 steps."""
    low = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return low + [number // n for n in low]


def copies_apart(stream: Stream, enough_ns: int) -> str:
    """That no place was found for the two copies of a stream within its `max-jitter`, even with no
    other stream in the network, and with which there was one."""
    return (
        f"no place was found where its two copies arrive within {us(stream.max_jitter_ns or 0)} "
        "(max-jitter), even with no other stream in the network: the links, gates and clocks on "
        f"the two ways take more. Raise max-jitter to {us(enough_ns)}"
    )


def _places(table: Timetable, route: Route) -> Iterator[_Place]:
    """Every link of the route, and behind every gate the queue that has the most room."""
    period = route.period_ns
    classes = table.classes(route)
    for leg, offset in zip(route.legs, route.offsets_ns, strict=True):
        room = _room(table.others_on_link(route, leg), leg.window_ns)
        yield _Place(room, leg, (), leg.window_ns, [table.links[leg.link]])
        if leg.parent is not None:
            stay = offset + leg.hold_ns - route.offsets_ns[leg.anchor] - leg.min_ns
            queues = [table.rivals(route, leg, number) for number in classes]
            rooms = [(_room(_union(queue, period), stay), queue) for queue in queues]
            room, emptiest = max(rooms, key=lambda item: item[0])
            yield _Place(room, leg, classes, stay, emptiest)


def _union(resources: Sequence[Resource], period_ns: int) -> Circle:
    if len(resources) == 1:
        return resources[0].circle(period_ns)
    return Circle(period_ns, (r for its in resources for r in its.reservations.values()))


def _room(circle: Circle, stay_ns: int) -> _Room:
    length = circle.length_ns
    if not circle.starts:
        return _Room(length, length)
    following = [*circle.starts[1:], circle.starts[0] + length]
    gaps = [start - end for end, start in zip(circle.ends, following, strict=True)]
    return _Room(sum(max(0, gap - stay_ns + 1) for gap in gaps), max(gaps))
