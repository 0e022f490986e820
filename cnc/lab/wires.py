"""Cables with the delays of the intent.

A veth pair has no delay. Here every cable is two pairs that meet in a namespace of
their own, where each frame passes a netem qdisc: transmission at the link's rate,
propagation, and the receiving switch's least processing time. So a frame
enters its queue at the earliest time of the plan, and only the gates delay it further.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping

from cnc.errors import CncError
from cnc.model import Link, Network, PortRef

MAC_HEADER_OCTETS = 14  # counted by the kernel beside the payload
QUEUE_FRAMES = 10_000
NETEM_UNIT_NS = 64  # tc rounds delays down to multiples of it


def connect(network: Network, namespace: str, wires: Mapping[PortRef, str]) -> None:
    """Join the inner ends of all cables: interfaces of `namespace`, by the port at the outer end.

    Raises:
        CncError: the kernel refused, most likely because it has no netem or mirred.
    """
    # tc, not netlink: pyroute2 cannot give netem a rate, nor a delay below a microsecond.
    batches = {
        "ip": [f"link set {wire} up" for wire in wires.values()],
        "tc": [
            line
            for link in network.links.values()
            for line in _carry(network, link, wires[link.source], wires[link.target])
        ],
    }
    for program, lines in batches.items():
        run = subprocess.run(
            [program, "-n", namespace, "-batch", "-"],
            input="\n".join(lines),
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode != 0:
            raise CncError(
                f"cannot join the lab's cables: {run.stderr.strip()}",
                hint="the kernel needs sch_netem, sch_ingress, cls_matchall and act_mirred",
            )


def travel_ns(network: Network, link: Link, payload_octets: int) -> int:
    """Time of a frame from the start of its transmission to its arrival, as emulated."""
    delay_ns = _delay_ns(network, link) // NETEM_UNIT_NS * NETEM_UNIT_NS
    return network.reception_ns(link, payload_octets) + delay_ns


def _delay_ns(network: Network, link: Link) -> int:
    """Least time from the last bit sent until the frame is in the next queue."""
    bridge = network.bridges.get(link.target.node)
    return link.propagation_ns + (bridge.processing_min_ns if bridge else 0)


def _carry(network: Network, link: Link, entry: str, exit_: str) -> Iterator[str]:
    """The tc commands for one direction: frames from `entry` are sent by `exit_` after the
    delay."""
    overhead = network.overhead
    # Until reception of the last bit: the gap that follows a frame delays only the next one.
    reception_octets = (
        overhead.link_layer_octets + overhead.physical_octets - overhead.gap_octets
    ) - MAC_HEADER_OCTETS
    yield (
        f"qdisc add dev {exit_} root netem limit {QUEUE_FRAMES} "
        f"delay {_delay_ns(network, link) / 1000}us rate {link.rate_bps}bit {reception_octets}"
    )
    yield f"qdisc add dev {entry} ingress"
    yield (f"filter add dev {entry} ingress matchall action mirred egress redirect dev {exit_}")
