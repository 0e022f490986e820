"""When frames become late because one switch's clock is wrong, computed from the plan alone.

Each frame is followed by itself: as long as none is late, frames do not meet. A switch whose clock
is ahead opens and closes its gates early by that, one that is behind late. Cables and switches take
what the lab has them take, and talkers send on time.
"""

from __future__ import annotations

from collections.abc import Iterator

from cnc.chart.axis import open_times
from cnc.model import GateControlList, Link, Network, Plan, transmission_ns
from cnc.testbed.lab import wires

STEP_NS = 10


def first_late_ns(plan: Plan, switch: str, *, ahead: bool, limit_ns: int) -> dict[str, int]:
    """By stream the least error of a switch's clock with which a frame is later than its bound; a
    stream that keeps it up to `limit_ns` is left out."""
    found = {}
    for stream in plan.streams:
        for error_ns in range(0, limit_ns + 1, STEP_NS):
            if is_late(plan, stream, switch, error_ns if ahead else -error_ns):
                found[stream] = error_ns
                break
    return found


def is_late(plan: Plan, stream: str, switch: str, error_ns: int) -> bool:
    """Whether a frame of a stream exceeds its bound while the clock is ahead by `error_ns`."""
    bound_ns = plan.streams[stream].latency_bound_ns
    return any(each > bound_ns for each in latencies_ns(plan, stream, switch, error_ns))


def latencies_ns(plan: Plan, stream: str, switch: str, error_ns: int) -> Iterator[int]:
    """Of the frames of a hyperperiod, from the planned start of sending to the last bit."""
    asked = plan.intent.streams[stream]
    (hops,) = plan.streams[stream].paths
    network = plan.intent.network
    for begin_ns in range(0, plan.intent.hyperperiod_ns(), asked.period_ns):
        sent_ns = time_ns = begin_ns + hops[0].offset_ns
        for hop in hops:
            link = network.links[hop.egress]
            if hop.egress in plan.gates:
                local_ns = error_ns if hop.egress.node == switch else 0
                occupied_ns = _occupation_ns(link, asked.payload_octets)
                gates = plan.gates[hop.egress]
                leaves_ns = departure_ns(gates, hop.traffic_class, time_ns + local_ns, occupied_ns)
                time_ns = leaves_ns - local_ns
            time_ns += _occupation_ns(link, asked.payload_octets) + _delay_ns(network, link)
        yield time_ns - sent_ns


def departure_ns(gates: GateControlList, traffic_class: int, ready_ns: int, takes_ns: int) -> int:
    """When a frame that is ready starts: the gate is to be open until it has been sent.

    The class's gate opens for long enough in each cycle.
    """
    windows = list(open_times(gates, traffic_class))
    (first_ns, closes_ns), (last_ns, ends_ns) = windows[0], windows[-1]
    if first_ns == 0 and ends_ns == gates.cycle_ns:
        windows[-1] = last_ns, ends_ns + closes_ns
    begin_ns = ready_ns // gates.cycle_ns * gates.cycle_ns - gates.cycle_ns
    while True:
        for opens_ns, closes_ns in windows:
            start_ns = max(ready_ns, begin_ns + opens_ns)
            if start_ns + takes_ns <= begin_ns + closes_ns:
                return start_ns
        begin_ns += gates.cycle_ns


def _occupation_ns(link: Link, payload_octets: int) -> int:
    """How long the lab's card sends an untagged frame, preamble and gap included."""
    octets = max(payload_octets + wires.MAC_HEADER_OCTETS, 60) + wires.WIRE_OVERHEAD_OCTETS
    return transmission_ns(octets, link.rate_bps)


def _delay_ns(network: Network, link: Link) -> int:
    bridge = network.bridges.get(link.target.node)
    return link.propagation_ns + (bridge.processing_min_ns if bridge else 0)
