"""The kernels of a lab, their cards and cables: what both the machine that starts them and the
kernels themselves have to know.

Each kernel holds the namespace of its node, as a lab of one kernel does, so that all that happens
on a node is the same in both. The controller's kernel has its card in its first namespace.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path

from cnc.model import Intent, Link, Network, PortRef, transmission_ns
from cnc.testbed.intent.lab_model import Clock, Clocks, ImpairedLinks, Impairments
from cnc.testbed.lab.addressing import cables, port_addresses
from cnc.testbed.lab.management import SWITCH_PORT

CONTROLLER = "controller"
MARK = "CNC_LAB"  # in the environment of each process that makes up a lab: its directory
HOME = "kernels"  # in a lab's directory: a link to where its kernels have their files; there are
SPECIFICATION = "kernels.json"  # what the supervisor starts,
CONTROL = "control"  # the socket at which commands are asked for,
ENDED = "ended"  # and why the lab has ended, once it has
SHARED = Path("/mnt/out")  # where each kernel finds the directory that it shares with the machine
INTENT_FILE = "intent.json"
CLIENT_KEY = "client-key"
COMMANDS_PORT = 4000  # of IPv6, on a node's management card: where it runs commands
QUEUES = 8  # one per traffic class
SHORTEST_OCTETS, OVERHEAD_OCTETS = 60, 24  # of a frame on a cable: see virtual_network/cable.c
UNSETTLED = "unsettled.json"  # in the shared directory: which clocks are not in step, and why


@dataclass(frozen=True, slots=True)
class Card:
    """A network card: the port that it is, on `node`."""

    node: str
    port: str
    mac: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel. `number` is its turn among those that are due at the same instant."""

    number: int
    node: str
    management: Card
    ports: tuple[Card, ...]
    clock: Clock

    @property
    def link_local(self) -> IPv6Address:
        """The address that its management card gives itself (RFC 4291, appendix A)."""
        octets = [int(each, 16) for each in self.management.mac.split(":")]
        identifier = [octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]]
        return IPv6Address(b"\xfe\x80" + bytes(6) + bytes(identifier))


def kernels(intent: Intent) -> dict[str, Kernel]:
    """All kernels of a lab by node, the controller's among them, in their order."""
    network = intent.network
    ports = port_addresses(network)
    result = {}
    nodes = [CONTROLLER, *network.bridges, *network.end_stations]
    for number, node in enumerate(nodes):
        mac = f"02:02:{number >> 8:02x}:{number & 0xFF:02x}:00:01"
        cards = (Card(node, ref.port, ports[ref].mac) for ref in sorted(ports) if ref.node == node)
        result[node] = Kernel(
            number,
            node,
            Card(node, SWITCH_PORT, mac),
            tuple(cards),
            intent[Clocks].by_node.get(node, Clock()),
        )
    return result


def cable_lines(intent: Intent) -> list[str]:
    """The cables, as virtual-network reads them.

    A frame spends the least processing time of the switch that it reaches on the cable, so that it
    is in its queue at the earliest time of the plan.
    """
    network = intent.network
    return [
        f"cable {one} {other} rate={network.links[one].rate_bps} "
        f"propagation={_propagation_ns(network, network.links[one])} "
        f"propagation-back={_propagation_ns(network, network.links[other])}"
        f"{_impaired(one, other, intent[ImpairedLinks].by_port.get(one))}"
        for one, other in cables(network)
    ]


def _impaired(one: PortRef, other: PortRef, its: Impairments | None) -> str:
    """What its line says of a cable that impairs frames: each another ones, and the same in each
    lab that is made of the network."""
    if its is None:
        return ""
    return (
        f" jitter={its.jitter_ns} pareto={its.pareto_ns} loss-ppb={its.frame_loss_ppb} "
        f"bit-error-ppt={its.bit_errors_ppt} seed={zlib.crc32(f'{one} {other}'.encode())}"
    )


def occupied_ns(link: Link, octets: int) -> int:
    """How long a frame is on a cable, by its octets from the MAC header on, without FCS. As
    `line_occupied_ns` of virtual_network/cable.c has it."""
    return transmission_ns(max(octets, SHORTEST_OCTETS) + OVERHEAD_OCTETS, link.rate_bps)


def travel_ns(network: Network, link: Link, octets: int) -> int:
    """From the instant at which the sending of a frame begins until the card at the other end of
    the cable has it."""
    return occupied_ns(link, octets) + _propagation_ns(network, link)


def _propagation_ns(network: Network, link: Link) -> int:
    bridge = network.bridges.get(link.target.node)
    return link.propagation_ns + (bridge.processing_min_ns if bridge else 0)
