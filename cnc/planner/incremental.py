"""Planning around a schedule that runs: what is kept does not move by a nanosecond."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import combinations
from math import gcd, lcm
from typing import NamedTuple, Protocol

from cnc.errors import InputError
from cnc.mechanisms.terms import given_windows, may_be_dropped, start_delay_ns
from cnc.model import (
    ClassRole,
    GateControlList,
    Hop,
    Intent,
    Link,
    Plan,
    PortRef,
    StreamPlan,
    TrafficClass,
)
from cnc.model.clock_error import ClockErrors
from cnc.planner.circle import Circle
from cnc.planner.gates import gate_control_lists
from cnc.planner.graph import Tree
from cnc.planner.ports import interval_max_ns
from cnc.planner.problem import Problem
from cnc.planner.route import Leg, Member, Placement
from cnc.planner.spare import without_spare_room

_FOUNDATIONS: Mapping[str, Callable[[Intent], object]] = {
    "clock error": lambda intent: (
        intent.network.clock_error_ns,
        intent.network.clock_error_neighbours_ns,
    ),
    "gate margin": lambda intent: intent.network.gate_margin_ns,
    "forwarding": lambda intent: intent.network.forwarding,
    "frame overhead": lambda intent: intent.network.overhead,
    "set of control classes": lambda intent: [
        _unnamed(its) for its in intent.classes_with(ClassRole.CONTROL)
    ],
}


def unchanged(intent: Intent, running: Plan) -> dict[str, StreamPlan]:
    """The streams of `running` that `intent` contains unchanged, on links that still exist.

    A stream whose requirements changed is a new one: it is placed again. Raises `InputError` where
    the figures differ on which every offset rests.
    """
    if what := other_foundation(intent, running):
        raise InputError(
            f"the running plan was made for another {what} than {intent.name} has now",
            hint="its offsets may no longer hold: plan again without --keep",
        )
    given = _given_otherwise(intent, running)
    return {
        name: planned
        for name, planned in running.streams.items()
        if name in intent.streams and _change(intent, running, name, given) is None
    }


def _given_otherwise(intent: Intent, running: Plan) -> frozenset[PortRef]:
    """The ports that have other windows than before that are given, beside which frames leave."""
    before, after = given_windows(running.intent), given_windows(intent)
    ports = before.keys() | after.keys()
    return frozenset(port for port in ports if before.get(port) != after.get(port))


def other_foundation(intent: Intent, running: Plan) -> str | None:
    """The first of the figures on which every offset rests that the two do not share."""
    for what, its_figure in _FOUNDATIONS.items():
        if its_figure(running.intent) != its_figure(intent):
            return what
    return None


def _change(intent: Intent, running: Plan, name: str, given: Collection[PortRef]) -> str | None:
    """What a stream of both rests on that has changed, in words; None if nothing has. `given` are
    the ports with other windows that are given."""
    before, after = running.intent, intent
    if one := _differing(before, after, name):
        return f"its {one} changed"
    if may_be_dropped(after, name) and not may_be_dropped(before, name):
        return "its policing changed"  # it may lie in the queue of its first switch sooner
    traffic_class = running.class_of(name)
    if _unnamed(traffic_class) not in map(_unnamed, after.classes.values()):
        return f"class {traffic_class.name} changed"
    hops = running.streams[name].hops
    if _clocks(before, hops) != _clocks(after, hops):
        return "what its clocks may differ changed"
    if port := next((hop.egress for hop in hops if hop.egress in given), None):
        return f"the windows that {port} is given changed"
    ports = (hop.egress for hop in hops)
    changed = next((port for port in ports if not _is_same(before, after, port)), None)
    return changed and f"{changed} changed"


def _clocks(intent: Intent, hops: Sequence[Hop]) -> list[int]:
    """What the clocks of all nodes that send frames of a stream, or get them, may differ. Another
    cable may have made their tree another one."""
    network = intent.network
    if network.clock_error_neighbours_ns is None:
        return []  # `_FOUNDATIONS` has it
    clocks, links = ClockErrors(network), network.links
    nodes = {hop.egress.node for hop in hops}
    nodes |= {links[hop.egress].target.node for hop in hops if hop.egress in links}
    return [clocks.between_ns(one, other) for one, other in combinations(sorted(nodes), 2)]


def _unnamed(traffic_class: TrafficClass) -> TrafficClass:
    """A class as ports know it. Its name is the operator's alone: another one moves no frame."""
    return replace(traffic_class, name="")


