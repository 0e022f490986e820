"""What a gate that tells intervals apart has to do, as the judge reckons it by itself: give frames
the queue of the next interval (802.1Q-2022 annex T), and let as much pass in one as cyclic queuing
has room for.
"""

from __future__ import annotations

from collections.abc import Iterator

from cnc.mechanisms.stream_filters.model import CyclicGate
from cnc.model import Intent, Link, Network, Stream, TrafficClass

_ROUNDED_NS = 1_000  # a planner's rounding of times to later


def queues(intent: Intent, its: TrafficClass) -> tuple[int, int, int] | None:
    """The interval of a class, and what frames get that come in even ones, and in odd ones; None:
    it is not forwarded by intervals, or without a second queue, which another judge reports."""
    if its.cyclic is None or its.cyclic.odd not in intent.classes:
        return None
    return its.cyclic.interval_ns, intent.classes[its.cyclic.odd].priority, its.priority


def wrong_queues(intent: Intent, its: TrafficClass, gate: object) -> Iterator[str]:
    """How a gate tells the intervals of a class otherwise apart."""
    has = (gate.interval_ns, gate.even, gate.odd) if isinstance(gate, CyclicGate) else None
    if has != (wanted := queues(intent, its)):
        yield (
            f"gives frames of class {its.name} by interval the queues {has}, annex T asks for "
            f"{wanted}: its length, that of even and that of odd ones"
        )


def wrong_limit(
    network: Network, stream: Stream, link: Link, spread_ns: int, gate: CyclicGate
) -> Iterator[str]:
    """What is wrong with how much passes in an interval of a stream that leaves its talker over
    this link, one burst up to `spread_ns` later than another."""
    physical_octets = network.wire_octets(stream.payload_octets)
    sdu_octets = max(stream.payload_octets, network.overhead.min_payload_octets)
    if gate.overhead_octets != (beside := physical_octets - sdu_octets):
        yield (
            f"takes {beside} octets of the link beside each service data unit, its gate adds "
            f"{gate.overhead_octets}"
        )
    spread_ns += network.bridges[link.target.node].processing_max_ns
    least, most = (
        (1 + (gate.interval_ns + spread_ns + rounded_ns - 1) // stream.period_ns)
        * stream.frames
        * physical_octets
        for rounded_ns in (0, _ROUNDED_NS)
    )
    if gate.octets_max is None or not least <= gate.octets_max <= most:
        yield (f"may bring {least} octets in an interval, its gate lets {gate.octets_max} pass")
