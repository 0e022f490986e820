"""Cables with the delays of the intent.

A veth pair has no delay. Here every cable is two pairs that meet in a namespace of
their own, where each frame passes a netem qdisc: transmission at the link's rate,
propagation, and the receiving switch's least processing time. So a frame
enters its queue at the earliest time of the plan, and only the gates delay it further.

A port below the rates that gates can reckon with has none, so it gets a shaper of its own: what is
sent faster than the link carries then waits, and is dropped, in the port and not on the wire.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cnc.model import Link, Network, PortRef, transmission_ns
from cnc.testbed.lab.addressing import port_addresses
from cnc.testbed.lab.iproute2 import batch

MAC_HEADER_OCTETS = 14  # counted by the kernel beside the payload
QUEUE_FRAMES = 10_000
SHAPER = "1"
WIRE_OVERHEAD_OCTETS = 24  # preamble 8, check sequence 4, gap 12, beside what the kernel counts
BURST_OCTETS = 9_216  # the longest frame; short ones of a burst wait on the wire instead
SHAPER_LIMIT_OCTETS = 100_000_000  # the frames of the pfifo are what limits
SHAPED_FRAMES = 1_000  # txqueuelen of a veth: what a queue with gates holds, too
NETEM_UNIT_NS = 64  # tc rounds delays down to multiples of it


def interfaces(network: Network) -> dict[PortRef, str]:
    """The interface at which the cable of each port begins, in the namespace of the cables."""
    return {port: f"w{number}" for number, port in enumerate(port_addresses(network))}


def connect(
    network: Network,
    namespace: str,
    wires: Mapping[PortRef, str],
    pareto_ns: Mapping[PortRef, int],
) -> None:
    """Join the inner ends of all cables: interfaces of `namespace`, by the port at the outer end.

    `pareto_ns`: how much longer than the network says frames from a port take on average.

    Raises:
        CncError: the kernel refused, most likely because it has no netem or mirred.
    """
    # tc, not netlink: pyroute2 cannot give netem a rate, nor a delay below a microsecond.
    batches = {
        "ip": [f"link set {wire} up" for wire in wires.values()],
        "tc": [
            line
            for link in network.links.values()
            for line in _carry(
                network,
                link,
                (wires[link.source], wires[link.target]),
                pareto_ns.get(link.source, 0),
            )
        ],
    }
    for program, lines in batches.items():
        batch(
            [program, "-n", namespace],
            lines,
            aim="join the lab's cables",
            needs="sch_netem, sch_ingress, cls_matchall and act_mirred",
        )


def shape(namespace: str, rates_bps: Mapping[str, int]) -> None:
    """Give ports of a node that have no gates the rates of their links: tbf, and a pfifo in it.

    A frame that finds the link free leaves at once, so nothing else changes.

    Raises:
        CncError: the kernel refused, most likely because it has no tbf.
    """
    lines = [line for port, rate_bps in rates_bps.items() for line in _shaper(port, rate_bps)]
    aim = "give ports without gates the rates of their links"
    batch(["tc", "-n", namespace], lines, aim=aim, needs="sch_tbf")


def _shaper(port: str, rate_bps: int) -> Iterator[str]:
    yield (
        f"qdisc add dev {port} root handle {SHAPER}: stab overhead {WIRE_OVERHEAD_OCTETS} "
        f"tbf rate {rate_bps}bit burst {BURST_OCTETS} limit {SHAPER_LIMIT_OCTETS}"
    )
    yield f"qdisc add dev {port} parent {SHAPER}: pfifo limit {SHAPED_FRAMES}"


def overhead_octets(network: Network) -> int:
    """For how many octets more than the kernel counts a frame is on a cable.

    Until reception of the last bit: the gap that follows a frame delays only the next one.
    """
    overhead = network.overhead
    return (
        overhead.link_layer_octets + overhead.physical_octets - overhead.gap_octets
    ) - MAC_HEADER_OCTETS


def occupied_ns(network: Network, link: Link, octets: int) -> int:
    """How long a frame is on a cable, by its octets from the MAC header on, as emulated."""
    return transmission_ns(octets + overhead_octets(network), link.rate_bps)


def travel_ns(network: Network, link: Link, payload_octets: int) -> int:
    """Time of a frame from the start of its transmission to its arrival, as emulated."""
    delay_ns = _delay_ns(network, link) // NETEM_UNIT_NS * NETEM_UNIT_NS
    return network.reception_ns(link, payload_octets) + delay_ns


def _delay_ns(network: Network, link: Link) -> int:
    """Least time from the last bit sent until the frame is in the next queue."""
    bridge = network.bridges.get(link.target.node)
    return link.propagation_ns + (bridge.processing_min_ns if bridge else 0)


def _carry(network: Network, link: Link, ends: tuple[str, str], pareto_ns: int) -> Iterator[str]:
    """The tc commands for one direction: frames from the first end are sent by the other one after
    the delay."""
    entry, exit_ = ends
    rate = f"{link.rate_bps}bit {overhead_octets(network)}"
    delay = f"delay {_delay_ns(network, link) / 1000}us"
    if pareto_ns:
        # netem adds to the delay that is stated two thirds of the scale less, at least, and 4.67
        # times this at most (iproute2, netem/pareto.c: shape 3, from -2/3 to 4). With a rate no
        # frame comes before the one ahead of it (net/sched/sch_netem.c).
        scale_ns = pareto_ns * 3 // 2
        delay = f"delay {(_delay_ns(network, link) + pareto_ns) / 1000}us {scale_ns / 1000}us"
        delay += " distribution pareto"
    yield f"qdisc add dev {exit_} root netem limit {QUEUE_FRAMES} {delay} rate {rate}"
    yield f"qdisc add dev {entry} ingress"
    yield (f"filter add dev {entry} ingress matchall action mirred egress redirect dev {exit_}")