def _differing(before: Intent, after: Intent, name: str) -> str | None:
    """The field in which a stream of two intents differs first, in words."""
    one, other = (
        replace(
            intent.streams[name],
            traffic_classes=tuple(
                str(its.number) for its in intent.classes_of(intent.streams[name])
            ),
        )
        for intent in (before, after)
    )
    for field in fields(one):
        if getattr(one, field.name) != getattr(other, field.name):
            return field.name.removesuffix("_ns").removesuffix("_octets").replace("_", " ")
    return None


def _is_same(before: Intent, after: Intent, port: PortRef) -> bool:
    """Whether a port and the switch before it are what they were."""
    link, now = before.network.links[port], after.network.links.get(port)
    one, other = (intent.network.bridges.get(port.node) for intent in (before, after))
    if now is None or one is None or other is None:
        if link != now or one is not other:
            return False
        return start_delay_ns(before, link) == start_delay_ns(after, now)
    if _as_gated(before, link) != _as_gated(after, now):
        return False
    return (one.processing_min_ns, one.processing_max_ns, one.gate_mode) == (
        other.processing_min_ns,
        other.processing_max_ns,
        other.gate_mode,
    )


def _as_gated(intent: Intent, link: Link) -> Link:
    """A bridge's link with those limits on its list that may bind: a shorter list may let frames
    leave early, and offsets rest on that. A running list keeps its cycle. Guard bands move nobody.
    """
    return replace(
        link,
        gate_entries_max=intent.network.gate_entries_max(link) or 0,
        gate_interval_max_ns=interval_max_ns(link),
        gate_cycle_max_ns=0,
        fits_only=False,
    )


def placements(problem: Problem, kept: Mapping[str, StreamPlan]) -> dict[Member, Placement]:
    """The kept streams as the planner sees them."""
    return anew(problem, planned_placements(problem, kept))


def loose_ports(running: Plan, unlike: frozenset[PortRef] | None = None) -> frozenset[PortRef]:
    """The ports of a plan whose gates do not hold every frame back until its time: some of those
    with `unlike` lists."""
    loose = unlike_ports(running) if unlike is None else unlike
    links = {link.source: n for n, link in enumerate(Problem(running.intent, {}).links)}
    while True:
        problem = Problem(running.intent, {}, loose=loose)
        crossing: defaultdict[int, list[tuple[Placement, Leg, int]]] = defaultdict(list)
        for placement in planned_placements(problem, running.streams).values() if loose else ():
            for leg, offset in zip(placement.route.legs, placement.offsets_ns, strict=True):
                crossing[leg.link].append((placement, leg, offset))
        held = {
            port for port in loose if _holds(problem, running.gates[port], crossing[links[port]])
        }
        if not held:
            return loose
        loose -= held


def unlike_ports(running: Plan, planned: Collection[Placement] | None = None) -> frozenset[PortRef]:
    """The ports of a plan with another list than the planner would give them for these streams,
    which are where `planned` says, if it is to hold every frame back.

    Lists are compared without their spare room: how much of it there is depends on when frames come
    from ports before.
    """
    network = replace(running.intent.network, disturbance_ns=None)
    problem = Problem(replace(running.intent, network=network), {})
    if planned is None:
        planned = planned_placements(problem, running.streams).values()
    exact = gate_control_lists(problem, planned).lists
    best_effort = sum(1 << c.number for c in running.intent.classes_with(ClassRole.BEST_EFFORT))
    scheduled = sum(1 << c.number for c in running.intent.classes_with(ClassRole.SCHEDULED))
    return frozenset(
        port
        for port, its in running.gates.items()
        if (made := exact.get(port)) is None
        or (
            its != made
            and without_spare_room(its, scheduled, best_effort)
            != without_spare_room(made, scheduled, best_effort)
        )
    )


def _holds(
    problem: Problem, gates: GateControlList, crossing: Iterable[tuple[Placement, Leg, int]]
) -> bool:
    """Whether a list shuts out every frame from when it may lie in the queue until its time."""
    opened: defaultdict[int, list[_Span]] = defaultdict(list)
    begin = 0
    for entry in gates.entries:
        for number in range(entry.gate_states.bit_length()):
            if entry.gate_states >> number & 1:
                opened[number].append((begin, entry.interval_ns, gates.cycle_ns))
        begin += entry.interval_ns
    circles: dict[tuple[int, int], Circle] = {}
    for (route, offsets, number), leg, offset in crossing:
        if leg.parent is None:
            continue
        key = number, route.period_ns
        if key not in circles:
            circles[key] = Circle(route.period_ns, opened[number])
        comes = offsets[leg.anchor] + leg.min_ns
        early = offset % problem.links[leg.link].gate_tick_ns
        if offset - early > comes and circles[key].delay(comes, offset - early - comes) != 0:
            return False
    return True


