"""What switches do for streams whose second copies they take out, as it follows from a plan.

The first switch of such a stream numbers its frames, the last one before each listener recovers the
sequence (`cnc.mechanisms.frer.model`). In between frames have the R-TAG, so that they are longer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from cnc.mechanism import Admission
from cnc.mechanisms.frer.model import (
    HISTORY_LENGTH_MAX,
    HISTORY_LENGTH_MIN,
    SEQUENCE_TAG_OCTETS,
    Generation,
    LatentErrorDetection,
    Recovery,
    SequenceFunction,
    SequenceFunctions,
)
from cnc.mechanisms.terms import client_octets
from cnc.model import Elimination, Hop, Network, Plan, Stream, StreamAddress

_NS_PER_MS = 1_000_000


def _added_octets(stream: Stream) -> int:
    return 0 if stream.elimination is Elimination.LISTENER else SEQUENCE_TAG_OCTETS


ADMISSION = Admission(_added_octets, "R-TAG")
"""What a plan allows for sequence numbers of frames."""


def sequence_functions(plan: Plan, name: str) -> dict[str, SequenceFunction]:
    """By switch what it does for a planned stream; nothing without elimination by switches."""
    stream, planned = plan.intent.streams[name], plan.streams[name]
    if stream.elimination is Elimination.LISTENER:
        return {}
    links = plan.intent.network.links
    functions: dict[str, SequenceFunction] = {}
    ingresses: dict[str, set[str]] = {}
    for path in planned.paths:
        inbound = {links[hop.egress].target.node: links[hop.egress].target for hop in path}
        for hop in path:
            link = links[hop.egress]
            if hop.egress.node == stream.talker:
                functions[link.target.node] = Generation(link.target.port)
            elif link.target.node in stream.listeners:
                ingresses.setdefault(hop.egress.node, set()).add(inbound[hop.egress.node].port)
    for switch, ports in ingresses.items():
        functions[switch] = _recovery(plan, name, switch, ports)
    return functions


def derive(plan: Plan, switches: Collection[str]) -> dict[str, SequenceFunctions]:
    """What each of `switches` does with copies, in one pass over the plan."""
    found: defaultdict[str, dict[StreamAddress, SequenceFunction]] = defaultdict(dict)
    for name, address in plan.addresses.items():
        if name in plan.streams and name in plan.intent.streams:
            for switch, function in sequence_functions(plan, name).items():
                found[switch][address] = function
    return {name: SequenceFunctions(found[name]) for name in switches if name in found}


def exposed(former: Plan, plan: Plan, stream: str) -> str | None:
    """Why copies of the frames of a stream may be lost, or come twice, between two plans."""
    before, after = (each.intent.streams[stream].elimination for each in (former, plan))
    if before is after:
        return None
    return "switches number its frames, or cease to, as they commit, one after the other"


def _recovery(plan: Plan, name: str, switch: str, ports: set[str]) -> Recovery:
    """As long a history as the copies of a frame may come apart, and as frames may be lost on both
    paths before the sequence is taken up anew; that is when two periods without a frame and the
    difference of the two paths have passed."""
    stream = plan.intent.streams[name]
    skew_ns = _skew_ns(plan, name, switch) + _late_ns(plan, name)
    reset_timeout_ms = (2 * stream.period_ns + skew_ns) // _NS_PER_MS + 1
    apart = skew_ns // stream.period_ns + 1  # periods, that of the copy itself included
    silent = reset_timeout_ms * _NS_PER_MS // stream.period_ns
    length = stream.frames * (apart + silent)
    history_length = min(max(length, HISTORY_LENGTH_MIN), HISTORY_LENGTH_MAX)
    # Copies of a slower path come later by no more frames than the history holds: when more are
    # missing, a path has failed.
    detection = LatentErrorDetection(history_length, len(ports)) if len(ports) > 1 else None
    return Recovery(tuple(sorted(ports)), history_length, reset_timeout_ms, detection)


def _skew_ns(plan: Plan, name: str, switch: str) -> int:
    """From the earliest arrival of a copy of a frame at a switch, by any path, to the latest."""
    network, stream = plan.intent.network, plan.intent.streams[name]
    earliest, latest = [], []
    for path in plan.streams[name].paths:
        inbound = {network.links[hop.egress].target.node: hop for hop in path}
        way = list(_way(inbound, switch))
        earliest.append(way[-1].offset_ns + _least_ns(network, stream, way))
        leaving = [hop for hop in path if hop.egress.node == switch]
        latest += [hop.offset_ns + _spread_ns(network, stream, hop) for hop in leaving]
    return max(latest) - min(earliest) + 2 * network.clock_error_ns


def _spread_ns(network: Network, stream: Stream, hop: Hop) -> int:
    """How long after its planned time all frames of a period have come to be sent by a hop, as the
    clocks of both switches allow: each is there when its turn comes, or has left by the end of the
    window that it shares."""
    if hop.is_shared:
        return hop.window_ns
    link = network.links[hop.egress]
    octets = client_octets(network, stream, link)
    return (stream.frames - 1) * network.occupation_max_ns(link, octets)


def _way(inbound: Mapping[str, Hop], switch: str) -> Iterator[Hop]:
    """The hops from the talker to a switch, the last one first."""
    node = switch
    while node in inbound:
        yield inbound[node]
        node = inbound[node].egress.node


def _least_ns(network: Network, stream: Stream, way: list[Hop]) -> int:
    """The shortest time that a frame takes for a way, its last hop first."""
    total_ns = 0
    for hop in way:
        link = network.links[hop.egress]
        octets = client_octets(network, stream, link)
        total_ns += network.reception_min_ns(link, octets) + link.propagation_ns
        if sender := network.bridges.get(hop.egress.node):
            total_ns += sender.processing_min_ns
    return total_ns


def _late_ns(plan: Plan, name: str) -> int:
    """How much later than planned a copy may come while the network recovers; without a bound of
    that the disturbance alone counts, of which `cnc.check.unbounded` warns."""
    disturbance_ns = plan.intent.network.disturbance_ns
    return 0 if disturbance_ns is None else disturbance_ns + plan.recovery_ns.get(name, 0)
