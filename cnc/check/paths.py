"""The paths of each stream: whether they are those that were asked for, and in time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from cnc.account.frames import Transmission
from cnc.account.travel import BrokenRoute, Travel
from cnc.account.violation import Violation
from cnc.model import Forwarding, Hop, Intent, Plan, PortRef, Stream, StreamPlan
from cnc.model.clock_error import ClockErrors
from cnc.support.format import counted


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
            except BrokenRoute as error:
                violations.append(Violation("route", name, str(error)))
        if not planned.has_instants:
            continue  # its mechanism judges when its frames arrive
        # The data are there to be sent when the first copy starts, on whatever path they arrive.
        start_ns = min(
            (t.offset_ns for path in paths for t in path if t.ingress is None), default=0
        )
        transmissions += _sent(plan.intent, paths)
        violations += _judge_jitter(plan, stream, paths, travel.clocks)
        for path in paths:
            violations += _judge_times(stream, path, start_ns, planned.latency_bound_ns)
    return transmissions, violations


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
            yield Violation(
                "jitter", stream.name, "has a jitter bound that the intent does not ask for"
            )
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