def planned_placements(problem: Problem, kept: Mapping[str, StreamPlan]) -> dict[Member, Placement]:
    """Streams of a plan where they are, as if each gate held its frames back."""
    number = {link.source: index for index, link in enumerate(problem.links)}
    found = {}
    for name, planned in kept.items():
        for path, hops in enumerate(planned.paths if planned.has_instants else ()):
            member = Member(name, path)
            tree: Tree = tuple(number[hop.egress] for hop in hops)
            offsets = tuple(hop.offset_ns for hop in hops)
            found[member] = Placement(problem.route(member, tree), offsets, hops[0].traffic_class)
    return found


def anew(problem: Problem, kept: Mapping[Member, Placement]) -> dict[Member, Placement]:
    """Placements with the routes that `problem` gives them: its loose ports hold no frame back.

    Nor is a frame held back that lies in a queue while another may leave there, since it leaves in
    the other's stead where that is lost. So it is early from there on, and may meet others in turn.
    """
    held = {
        member: placement._replace(route=problem.route(member, placement.route.tree))
        for member, placement in kept.items()
    }
    early: set[Member] = set()
    while True:
        found = {
            member: _not_held(problem, placement) if member in early else placement
            for member, placement in held.items()
        }
        more = {
            one.member
            for one, other in _meetings(found.values())
            if one.member not in early and one.stays_when_leaves(other)
        }
        if not more:
            return found
        early |= more


def _not_held(problem: Problem, placement: Placement) -> Placement:
    route = problem.route(placement.route.member, placement.route.tree, held=False)
    start = placement.offsets_ns[0]
    if placement.offsets_ns != tuple(start + after for after in route.offsets_ns):
        # Others must not follow it: only of frames that never wait it is sure that none overtakes.
        route = replace(route, is_held=True)
    return placement._replace(route=route)


def conflicts(kept: Iterable[Placement], crossing: Collection[int]) -> set[frozenset[Member]]:
    """Who may lie in a queue together, each until it is to leave or surely there, although they
    come in by other ports, so that their order is not sure; and who follows a frame of another
    class too closely, which may start late where it was early: if any of both leaves a bridge by
    one of the links `crossing`."""
    if not crossing:
        return set()
    kept = tuple(kept)
    pairs = _too_close(kept) | {
        frozenset((one.member, other.member))
        for one, other in _meetings(kept)
        if one.ingress != other.ingress and _overlap(one.wait, other.wait)
    }
    concerned = {
        placement.route.member
        for placement in kept
        if not _bridge_links(placement).isdisjoint(crossing)
    }
    return {pair for pair in pairs if pair & concerned}


class _Present(Protocol):
    """What is there for some time in each period."""

    @property
    def start_ns(self) -> int: ...

    @property
    def end_ns(self) -> int: ...

    @property
    def period_ns(self) -> int: ...


class _Reservation(NamedTuple):
    """How long a link is reserved for a frame, or another of its class that may leave in its stead,
    with the seam to a frame of another class."""

    members: frozenset[Member]
    traffic_class: int
    start_ns: int
    end_ns: int
    period_ns: int


def _too_close(kept: Collection[Placement]) -> set[frozenset[Member]]:
    """Members of two classes of which the one may start where the other is due: the kept plan may
    have relied on gates, which now do not hold the one back, to keep them apart."""
    by_link: defaultdict[int, list[_Reservation]] = defaultdict(list)
    seams: defaultdict[int, int] = defaultdict(int)
    for route, _, _ in kept:
        for leg in route.legs:
            seams[leg.link] = max(seams[leg.link], leg.seam_ns)
    if not any(seams.values()):
        return set()
    # Another frame that is early may leave in its stead.
    instead: defaultdict[tuple[int, Member], set[Member]] = defaultdict(set)
    for one, other in _meetings(kept):
        if one.stays_when_leaves(other):
            instead[other.link, other.member].add(one.member)
    for route, offsets, number in kept:
        for leg, offset in zip(route.legs, offsets, strict=True):
            if leg.parent is not None and seams[leg.link]:
                others = frozenset(instead.get((leg.link, route.member), ()))
                seam = seams[leg.link] if others else leg.seam_ns
                end = offset + leg.gate_ns + seam
                each = _Reservation(others | {route.member}, number, offset, end, route.period_ns)
                by_link[leg.link].append(each)
    pairs = ((its[i], its[j]) for its in by_link.values() for i, j in _overlapping(its))
    return {
        one.members | other.members
        for one, other in pairs
        if one.traffic_class != other.traffic_class
    }


