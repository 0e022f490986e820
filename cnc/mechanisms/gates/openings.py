"""What each class of a port can send by a gate control list that is given."""

from __future__ import annotations

from collections.abc import Iterator

from cnc.mechanism import Openings
from cnc.mechanisms.gates.given import GivenLists
from cnc.model import (
    NS_PER_S,
    RATE_TOLERANCE_PPM,
    GateControlList,
    Intent,
    Link,
    Plan,
    TrafficClass,
    transmission_max_ns,
)

_MILLION = 1_000_000


def openings(plan: Plan) -> Iterator[Openings]:
    """Of each port whose list is given, the highest class first. Beside windows by share the frames
    of streams have bounds of their own.

    A gate that opens late shuts on time: what is left of the opening is sure. Linux's taprio looks
    at the end of the entry before it starts a frame (net/sched/sch_taprio.c).
    """
    given, planned = plan.intent[GivenLists], plan.intent.planned_classes()
    classes = sorted(plan.intent.classes.values(), key=lambda its: -its.number)
    for port in sorted(given.by_port.keys() & plan.gates.keys()):
        link = plan.intent.network.links[port]
        for each in classes:
            if port in given.shared and each in planned:
                continue
            yield _of_class(plan.intent, link, plan.gates[port], each)


def _of_class(intent: Intent, link: Link, gates: GateControlList, its: TrafficClass) -> Openings:
    spans = _open_spans(gates, its.number)
    always = spans == [(0, gates.cycle_ns)]
    sure = _sure(intent, link, spans)
    open_ns = sum(end - start for start, end in spans)
    return Openings(
        port=link.source,
        class_name=its.name,
        cycle_ns=gates.cycle_ns,
        open_ns=open_ns,
        rate_bps=link.rate_bps * open_ns // gates.cycle_ns,
        wait_ns=0 if always else _wait_ns(intent, link, gates.cycle_ns, sure, its),
        frame_octets=longest_frame_octets(intent, link, gates, its.number),
    )


def longest_frame_octets(
    intent: Intent, link: Link, gates: GateControlList, number: int
) -> int | None:
    """The longest frame of a class, from MAC header to FCS, that surely fits one of its openings;
    0: none does, None: its gate is always open."""
    spans = _open_spans(gates, number)
    if spans == [(0, gates.cycle_ns)]:
        return None
    return _longest_octets(intent, link, _sure(intent, link, spans))


def shortest_opening_octets(
    intent: Intent, link: Link, gates: GateControlList, number: int
) -> int | None:
    """The longest frame of a class that fits each of its openings; None: its gate is always open,
    or never."""
    spans = _open_spans(gates, number)
    if not spans or spans == [(0, gates.cycle_ns)]:
        return None
    return _longest_octets(intent, link, [min(spans, key=lambda each: each[1] - each[0])])


def _sure(intent: Intent, link: Link, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is left of openings that begin late."""
    late_ns = intent.network.lateness_ns(link.source.node)
    return [(start + late_ns, end) for start, end in spans if end - start > late_ns]


def _open_spans(gates: GateControlList, number: int) -> list[tuple[int, int]]:
    """When its gate is open, from when to when, in order; the last one may end in the next
    cycle."""
    spans: list[tuple[int, int]] = []
    at_ns = 0
    for each in gates.entries:
        end_ns = at_ns + each.interval_ns
        if each.gate_states >> number & 1:
            if spans and spans[-1][1] == at_ns:
                spans[-1] = spans[-1][0], end_ns
            else:
                spans.append((at_ns, end_ns))
        at_ns = end_ns
    if len(spans) > 1 and spans[0][0] == 0 and spans[-1][1] == gates.cycle_ns:
        spans = [*spans[1:-1], (spans[-1][0], gates.cycle_ns + spans[0][1])]
    return spans


def _wait_ns(
    intent: Intent, link: Link, cycle_ns: int, spans: list[tuple[int, int]], its: TrafficClass
) -> int | None:
    """A frame that would not end before its gate shuts waits for the next opening that is long
    enough."""
    octets = its.max_frame_octets + intent.network.overhead.physical_octets
    frame_ns = transmission_max_ns(octets, link.rate_bps) + link.gate_early_ns
    fitting = [(start, end - frame_ns) for start, end in spans if end - start >= frame_ns]
    if not fitting:
        return None
    again = fitting[0][0] + cycle_ns
    following = [start for start, _ in fitting[1:]] + [again]
    return max(start - last for (_, last), start in zip(fitting, following, strict=True))


def _longest_octets(intent: Intent, link: Link, spans: list[tuple[int, int]]) -> int:
    """0: none."""
    longest_ns = max((end - start for start, end in spans), default=0) - link.gate_early_ns
    slowest = link.rate_bps * (_MILLION - RATE_TOLERANCE_PPM)
    octets = longest_ns * slowest // (8 * NS_PER_S * _MILLION)
    return max(octets - intent.network.overhead.physical_octets, 0)
