"""Frames on their way: routes, times, links and queues."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import lcm
from typing import NamedTuple

from cnc.check.violation import Violation
from cnc.model import (
    ClassRole,
    Hop,
    Intent,
    Link,
    Plan,
    PortRef,
    Stream,
    TrafficClass,
    transmission_ns,
)


@dataclass(frozen=True, slots=True)
class Transmission:
    """One planned frame of each period on one link.

    It starts in [offset, offset + a control frame] and keeps the link busy until `busy_until_ns` at
    the latest. On a bridge it came in by `ingress`, planned to start there at `ingress_offset_ns`,
    and lies in this queue from some time in [earliest, latest].
    """

    stream: str
    egress: PortRef
    traffic_class: int
    period_ns: int
    offset_ns: int
    busy_until_ns: int
    received_ns: int  # the last bit is at the far end, clock error included
    ingress: PortRef | None
    ingress_offset_ns: int
    earliest_ns: int
    latest_ns: int


def wire_ns(intent: Intent, link: Link, traffic_class: TrafficClass) -> int:
    """How long the largest frame of a class keeps a link busy."""
    octets = traffic_class.max_frame_octets + intent.network.overhead.physical_octets
    return transmission_ns(octets, link.rate_bps)


def judge_streams(plan: Plan) -> tuple[list[Transmission], list[Violation]]:
    """The transmissions of all streams whose route is sound, and what is wrong with any."""
    transmissions: list[Transmission] = []
    violations = [
        Violation("route", name, "is not a stream of the intent")
        for name in sorted(plan.streams.keys() - plan.intent.streams.keys())
    ]
    for name, stream in plan.intent.streams.items():
        if name not in plan.streams:
            violations.append(Violation("route", name, "has no place in the plan"))
            continue
        planned = plan.streams[name]
        try:
            path = _travel(plan.intent, stream, planned.hops)
        except _BrokenRoute as error:
            violations.append(Violation("route", name, str(error)))
            continue
        transmissions += path
        violations += _judge_times(plan.intent, stream, path, planned.latency_bound_ns)
    return transmissions, violations


class _BrokenRoute(Exception):
    """The hops are no tree from the talker to exactly its listeners."""


def _travel(intent: Intent, stream: Stream, hops: Iterable[Hop]) -> list[Transmission]:
    network = intent.network
    inbound: dict[str, Transmission] = {}
    path = []
    for hop in hops:
        node = hop.egress.node
        link = network.links.get(hop.egress)
        if link is None:
            raise _BrokenRoute(f"no link leaves {hop.egress}")
        if node != stream.talker and node not in inbound:
            raise _BrokenRoute(f"leaves {node} without having come there")
        if node != stream.talker and node not in network.bridges:
            raise _BrokenRoute(f"passes through the end station {node}")
        target = link.target.node
        if target == stream.talker or target in inbound:
            raise _BrokenRoute(f"comes to {target} twice")
        inbound[target] = _transmission(intent, stream, hop, link, inbound.get(node))
        path.append(inbound[target])
    if missed := [listener for listener in stream.listeners if listener not in inbound]:
        raise _BrokenRoute(f"never reaches {', '.join(missed)}")
    forwarding = {t.egress.node for t in path}
    if astray := [n for n in inbound if n not in forwarding and n not in stream.listeners]:
        raise _BrokenRoute(f"goes to {', '.join(astray)}, where nobody listens")
    return path


def _transmission(
    intent: Intent, stream: Stream, hop: Hop, link: Link, before: Transmission | None
) -> Transmission:
    network = intent.network
    delay = max(
        (wire_ns(intent, link, c) for c in intent.classes_with(ClassRole.CONTROL)), default=0
    )
    started = hop.offset_ns + delay
    reception = network.reception_ns(link, stream.payload_octets)
    earliest = latest = hop.offset_ns
    if before is not None:
        bridge = network.bridges[hop.egress.node]
        inbound = network.links[before.egress]
        earliest = (
            before.offset_ns
            + network.reception_ns(inbound, stream.payload_octets)
            + inbound.propagation_ns
            + bridge.processing_min_ns
            - network.clock_error_ns
        )
        latest = before.received_ns + bridge.processing_max_ns
    return Transmission(
        stream=stream.name,
        egress=hop.egress,
        traffic_class=hop.traffic_class,
        period_ns=stream.period_ns,
        offset_ns=hop.offset_ns,
        busy_until_ns=started + network.occupation_ns(link, stream.payload_octets),
        received_ns=started + reception + link.propagation_ns + network.clock_error_ns,
        ingress=before.egress if before else None,
        ingress_offset_ns=before.offset_ns if before else 0,
        earliest_ns=earliest,
        latest_ns=latest,
    )


def _judge_times(
    intent: Intent, stream: Stream, path: list[Transmission], bound_ns: int
) -> Iterator[Violation]:
    number = intent.class_of(stream).number
    last_start = stream.period_ns - 1 if stream.latest_ns is None else stream.latest_ns
    for t in path:
        if t.traffic_class != number:
            text = f"uses class {t.traffic_class} on {t.egress}, its class is {number}"
            yield Violation("class", stream.name, text)
        if t.ingress is None and not stream.earliest_ns <= t.offset_ns <= last_start:
            text = (
                f"the talker starts at {t.offset_ns} ns, outside its window "
                f"{stream.earliest_ns} to {last_start} ns"
            )
            yield Violation("talker-window", stream.name, text)
        if t.offset_ns < t.latest_ns:
            text = (
                f"is planned to leave {t.egress} at {t.offset_ns} ns but may not be there before "
                f"{t.latest_ns} ns"
            )
            yield Violation("precedence", stream.name, text)
    start = min(t.offset_ns for t in path if t.ingress is None)
    links = intent.network.links
    for t in path:
        listener = links[t.egress].target.node
        latency = t.received_ns - start
        if listener not in stream.listeners:
            continue
        if latency > stream.max_latency_ns:
            text = f"may reach {listener} after {latency} ns, {stream.max_latency_ns} ns allowed"
            yield Violation("deadline", stream.name, text)
        if latency > bound_ns:
            text = f"may reach {listener} after {latency} ns, the plan promises {bound_ns} ns"
            yield Violation("bound", stream.name, text)


def judge_links(transmissions: Iterable[Transmission]) -> Iterator[Violation]:
    """One frame at a time on each link, whatever control frame delays it."""
    by_port = defaultdict(list)
    for t in transmissions:
        by_port[t.egress].append(t)
    for port, on_link in by_port.items():
        hyperperiod = lcm(*(t.period_ns for t in on_link))
        each = sorted(
            (start, start + t.busy_until_ns - t.offset_ns, t.stream)
            for t in on_link
            for start in range(t.offset_ns % t.period_ns, hyperperiod, t.period_ns)
        )
        start, end, stream = each[0]
        reported = set()
        for one, other in pairwise([*each, (start + hyperperiod, end + hyperperiod, stream)]):
            pair = frozenset((one[2], other[2]))
            if one[1] > other[0] and pair not in reported:
                reported.add(pair)
                text = (
                    f"{one[2]} may be on the link until {one[1]} ns, {other[2]} is planned for "
                    f"{other[0]} ns"
                )
                yield Violation("overlap", str(port), text)


class _Queued(NamedTuple):
    departure_ns: int
    earliest_ns: int
    latest_ns: int
    planned: Transmission


def judge_queues(transmissions: Iterable[Transmission]) -> Iterator[Violation]:
    """A frame planned to leave a queue first must have come first, in the worst case too."""
    by_queue = defaultdict(list)
    for t in transmissions:
        if t.ingress is not None:
            by_queue[t.egress, t.traffic_class].append(t)
    for (port, number), in_queue in by_queue.items():
        hyperperiod = lcm(*(t.period_ns for t in in_queue))
        once = [
            _Queued(t.offset_ns + k, t.earliest_ns + k, t.latest_ns + k, t)
            for t in in_queue
            for k in range(
                -(t.offset_ns // t.period_ns) * t.period_ns,
                hyperperiod - (t.offset_ns // t.period_ns) * t.period_ns,
                t.period_ns,
            )
        ]
        # Twice the hyperperiod: the last frame of one meets the first of the next.
        again = (
            q._replace(
                departure_ns=q[0] + hyperperiod,
                earliest_ns=q[1] + hyperperiod,
                latest_ns=q[2] + hyperperiod,
            )
            for q in once
        )
        order = sorted([*once, *again], key=lambda q: q.departure_ns)
        for first, second in _out_of_order(order):
            text = (
                f"{second.planned.stream} may lie in the queue of class {number} from "
                f"{second.earliest_ns} ns, before {first.planned.stream}, planned to leave first "
                f"and there only from {first.latest_ns} ns"
            )
            yield Violation("fifo", str(port), text)


def _out_of_order(order: list[_Queued]) -> Iterator[tuple[_Queued, _Queued]]:
    """Pairs that may swap places, one for each two streams."""
    reported = set()
    latest_so_far = 0
    for index, second in enumerate(order):
        if latest_so_far > second.earliest_ns:
            for first in map(order.__getitem__, range(index - 1, -1, -1)):
                if first.departure_ns <= second.earliest_ns:
                    break
                pair = (first.planned.stream, second.planned.stream)
                if pair not in reported and _may_swap(first, second):
                    reported.add(pair)
                    yield first, second
        latest_so_far = max(latest_so_far, second.latest_ns)


def _may_swap(first: _Queued, second: _Queued) -> bool:
    a, b = first.planned, second.planned
    if a.ingress == b.ingress:
        # A link and a bridge keep the order of the frames that come in by one port.
        return (
            first.departure_ns - a.offset_ns + a.ingress_offset_ns
            > second.departure_ns - b.offset_ns + b.ingress_offset_ns
        )
    return first.latest_ns > second.earliest_ns