def _bridge_links(placement: Placement) -> frozenset[int]:
    """The links by which a placement leaves bridges."""
    return frozenset(leg.link for leg in placement.route.legs if leg.parent is not None)


_Span = tuple[int, int, int]  # start, duration and period


class _Stay(NamedTuple):
    """In a queue from the earliest arrival on, by `comes_ns` surely; the gate may be open from
    `leaves_ns` on."""

    member: Member
    link: int
    ingress: int
    start_ns: int
    leaves_ns: int
    comes_ns: int
    end_ns: int
    period_ns: int

    @property
    def wait(self) -> _Span:
        return self.start_ns, self.comes_ns + 1 - self.start_ns, self.period_ns

    def stays_when_leaves(self, other: _Stay) -> bool:
        """Whether it may be there while the gate is open for the other."""
        stay = self.start_ns, self.end_ns - self.start_ns, self.period_ns
        length = max(other.end_ns - other.leaves_ns, 1)
        return _overlap(stay, (other.leaves_ns, length, other.period_ns))


def _meetings(placed: Iterable[Placement]) -> Iterator[tuple[_Stay, _Stay]]:
    """Stays of different members that overlap in one queue, each pair in both orders."""
    queues: defaultdict[tuple[int, int], list[_Stay]] = defaultdict(list)
    for route, offsets, number in placed:
        for leg, offset in zip(route.legs, offsets, strict=True):
            if leg.parent is not None:
                ingress = route.legs[leg.parent].link
                start, end = offsets[leg.anchor] + leg.min_ns, offset + leg.hold_ns
                comes = offset + leg.spread_ns + leg.late_ns
                stay = _Stay(
                    route.member, leg.link, ingress, start, offset, comes, end, route.period_ns
                )
                queues[leg.link, number].append(stay)
    for queue in sorted(queues):
        stays = queues[queue]
        for one, other in sorted(_overlapping(stays)):
            yield stays[one], stays[other]
            yield stays[other], stays[one]


def _overlapping(stays: Sequence[_Present]) -> set[tuple[int, int]]:
    """The pairs of stays, by index, that overlap at any time."""
    cycle = lcm(*{stay.period_ns for stay in stays})
    longest = max(stay.end_ns - stay.start_ns for stay in stays)
    once = sorted(
        (start, start + stay.end_ns - stay.start_ns, index)
        for index, stay in enumerate(stays)
        for start in range(stay.start_ns % stay.period_ns, cycle, stay.period_ns)
    )
    again = ((start + cycle, end + cycle, n) for start, end, n in once if start < longest)
    pairs = set()
    present: list[tuple[int, int]] = []  # until when, and who
    for start, end, index in (*once, *again):
        present = [(until, other) for until, other in present if until > start]
        pairs |= {(min(index, other), max(index, other)) for _, other in present if other != index}
        present.append((end, index))
    return pairs


def _overlap(one: _Span, other: _Span) -> bool:
    """Whether two spans ever meet."""
    (start, duration, period), (its_start, its_duration, its_period) = one, other
    repeat = gcd(period, its_period)
    behind = (its_start - start) % repeat
    return behind < duration or repeat - behind < its_duration


class Move(NamedTuple):
    """A stream of two plans that does not keep its route, offsets, class and address, and why."""

    stream: str
    talker: str
    before: StreamPlan
    after: StreamPlan
    reason: str


def moves(running: Plan, plan: Plan) -> list[Move]:
    """What the talkers and listeners of a network notice when `plan` replaces `running`."""
    foundation = other_foundation(plan.intent, running)
    given = _given_otherwise(plan.intent, running)

    def reason(name: str) -> str:
        if foundation:
            return f"{foundation} changed"
        if change := _change(plan.intent, running, name, given):
            return change
        if running.addresses.get(name) != plan.addresses.get(name):
            return f"sent to {plan.addresses.get(name)}"
        return "planned again"

    return [
        Move(
            name,
            plan.intent.streams[name].talker,
            running.streams[name],
            planned,
            reason(name),
        )
        for name, planned in plan.streams.items()
        if name in running.streams
        and (
            running.streams[name].paths != planned.paths
            or running.addresses.get(name) != plan.addresses.get(name)
        )
    ]
