"""What every algorithm is given: the intent as numbers, with the times of each hop added up.

The model of a hop: a frame planned for `o` starts in [o, o + delay]; delay is what a control frame
already under way and the sender's own margin can cost. It lies in the next queue at the earliest
reception + propagation + least processing - clock error after it left, at the latest delay +
reception + propagation + greatest processing + clock error after `o`.

A stream may send several frames back to back in a period. They keep the link for the sum of their
times, and delay then also counts what control takes between them. As switches store and forward
each frame, the next hop may begin while frames are still on their way: it is planned so that each
frame is there when its turn comes, which the first or the last of them decides. What is earliest
is that of the first.

A port holds each frame back to its planned time, unless it is *loose*: there the gate stays open
longer than the frames need, to fit the port's list limit, and a frame may leave as soon as it lies
in the queue. What is earliest is then counted from the last port that did hold it. A route that is
not *held* counts so at every port: its frames need not be alone in a queue with frames that came in
by the same port, of which one may then leave at another's time.

A hop that is planned for that latest time waits out one clock error. Where the latency of a stream
has no room for all of them, some of its hops are *late*: they are planned one clock error sooner
and keep the link for so much longer, since the frame may come that much after its planned start.
Any two clocks differ by one clock error at most, so that it does not add up over late hops. Where
clocks differ by their hops in the clock tree, it is the greatest between this bridge and those that
the frame may have been late from: then late hops are the last ones of a way, since a hop behind
them would wait out as much.

Where gates change at multiples of a tick only, a window opens up to a tick early and closes up to a
tick late: a frame may leave that much too soon, and the link is reserved for so much longer. So it
is where gates are early for reasons of their port: they may close early as well, so that a window
lasts so much longer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import gcd
from typing import Any, NamedTuple
from zlib import crc32

from cnc.mechanisms.terms import (
    added_octets,
    client_octets,
    control_ahead_ns,
    control_between_ns,
    given_windows,
    may_be_dropped,
    start_delay_ns,
)
from cnc.model import (
    ClassRole,
    GivenWindow,
    Hop,
    Intent,
    Link,
    PortRef,
    Stream,
    StreamPlan,
)
from cnc.model.clock_error import ClockErrors
from cnc.planner import jitter
from cnc.planner.copies import talkers_with_one_link
from cnc.planner.graph import Tree
from cnc.planner.ports import interval_min_ns, seam_ns
from cnc.planner.route import Leg, Member, Placement, Route
from cnc.planner.routing import Router
from cnc.planner.shares import WHOLE_PPB, wanted_ppb

# What holds whatever the streams are, or by what their frames are like.
_OF_NETWORK = {
    "links",
    "shares_ppb",
    "given",
    "clocks",
    "class_names",
    "_copied_by_switches",
    "_start_delays_ns",
    "_loose_links",
    "_hop_times",
    "_kinds",
    "_shapes",
}
_KNOWN_MAX = 1 << 16  # of hops, of routes, at once: streams that come choose what frames are like
_CLASSES_TO_PACE = 3  # with fewer, frames of all sizes get in each other's way in the queue


@dataclass(frozen=True)
class Problem:
    """Streams of an intent to place, and what is already decided about it.

    `trees` are the paths of each stream that is to be placed; where one is full, `detour` may find
    another. `kept` are placements that must not change by a nanosecond; `loose` the ports whose
    lists are too short to hold every frame back. `other_periods_ns` are those of streams that have
    a place and are not in the intent, which may have only those that are to be placed.
    """

    intent: Intent
    trees: Mapping[str, tuple[Tree, ...]]
    kept: Mapping[Member, Placement] = field(default_factory=dict)
    loose: frozenset[PortRef] = frozenset()
    seed: int = 1
    router: Router | None = None
    other_periods_ns: frozenset[int] = frozenset()

    def only(
        self,
        streams: Mapping[str, Stream],
        trees: Mapping[str, tuple[Tree, ...]],
        other_periods_ns: frozenset[int],
    ) -> Problem:
        """The same network with some streams to place, and none that is kept. Nothing that is done
        for a few streams may take as long as the network is large: what is known of it stays."""
        intent = replace(self.intent, streams=streams)
        found = replace(
            self, intent=intent, trees=trees, kept={}, other_periods_ns=other_periods_ns
        )
        found.__dict__.update(
            (its, self.__dict__[its]) for its in _OF_NETWORK & self.__dict__.keys()
        )
        return found

    @cached_property
    def links(self) -> Sequence[Link]:
        if self.router:
            return self.router.links
        return tuple(self.intent.network.links[port] for port in sorted(self.intent.network.links))

    @cached_property
    def shares_ppb(self) -> Mapping[int, int]:
        """By link the share of the cycle that best effort is to keep, in parts of 10^9, where the
        intent states one."""
        wanted = ((n, wanted_ppb(self.intent, link)) for n, link in enumerate(self.links))
        return {number: share_ppb for number, share_ppb in wanted if share_ppb}

    @cached_property
    def given(self) -> Mapping[int, tuple[GivenWindow, ...]]:
        """By link the windows that classes have by share, beside which frames are planned."""
        by_port = given_windows(self.intent)
        sources = (link.source for link in self.links)
        return {n: by_port[port] for n, port in enumerate(sources) if port in by_port}

    def reserve_ns(self, traffic_class: int, slot_ns: int) -> int:
        """For how long windows that frames of a class share in each slot last beyond what they
        need."""
        its = next(c for c in self.intent.classes.values() if c.number == traffic_class)
        return its.reserve_ppb * slot_ns // WHOLE_PPB

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """What is to be placed."""
        return tuple(
            Member(name, path) for name, trees in self.trees.items() for path in range(len(trees))
        )

    def stream(self, member: Member) -> Stream:
        return self.intent.streams[member.stream]

    def starts_with_copy(self, member: Member) -> bool:
        """Whether the path starts with the frame of the stream's first path, of which a switch
        makes the second copy."""
        return member.path > 0 and self.stream(member).talker in self._copied_by_switches

    @cached_property
    def _copied_by_switches(self) -> frozenset[str]:
        return talkers_with_one_link(self.intent.network)

    def window_ns(self, member: Member) -> tuple[int, int]:
        """The first and the last moment of its period at which the talker may start.

        A window that ends with the period ends before the next begins: a talker is told an offset
        within the period (yang/tsn-end-station.yang).
        """
        stream = self.stream(member)
        end = stream.period_ns - 1
        return stream.earliest_ns, end if stream.latest_ns is None else min(stream.latest_ns, end)

    def beat_ns(self, period_ns: int) -> int:
        """The shortest period of any stream that divides `period_ns`."""
        return next(beat for beat in self._periods if period_ns % beat == 0)

    def slot_ns(self, names: Collection[str], others_ns: Collection[int] = ()) -> int:
        """The longest time that all periods of some streams, and others, are multiples of."""
        return gcd(*(self.intent.streams[name].period_ns for name in names), *others_ns)

    def class_numbers(self, name: str) -> tuple[int, ...]:
        """Numbers of the classes that a stream may have, the first to try first."""
        return self._class_numbers[self.intent.streams[name].traffic_classes]

    @cached_property
    def _periods(self) -> list[int]:
        own = {
            its.period_ns for its in self.intent.streams.values() if self.intent.has_instants(its)
        }
        return sorted(own | self.other_periods_ns)

    def classes(self, route: Route) -> tuple[int, ...]:
        """Numbers of the classes the member may use, the first to try first.

        Across a loose port all use one class: only windows of one class can be merged. A stream
        with two paths uses one class on both.
        """
        stream = self.stream(route.member)
        numbers = self._class_numbers[stream.traffic_classes]
        if stream.paths > 1 and self.loose:
            return numbers[:1]
        if any(leg.link in self._loose_links for leg in route.legs if leg.parent is not None):
            return numbers[:1]
        return numbers

    @cached_property
    def pays_to_pace(self) -> bool:
        """Whether there are queues enough for frames to wait at each bridge as paced ones do."""
        return min(map(len, self._class_numbers.values()), default=0) >= _CLASSES_TO_PACE

    def route(self, member: Member, tree: Tree, *, paced: bool = False, held: bool = True) -> Route:
        """The legs of `member` over `tree`.

        A paced frame waits at each bridge as long as the longest frame takes to get there. Frames
        of all sizes then move along at one speed: those that share several links either meet on
        the first of them or never, and gaps stay as they are from link to link. Where that takes
        longer than the stream allows, the route is not paced; where even that takes longer, as many
        of its hops are late as bring it within the allowed time, if that is possible. A frame that
        is sent over another path as well, within a stated jitter, waits for it at the last bridge.
        """
        max_jitter_ns = self.stream(member).max_jitter_ns
        if max_jitter_ns is not None and held and len(self.trees.get(member.stream, ())) > 1:
            return self._in_step(member, tree, max_jitter_ns)
        if paced:
            route = self._route(member, tree, self._longest_frame, held=held)
            if route.least_latency_ns <= self.stream(member).max_latency_ns:
                return route
        return self._unpaced(member, tree, held=held)

    def _unpaced(self, member: Member, tree: Tree, *, held: bool) -> Route:
        key = member, tree, held
        if key not in self._routes:
            self._routes[key] = self._in_time(self._route(member, tree, None, held=held))
        return self._routes[key]

    def _in_step(self, member: Member, tree: Tree, max_jitter_ns: int) -> Route:
        """The route beside the first that the stream's other path may have."""
        other = member._replace(path=1 - member.path)
        other_tree = self.trees[member.stream][other.path]
        route, beside = (
            self._unpaced(its, its_tree, held=True)
            for its, its_tree in ((member, tree), (other, other_tree))
        )
        return jitter.in_step(self.links, route, beside, max_jitter_ns)

    def quickest(self, member: Member, tree: Tree) -> Route:
        """The route with every hop late: no offsets that the judge accepts are nearer together."""
        return self._route(member, tree, None, held=True, late=range(1, len(tree) + 1))

    def _in_time(self, route: Route) -> Route:
        """The route with as few late hops as its stream needs to be in time; with all late if
        that is not enough."""
        network = self.intent.network
        error = network.clock_error_ns
        excess = route.least_latency_ns - self.stream(route.member).max_latency_ns
        hops = route.hops_max
        if excess <= 0 or not error or not hops:
            return route
        # Spread over the way, for each stream from another hop on: every late hop takes link time.
        first = crc32(route.member.stream.encode())
        for count in range(min(hops, -(-excess // error)), hops + 1):
            if network.clock_error_neighbours_ns is None:
                late = [1 + (first + step * hops // count) % hops for step in range(count)]
            else:
                late = list(range(hops - count + 1, hops + 1))
            found = self._route(route.member, route.tree, None, held=route.is_held, late=late)
            if found.least_latency_ns - route.least_latency_ns <= -excess:
                break
        return found

    def prices_ns(self, stream: str) -> list[int]:
        """For each link the time that a frame of the stream needs, at most, to the next queue."""
        its = self.intent.streams[stream]
        added = added_octets(its)
        between = self.clocks.between_ns
        return [
            self._hop(number, its, added).max_ns + between(link.source.node, link.target.node)
            for number, link in enumerate(self.links)
        ]

    def busy_ns(self, stream: str, link: int) -> int:
        """How long no other stream may use the link, for any planner: the window of a leg without
        what this planner adds to it for ticks and for the shortest gate interval."""
        its = self.intent.streams[stream]
        return self._hop(link, its, added_octets(its)).busy_ns

    def detour(self, member: Member, *, paced: bool = False) -> Route | None:
        """A route away from the fullest link of the stream's tree, if it has one tree only: two
        must stay disjoint."""
        stream = self.stream(member)
        if self.router is None or stream.paths > 1:
            return None
        tree = self.router.detour(stream, self.trees[member.stream][0])
        if tree is None:
            return None
        route = self.route(member, tree, paced=paced)
        return route if route.least_latency_ns <= stream.max_latency_ns else None

    def _route(
        self,
        member: Member,
        tree: Tree,
        pace: Stream | None,
        *,
        held: bool,
        late: Collection[int] = (),
    ) -> Route:
        """`late` are the numbers of hops, counted from the talker's link as 0, that are late.

        Frames alike take the same times on all ways over links alike, one behind the other.
        """
        stream = self.stream(member)
        if pace or late or len(stream.listeners) > 1 or self.clocks.same_ns is None:
            return self._computed_route(member, tree, pace, held=held, late=late)
        alike = (
            tuple(self._kinds[number] for number in tree),
            (stream.payload_octets, added_octets(stream), stream.frames),
            self.ahead_of_talker_ns(tree[0], stream),
            stream.max_jitter_ns is None,
            self.starts_with_copy(member),
            held,
        )
        shape = self._shapes.get(alike)
        if shape is None:
            if len(self._shapes) >= _KNOWN_MAX:
                self._shapes.clear()  # which another thread may do, too (`Live.prepare`)
            route = self._computed_route(member, tree, None, held=held)
            times = [leg[1:] for leg in route.legs]
            shape = self._shapes[alike] = times, route.offsets_ns, route.least_latency_ns
        times, offsets, latency = shape
        legs = tuple(Leg(link, *its) for link, its in zip(tree, times, strict=True))
        return Route(member, stream.period_ns, legs, offsets, latency, held)

    def _computed_route(
        self,
        member: Member,
        tree: Tree,
        pace: Stream | None,
        *,
        held: bool,
        late: Collection[int] = (),
    ) -> Route:
        stream = self.stream(member)
        added = added_octets(stream)
        inbound: dict[str, int] = {}
        legs: list[Leg] = []
        offsets: list[int] = []
        ways: list[_Way] = []
        for index, number in enumerate(tree):
            link = self.links[number]
            hop = self._hop(number, stream, added)
            parent = inbound.get(link.source.node)
            anchor, least, greatest, window, edge, offset = index, 0, 0, hop.window_ns, 0, 0
            early_here = depth = late_here = seam = 0
            due: tuple[str, ...] = (link.source.node,)
            if parent is not None:
                depth = ways[parent].depth + 1
                error = self.clocks.most_ns(ways[parent].due, link.source.node)
                if depth in late:
                    late_here, due = error, (*ways[parent].due, *due)
                before = self._hop(tree[parent], stream, added)
                # The frames fall behind each other where the link before is the slower one.
                greatest = before.max_ns + max(0, before.spread_ns - hop.spread_ns)
                if pace is not None:
                    paced = self._hop(tree[parent], pace, added_octets(pace))
                    greatest = max(greatest, paced.max_ns)
                greatest += error - late_here
                passed = parent if legs[parent].parent is None else legs[parent].anchor
                anchor = parent if held and tree[parent] not in self._loose_links else passed
                early_here = before.min_ns + (ways[parent].early_ns if anchor != parent else 0)
                if legs[parent].parent is None:
                    early_here -= self.ahead_of_talker_ns(tree[parent], stream)
                least = early_here - self._apart_ns(tree, anchor, index)
                edge = interval_min_ns(link)
                window = max(window + late_here, edge)
                if number in self._loose_links or not held:
                    seam = self._seam_ns(link)
                offset = offsets[parent] + greatest
            # On a loose port until the last frame has surely come: frames that come at one instant
            # have no order.
            comes = hop.spread_ns + late_here
            hold = comes + 1 if number in self._loose_links else window + edge
            window += seam
            times = least, greatest, window, hold, None, edge, late_here, seam
            is_copied = parent is None and self.starts_with_copy(member)
            leg = Leg(number, parent, anchor, *times, is_copied, hop.spread_ns)
            if link.target.node in stream.listeners:
                is_held = parent is None or (held and number not in self._loose_links)
                steady = index if is_held else anchor
                leg = self._delivering(leg, tree, stream, due=due, steady=steady)
            legs.append(leg)
            ways.append(_Way(depth, early_here, due))
            offsets.append(offset)
            inbound[link.target.node] = index
        least_latency = max(
            offset + leg.delivery_ns
            for offset, leg in zip(offsets, legs, strict=True)
            if leg.delivery_ns is not None
        )
        return Route(member, stream.period_ns, tuple(legs), tuple(offsets), least_latency, held)

    def _delivering(
        self,
        leg: Leg,
        tree: Tree,
        stream: Stream,
        *,
        due: tuple[str, ...],
        steady: int,
    ) -> Leg:
        """A leg to a listener, with when the last bit comes at the latest by its clock and by the
        talker's, if the frame is sent as planned by one of the clocks `due`; and, where jitter is
        limited, with when that of the first frame comes at the earliest after the leg `steady`."""
        between, link = self.clocks.between_ns, self.links[leg.link]
        hop, target = self._hop(leg.link, stream, added_octets(stream)), link.target.node
        by_listener = self.clocks.most_ns(due, target)
        by_talker = max(self.clocks.most_ns(due, stream.talker) - by_listener, 0)
        leg = leg._replace(delivery_ns=hop.delivery_ns + by_listener + by_talker)
        if stream.max_jitter_ns is None:
            return leg
        first, sender = hop.arrival_ns, self._sender(tree, steady)
        if sender != link.source.node:
            first = leg.min_ns + between(sender, link.source.node) + hop.in_turn_min_ns
        first -= between(sender, target)
        return leg._replace(steady_leg=steady, arrival_ns=first, by_talker_ns=by_talker)

    @cached_property
    def clocks(self) -> ClockErrors:
        """How far any two clocks of the network may differ."""
        return ClockErrors(self.intent.network)

    def _apart_ns(self, tree: Tree, one: int, other: int) -> int:
        """How far the clocks of the nodes of two legs may differ."""
        return self.clocks.between_ns(self._sender(tree, one), self._sender(tree, other))

    def _sender(self, tree: Tree, index: int) -> str:
        """The node of a leg."""
        return self.links[tree[index]].source.node

    def _seam_ns(self, link: Link) -> int:
        """How long before another class's frame a gate shuts that may let early frames through."""
        is_alone = len(self.intent.classes_with(ClassRole.SCHEDULED)) == 1
        return (
            0 if is_alone or not self.intent.network.gate_margin_ns else seam_ns(self.intent, link)
        )

    def ahead_of_talker_ns(self, number: int, stream: Stream) -> int:
        """How much sooner than other frames those from a talker may be in the queue behind its
        link: without a tag they come sooner; and where what comes too soon is dropped, what is not
        may be there as soon as the filter opens."""
        network, link = self.intent.network, self.links[number]
        sooner_ns = 0
        if stream.identification:
            sooner_ns = network.untagged_lead_ns(link, stream.payload_octets)
        bridge = network.bridges.get(link.target.node)
        if bridge and may_be_dropped(self.intent, stream.name):
            sooner_ns += bridge.processing_min_ns
        return sooner_ns

    def _hop(self, number: int, stream: Stream, added: int) -> _HopTimes:
        """`added` are the octets that mechanisms add to the stream's frames."""
        key = self._kinds[number], stream.payload_octets, added, stream.frames
        found = self._hop_times.get(key)
        if found is None:
            if len(self._hop_times) >= _KNOWN_MAX:
                self._hop_times.clear()  # which another thread may do, too (`Live.prepare`)
            found = self._hop_times[key] = self._compute_hop(self.links[number], stream)
        return found

    def _compute_hop(self, link: Link, stream: Stream) -> _HopTimes:
        network = self.intent.network
        delay = self.delay_ns(link, stream)
        octets = client_octets(network, stream, link)
        flight = network.reception_max_ns(link, octets) + link.propagation_ns
        flight_min = network.reception_min_ns(link, octets) + link.propagation_ns
        occupation = network.occupation_max_ns(link, octets)
        spread = (stream.frames - 1) * occupation
        spread_min = (stream.frames - 1) * network.occupation_min_ns(link, octets)
        bridge = network.bridges.get(link.target.node)
        early = link.gate_tick_ns - 1 + link.gate_early_ns
        return _HopTimes(
            busy_ns=(busy := delay + spread + occupation),
            window_ns=busy + early,
            min_ns=flight_min + (bridge.processing_min_ns if bridge else 0) - early,
            max_ns=delay + flight + (bridge.processing_max_ns if bridge else 0),
            delivery_ns=delay + spread + flight,
            spread_ns=spread,
            in_turn_min_ns=(in_turn_min := flight_min + spread_min - spread),
            arrival_ns=in_turn_min - early,
        )

    def delay_ns(self, link: Link, stream: Stream) -> int:
        """How much later than planned any frame of the stream may start on the link."""
        delays_ns = self._start_delays_ns
        if link.source not in delays_ns:
            delays_ns[link.source] = start_delay_ns(self.intent, link)
        return delays_ns[link.source] + control_between_ns(self.intent, link, stream)

    def start_delay_ns(self, number: int) -> int:
        """The same of a link, of the first frame of a period."""
        link, delays_ns = self.links[number], self._start_delays_ns
        if link.source not in delays_ns:
            delays_ns[link.source] = start_delay_ns(self.intent, link)
        return delays_ns[link.source]

    @cached_property
    def class_names(self) -> dict[int, str]:
        """The names of classes by their numbers."""
        return {its.number: its.name for its in self.intent.classes.values()}

    @cached_property
    def _start_delays_ns(self) -> dict[PortRef, int]:
        return {}

    def control_ns(self, link: Link, stream: Stream) -> int:
        """What of that is for control frames."""
        return control_ahead_ns(self.intent, link) + control_between_ns(self.intent, link, stream)

    @cached_property
    def _routes(self) -> dict[tuple[Member, Tree, bool], Route]:
        return {}

    @cached_property
    def _hop_times(self) -> dict[tuple[int, int, int, int], _HopTimes]:
        return {}

    @cached_property
    def _kinds(self) -> Sequence[int]:
        """By link a number that is the same for those on which frames alike take the same times."""
        bridges, numbers = self.intent.network.bridges, dict[tuple[object, ...], int]()
        kinds = []
        for number, link in enumerate(self.links):
            target = bridges.get(link.target.node)
            kind = (
                (link.rate_bps, link.propagation_ns, link.gate_interval_min_ns),
                (link.gate_tick_ns, link.gate_early_ns, self.start_delay_ns(number)),
                link.source.node in bridges,
                link.preemption,
                target and (target.processing_min_ns, target.processing_max_ns),
                number in self._loose_links,
            )
            kinds.append(numbers.setdefault(kind, len(numbers)))
        return kinds

    @cached_property
    def _shapes(self) -> dict[tuple[object, ...], _Shape]:
        return {}

    @cached_property
    def _longest_frame(self) -> Stream:
        """A stream of the longest frames, one in a period."""
        streams = self.intent.streams.values()
        longest = max(streams, key=lambda its: (its.payload_octets, its.elimination.value))
        return replace(longest, frames=1)

    @cached_property
    def _loose_links(self) -> frozenset[int]:
        if not self.loose:
            return frozenset()
        return frozenset(n for n, link in enumerate(self.links) if link.source in self.loose)

    @cached_property
    def position(self) -> dict[str, int]:
        """Where each stream stands in the intent."""
        return {name: position for position, name in enumerate(self.intent.streams)}

    @cached_property
    def _class_numbers(self) -> dict[tuple[str, ...], tuple[int, ...]]:
        choices = {stream.traffic_classes for stream in self.intent.streams.values()}
        return {
            names: tuple(self.intent.classes[name].number for name in names) for names in choices
        }

    def hops(self, placement: Placement) -> tuple[Hop, ...]:
        return tuple(
            Hop(self.links[leg.link].source, offset, placement.traffic_class)
            for leg, offset in zip(placement.route.legs, placement.offsets_ns, strict=True)
        )


def complete(problem: Problem, placements: Mapping[Member, Placement]) -> dict[Member, Placement]:
    """The placements of streams all of whose paths have one."""
    return {
        member: placement
        for member, placement in placements.items()
        if (paths := problem.stream(member).paths) == 1
        or all(Member(member.stream, k) in placements for k in range(paths))
    }


def stream_plans(problem: Problem, placements: Mapping[Member, Placement]) -> dict[str, StreamPlan]:
    """The plans of the complete streams, in the order of the intent."""
    placed = complete(problem, placements)
    plans = {}
    for name in sorted({member.stream for member in placed}, key=problem.position.__getitem__):
        paths = [placed[Member(name, k)] for k in range(problem.intent.streams[name].paths)]
        starts = [each.route.start_ns(each.offsets_ns) for each in paths]
        ends = [
            start + each.route.latency_ns(each.offsets_ns)
            for start, each in zip(starts, paths, strict=True)
        ]
        hops = tuple(problem.hops(placement) for placement in paths)
        plans[name] = StreamPlan(hops, max(ends) - min(starts))
    return plans


def jitter_bounds(
    problem: Problem, placed: Mapping[Member, Placement]
) -> dict[str, dict[str, int]]:
    """The jitter bounds of streams that limit it, in ns by stream and listener."""
    by_stream: dict[str, list[Placement]] = {}
    for member, placement in placed.items():
        if problem.stream(member).max_jitter_ns is not None:
            by_stream.setdefault(member.stream, []).append(placement)
    return {name: jitter.bounds_ns(problem.links, its) for name, its in by_stream.items()}


_Shape = tuple[list[tuple[Any, ...]], tuple[int, ...], int]
"""Of a route all but the links of its legs: what else these have, the offsets and the latency."""


class _Way(NamedTuple):
    """How a frame comes to a leg: over so many links, from the leg's anchor on in `early_ns` at
    least, by one clock; and it starts no later than planned and delayed by the clock of one of the
    nodes `due`."""

    depth: int
    early_ns: int
    due: tuple[str, ...]


class _HopTimes(NamedTuple):
    """Times on a link, without what clocks may differ."""

    busy_ns: int
    window_ns: int
    min_ns: int
    max_ns: int
    delivery_ns: int
    spread_ns: int
    in_turn_min_ns: int  # to the last bit at the far end, of the frame nearest to those before it
    arrival_ns: int
