"""Frames on their way: routes and times, planned, at worst and at best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from cnc.account.openings import Openings
from cnc.account.violation import Violation
from cnc.account.wire import blocking_ns, control_between_ns
from cnc.model import (
    Forwarding,
    Hop,
    Intent,
    Link,
    Plan,
    PortRef,
    Stream,
    StreamPlan,
)
from cnc.model.clock_error import ClockErrors
from cnc.support.format import counted

Drops = Callable[[str, int], bool]
"""Whether the first switch is to drop frames of a stream, in a class by its number, that come
otherwise than planned."""

Clocked = tuple[tuple[str, int], ...]
"""Times by the clocks of nodes."""

AddedOctets = Callable[[Stream], int]
"""What the first switch puts before the payload of a stream's frames, and the last one takes away,
in octets."""


class Transmission(NamedTuple):
    """The planned frames of each period of a stream on one link: one, or several back to back.

    The first starts by `offset_ns` plus blocking, or by its latest arrival plus blocking where that
    is after its offset, the last up to `spread_ns` later, and they keep the link busy until
    `busy_until_ns` at the latest. On a bridge they came in by `ingress`, planned to start there at
    `ingress_offset_ns`. The first lies in this queue from some time in [earliest, latest] by the
    bridge's clock, the last from `all_there_ns` on; `latest_ns` counts frames that come too late
    for their turn behind the first as if the first came so late.

    Where they share a window, which `is_shared`, no instant is planned for any of them: all may
    start from `offset_ns` on, or as soon as they may be there, and `spread_ns` is nothing.
    """

    stream: str
    egress: PortRef
    target: str
    traffic_class: int
    period_ns: int
    offset_ns: int
    busy_until_ns: int
    spread_ns: int
    received_ns: int  # the first frame's last bit is at the far end, clock error included
    flight_ns: int  # from its start to that, at least
    leaves_ns: int  # the earliest start, by some clock of the network
    ingress: PortRef | None
    ingress_offset_ns: int
    earliest_ns: int
    latest_ns: int
    all_there_ns: int
    due_ns: int  # its latest arrival by the clocks of those that may have sent it so late
    left: Clocked  # the first frame starts at all of these or later
    arrives: Clocked  # its last bit is at the far end at the last of these or before
    elapsed_ns: int  # when the last bit of the last frame is; of a listener by the talker's, too
    is_shared: bool
    work_ns: int  # for how long all of them keep the link busy at most, nothing between them
    frame_ns: int  # the same of one of them
    frame_min_ns: int  # and at least
    ahead_ns: int  # for how long one kept the link before busy, at least

    @property
    def all_received_ns(self) -> int:
        """The last bit of the last frame is at the far end, clock error included."""
        return self.received_ns + self.spread_ns


def transmissions_of(plan: Plan, travel: Travel) -> tuple[list[Transmission], list[Violation]]:
    """The transmissions of all paths whose route is sound, and what is wrong with any, if frames
    travel as in the network of the plan."""
    transmissions: list[Transmission] = []
    violations = [
        Violation("route", name, "is not a stream of the intent")
        for name in sorted((plan.streams.keys() | plan.refused.keys()) - plan.intent.streams.keys())
    ]
    for name, stream in plan.intent.streams.items():
        if name not in plan.streams:
            if name not in plan.refused:
                violations.append(Violation("route", name, "has no place in the plan"))
            continue
        if name in plan.refused:
            violations.append(Violation("route", name, "is both planned and refused"))
        planned = plan.streams[name]
        violations += _judge_paths(plan.intent, stream, planned)
        paths = []
        for hops in planned.paths:
            try:
                paths.append(travel.along(stream, hops))
            except _BrokenRoute as error:
                violations.append(Violation("route", name, str(error)))
        # The data are there to be sent when the first copy starts, on whatever path they arrive.
        start_ns = min(
            (t.offset_ns for path in paths for t in path if t.ingress is None), default=0
        )
        transmissions += _sent(plan.intent, paths)
        violations += _judge_jitter(plan, stream, paths, travel.clocks)
        for path in paths:
            violations += _judge_times(stream, path, start_ns, planned.latency_bound_ns)
    return transmissions, violations


def from_switches(
    transmissions: Iterable[Transmission],
) -> tuple[list[Transmission], list[int | None]]:
    """The transmissions by switches, and for each the number of that before it on its way among
    them; None where its frames come from their talker."""
    found = [t for t in transmissions if t.ingress is not None]
    number: dict[tuple[str, PortRef | None, int], int] = {
        (t.stream, t.egress, t.offset_ns): n for n, t in enumerate(found)
    }
    return found, [number.get((t.stream, t.ingress, t.ingress_offset_ns)) for t in found]


def _sent(intent: Intent, paths: list[list[Transmission]]) -> Iterator[Transmission]:
    """The transmissions of all paths of a stream.

    In a bridged network paths that start by one port at one time start with one frame, which the
    first switch copies.
    """
    started = set()
    for t in (t for path in paths for t in path):
        if t.ingress is None and intent.network.forwarding is Forwarding.BRIDGED:
            if (t.egress, t.offset_ns) in started:
                continue
            started.add((t.egress, t.offset_ns))
        yield t


def _judge_paths(intent: Intent, stream: Stream, planned: StreamPlan) -> Iterator[Violation]:
    """What the paths of a stream have in common, and what they must not."""
    if len(planned.paths) != stream.paths:
        text = f"has {counted(len(planned.paths), 'path')} in the plan, {stream.paths} asked for"
        yield Violation("paths", stream.name, text)
    for one, other in combinations(planned.paths, 2):
        taken = {hop.egress for hop in other}
        for hop in one:
            if hop.egress in taken and _joins_bridges(intent, hop.egress):
                text = f"crosses {hop.egress} on two of its paths"
                yield Violation("disjoint", stream.name, text)
    yield from _judge_class(intent, stream, planned.hops)
    yield from _judge_routes(intent, stream, planned)


def _judge_routes(intent: Intent, stream: Stream, planned: StreamPlan) -> Iterator[Violation]:
    """Whether the switches on the ways are those that are given, seen from each listener."""
    if not stream.routes:
        return
    listeners = stream.listeners if stream.paths == 1 else stream.listeners * stream.paths
    paths = planned.paths if stream.paths > 1 else planned.paths * len(listeners)
    for route, listener, path in zip(stream.routes, listeners, paths, strict=False):
        links = (link for hop in path if (link := intent.network.links.get(hop.egress)))
        before = {link.target.node: link.source.node for link in links}
        crossed: list[str] = []
        node = before.get(listener)
        while node is not None and node != stream.talker and len(crossed) <= len(route):
            crossed.insert(0, node)
            node = before.get(node)
        if tuple(crossed) != route:
            asked, way = " - ".join(route), " - ".join(crossed) or "no switch"
            text = f"goes to {listener} by {way}, its route is {asked}"
            yield Violation("given-route", stream.name, text)


def _joins_bridges(intent: Intent, port: PortRef) -> bool:
    network = intent.network
    link = network.links.get(port)
    return link is not None and {port.node, link.target.node} <= network.bridges.keys()


def _judge_class(intent: Intent, stream: Stream, hops: tuple[Hop, ...]) -> Iterator[Violation]:
    allowed = [c.number for c in intent.classes_of(stream)]
    for hop in hops:
        if hop.traffic_class not in allowed:
            text = (
                f"uses class {hop.traffic_class} on {hop.egress}, it may use "
                f"{' or '.join(map(str, allowed))}"
            )
            yield Violation("class", stream.name, text)
        elif hop.traffic_class != hops[0].traffic_class:
            text = (
                f"uses class {hop.traffic_class} on {hop.egress}, {hops[0].traffic_class} on "
                f"{hops[0].egress}: its frames have one class all the way"
            )
            yield Violation("class", stream.name, text)


class _BrokenRoute(Exception):
    """The hops are no tree from the talker to exactly its listeners."""


@dataclass(frozen=True, slots=True)
class Travel:
    """What a journey needs to know: nothing of what other streams there are, so that it is the same
    for all plans of a network and its classes.

    `lists` tells how early frames may leave; where a port has none, they do so at once.
    `blocking_ns` is by egress port. `wire_ns` has by rate and octets how long a frame keeps a link
    at most and at least, and how long it takes to be received, at most and at least.
    """

    intent: Intent
    lists: Mapping[PortRef, Openings]
    blocking_ns: Mapping[PortRef, int]
    drops_misfits: Drops
    added_octets: AddedOctets
    clocks: ClockErrors
    apart_ns: int | None  # any two clocks, if that is the same for all
    wire_ns: dict[tuple[int, int], tuple[int, int, int, int]] = field(default_factory=dict)

    @classmethod
    def through(
        cls,
        intent: Intent,
        lists: Mapping[PortRef, Openings],
        drops_misfits: Drops,
        added_octets: AddedOctets,
    ) -> Travel:
        """In the network of an intent."""
        links, clocks = intent.network.links, ClockErrors(intent.network)
        blocking = {}
        known: dict[tuple[object, ...], int] = {}  # there are many links, of few kinds
        for port, link in links.items():
            talker = intent.network.end_stations.get(port.node)
            kind = link.rate_bps, talker and (talker.lateness_ns, talker.interference)
            if kind not in known:
                known[kind] = blocking_ns(intent, link)
            blocking[port] = known[kind]
        return cls(intent, lists, blocking, drops_misfits, added_octets, clocks, clocks.same_ns)

    def along(self, stream: Stream, hops: tuple[Hop, ...]) -> list[Transmission]:
        """The transmissions of one path, in the order of `hops`."""
        network = self.intent.network
        added = self.added_octets(stream)
        inbound: dict[str, Transmission] = {}
        for hop in hops:
            node = hop.egress.node
            link = network.links.get(hop.egress)
            if link is None:
                raise _BrokenRoute(f"no link leaves {hop.egress}")
            if node != stream.talker and node not in inbound:
                raise _BrokenRoute(f"leaves {node} without having arrived there")
            if node != stream.talker and node not in network.bridges:
                raise _BrokenRoute(f"passes through the end station {node}")
            target = link.target.node
            if target == stream.talker or target in inbound:
                raise _BrokenRoute(f"comes to {target} twice")
            inbound[target] = self._transmission(stream, added, hop, link, inbound.get(node))
        if missed := [listener for listener in stream.listeners if listener not in inbound]:
            raise _BrokenRoute(f"never reaches {', '.join(missed)}")
        forwarding = {hop.egress.node for hop in hops}
        if astray := [n for n in inbound if n not in forwarding and n not in stream.listeners]:
            raise _BrokenRoute(f"goes to {', '.join(astray)}, which is not a listener")
        return list(inbound.values())

    def _transmission(
        self, stream: Stream, added: int, hop: Hop, link: Link, before: Transmission | None
    ) -> Transmission:
        network, is_shared, offset = self.intent.network, hop.is_shared, hop.offset_ns
        octets = self._octets(stream, added, link, before) if added else stream.payload_octets
        occupation, occupation_min, reception, reception_min = self._wire_ns(link, octets)
        spread = 0 if is_shared else (stream.frames - 1) * occupation
        blocking = self.blocking_ns[hop.egress]
        if spread:
            blocking += control_between_ns(self.intent, link, spread)
        flight = reception + link.propagation_ns
        flight_min = reception_min + link.propagation_ns
        node, target = hop.egress.node, link.target.node
        leaves = earliest = latest = due = offset
        all_there = offset + spread
        left: Clocked = ((node, offset),)
        starts: Clocked = left
        if before is None:
            if stream.identification is not None:
                # What the talker sends without a tag is shorter, and sooner at the first switch.
                flight_min -= network.untagged_lead_ns(link, stream.payload_octets)
        else:
            bridge = network.bridges[node]
            on_way = before.flight_ns + bridge.processing_min_ns
            if before.ingress is None and self.drops_misfits(stream.name, hop.traffic_class):
                # Its filter may look at a frame last of all: what passes as it opens is here then.
                on_way -= bridge.processing_min_ns
            # Any two clocks differ by no more than their clock error, so it counts once from the
            # clock that last held the frame back, however many bridges it has passed since.
            left = _later(before.left, on_way)
            earliest = self._by_ns(left, node, -1)
            # Links pass frames on one by one. The last is the one to come too late for its turn
            # where the link before is slower than this one, else the first.
            first = before.received_ns + bridge.processing_max_ns
            all_there = first + before.spread_ns
            latest = max(first, all_there - spread)
            gates, opens, period = self.lists.get(hop.egress), earliest, stream.period_ns
            if gates is not None:
                opens = gates.earliest_start_ns(hop.traffic_class, earliest, offset, period)
            if opens > earliest:
                # What an earlier clock says of it counts no more where this one says as much.
                left = self._mattering(left, node, opens)
            leaves = _last_ns(left)
            # A frame that no bridge holds back is no later by one clock than by another, but for
            # their clock error: it counts once from the clock that held it back for that long.
            behind = latest - before.received_ns
            came = _later(before.arrives, behind)
            due = _last_ns(came)
            if latest > offset:
                starts = self._mattering(came, node, offset)
        arrives = _later(starts, blocking + flight)
        busy_until = max(offset, latest) + blocking + spread + occupation
        if is_shared:
            busy_until = offset + hop.window_ns
            last_bit = busy_until - network.gap_min_ns(link)
            arrives = ((node, last_bit + link.propagation_ns),)
        received = elapsed = self._by_ns(arrives, target, 1)
        if target in stream.listeners:
            elapsed = max(received, self._by_ns(arrives, stream.talker, 1))
        return Transmission(  # by position: names take as long as all the rest
            stream.name,
            hop.egress,
            target,
            hop.traffic_class,
            stream.period_ns,
            offset,
            busy_until,
            spread,
            received,
            flight_min,
            leaves,
            before.egress if before else None,
            before.offset_ns if before else 0,
            earliest,
            latest,
            all_there,
            due,
            left,
            arrives,
            elapsed + spread,
            is_shared,
            stream.frames * occupation,
            occupation,
            occupation_min,
            before.frame_min_ns if before else 0,
        )

    def _wire_ns(self, link: Link, octets: int) -> tuple[int, int, int, int]:
        of_frame = link.rate_bps, octets
        if of_frame not in self.wire_ns:
            network = self.intent.network
            self.wire_ns[of_frame] = (
                network.occupation_max_ns(link, octets),
                network.occupation_min_ns(link, octets),
                network.reception_max_ns(link, octets),
                network.reception_min_ns(link, octets),
            )
        return self.wire_ns[of_frame]

    def _by_ns(self, times: Clocked, node: str, sign: int) -> int:
        """The last of these by the clock of a node: with what it is apart, or less that."""
        if self.apart_ns is not None:
            return _last_ns(times) + sign * self.apart_ns
        between = self.clocks.between_ns
        return max([ns + sign * between(clock, node) for clock, ns in times])

    def _mattering(self, times: Clocked, node: str, own_ns: int) -> Clocked:
        """Those that the clock of a node does not rule out by what it says itself, and that."""
        if self.apart_ns is not None:  # whichever clock says it, one time stands for all
            return ((node, max(_last_ns(times), own_ns)),)
        between = self.clocks.between_ns
        kept = [(clock, ns) for clock, ns in times if ns + between(clock, node) > own_ns]
        return (*kept, (node, own_ns))

    def _octets(self, stream: Stream, added: int, link: Link, before: Transmission | None) -> int:
        """What a frame carries on a link. What the switch that it comes to first has put before
        its payload, and padding stays; the switch that sends it to a listener has taken that
        away."""
        if before is None or link.target.node in stream.listeners:
            return stream.payload_octets
        return max(stream.payload_octets, self.intent.network.overhead.min_payload_octets) + added


def earliest_start_ns(gates: Openings | None, t: Transmission) -> int:
    """When frames may leave a port by its list, by the clock of its bridge, whatever other frames
    there are or are lost."""
    if gates is None:
        return t.earliest_ns
    return gates.earliest_start_ns(t.traffic_class, t.earliest_ns, t.offset_ns, t.period_ns)


def _later(times: Clocked, by_ns: int) -> Clocked:
    if len(times) == 1:  # nearly always, and there are very many
        ((clock, ns),) = times
        return ((clock, ns + by_ns),)
    return tuple([(clock, ns + by_ns) for clock, ns in times])


def _last_ns(times: Clocked) -> int:
    return times[0][1] if len(times) == 1 else max([ns for _, ns in times])


def _judge_times(
    stream: Stream,
    path: list[Transmission],
    start_ns: int,
    bound_ns: int,
) -> Iterator[Violation]:
    """What is wrong with the times of a path, if the latency counts from `start_ns`."""
    last_start = stream.period_ns - 1 if stream.latest_ns is None else stream.latest_ns
    for t in path:
        if t.ingress is None and not stream.earliest_ns <= t.offset_ns <= last_start:
            text = (
                f"the talker starts at {t.offset_ns} ns, outside its window "
                f"{stream.earliest_ns} to {last_start} ns"
            )
            yield Violation("talker-window", stream.name, text)
        # One clock error later it may come: then its gate and the link have to wait for it.
        if t.ingress is not None and not t.is_shared and t.offset_ns < t.due_ns:
            text = (
                f"is planned to leave {t.egress} at {t.offset_ns} ns but may not be there before "
                f"{t.latest_ns} ns, more than the clock error of {t.latest_ns - t.due_ns} ns later"
            )
            yield Violation("precedence", stream.name, text)
    for t in path:
        if t.target not in stream.listeners:
            continue
        latency = t.elapsed_ns - start_ns
        if latency > stream.max_latency_ns:
            text = f"may reach {t.target} after {latency} ns, {stream.max_latency_ns} ns allowed"
            yield Violation("deadline", stream.name, text)
        if latency > bound_ns:
            text = f"may reach {t.target} after {latency} ns, the plan promises {bound_ns} ns"
            yield Violation("bound", stream.name, text)


def _judge_jitter(
    plan: Plan, stream: Stream, paths: Iterable[list[Transmission]], clocks: ClockErrors
) -> Iterator[Violation]:
    """What is wrong with the spread of arrivals at each listener, by whichever path frames come."""
    promised_ns = plan.jitter_ns.get(stream.name, {})
    if stream.max_jitter_ns is None:
        if promised_ns:
            yield Violation("jitter", stream.name, "has a jitter bound that nobody asked for")
        return
    earliest: dict[str, int] = {}
    latest: dict[str, int] = {}
    for t in (t for path in paths for t in path if t.target in stream.listeners):
        # The clock that lets the frame start may be ahead of the listener's by the clock error.
        left = max(ns - clocks.between_ns(clock, t.target) for clock, ns in t.left)
        first = left + t.flight_ns
        if stream.frames > 1:
            # Where the link is fast, each frame is that much nearer to the one before it.
            network, between = plan.intent.network, stream.frames - 1
            near = between * network.occupation_min_ns(
                network.links[t.egress], stream.payload_octets
            )
            first -= t.spread_ns - near
        earliest[t.target] = min(first, earliest.get(t.target, first))
        latest[t.target] = max(t.received_ns, latest.get(t.target, t.received_ns))
    for listener, last in latest.items():
        spread = last - earliest[listener]
        if spread > stream.max_jitter_ns:
            text = f"may reach {listener} within {spread} ns, {stream.max_jitter_ns} ns allowed"
            yield Violation("jitter", stream.name, text)
        promise = promised_ns.get(listener)
        if promise is None:
            text = f"has a limit of its jitter, and no bound of it at {listener}"
            yield Violation("jitter", stream.name, text)
        elif spread > promise:
            text = f"may reach {listener} within {spread} ns, the plan promises {promise} ns"
            yield Violation("jitter", stream.name, text)
    for listener in sorted(promised_ns.keys() - latest.keys()):
        text = f"has a jitter bound at {listener}, which is not a listener"
        yield Violation("jitter", stream.name, text)
