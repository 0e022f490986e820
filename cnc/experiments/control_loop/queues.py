"""Ports without a schedule that send at the rate of their link: in order of arrival, or the
scheduled classes first (strict priority, IEEE 802.1Q 8.6.8.1)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from cnc.lab.running import Lab
from cnc.lab.wires import SHAPED_FRAMES, SHAPER_LIMIT_OCTETS, WIRE_OVERHEAD_OCTETS
from cnc.model import ClassRole, Intent, PortRef

BURST_OCTETS = 1_600  # one frame: more would stand on the wire, before whatever comes next
DSCP_SHIFT, DSCP_MASK = 2, "0xfc"
FIRST, SECOND = "2:1", "2:2"
PRIORITIES = 16  # of the kernel's


def fifo(running: Lab) -> None:
    """Give every port of a switch one queue."""
    for port in _ports(running.intent):
        _tc(running, port.node, *_shaper(running.intent, port))
        _tc(running, port.node, f"qdisc add dev {port.port} parent 1: pfifo limit {SHAPED_FRAMES}")


def strict_priority(running: Lab) -> None:
    """Give every port of a switch two queues, of which the first is for the scheduled classes."""
    scheduled = running.intent.classes_with(ClassRole.SCHEDULED)
    dscps = sorted({dscp for its in scheduled for dscp in its.dscps})
    for port in _ports(running.intent):
        _tc(running, port.node, *_shaper(running.intent, port), *_two_queues(port.port, dscps))


def remove(running: Lab) -> None:
    """Take the queues away again."""
    for port in _ports(running.intent):
        _tc(running, port.node, f"qdisc del dev {port.port} root")


def _ports(intent: Intent) -> list[PortRef]:
    return [port for port in intent.network.links if port.node in intent.network.bridges]


def _shaper(intent: Intent, port: PortRef) -> Iterator[str]:
    yield (
        f"qdisc add dev {port.port} root handle 1: stab overhead {WIRE_OVERHEAD_OCTETS} tbf rate "
        f"{intent.network.links[port].rate_bps}bit burst {BURST_OCTETS} limit {SHAPER_LIMIT_OCTETS}"
    )


def _two_queues(port: str, dscps: list[int]) -> Iterator[str]:
    second = " ".join(["1"] * PRIORITIES)
    yield f"qdisc add dev {port} parent 1: handle 2: prio bands 2 priomap {second}"
    for queue in (FIRST, SECOND):
        yield f"qdisc add dev {port} parent {queue} pfifo limit {SHAPED_FRAMES}"
    for dscp in dscps:
        value = f"{dscp << DSCP_SHIFT:#04x} {DSCP_MASK} flowid {FIRST}"
        yield f"filter add dev {port} parent 2: protocol ip prio 1 u32 match ip dsfield {value}"
        yield f"filter add dev {port} parent 2: protocol ipv6 prio 2 u32 match ip6 priority {value}"


def _tc(running: Lab, node: str, *lines: str) -> None:
    for line in lines:
        subprocess.run(running.command(node, ["tc", *line.split()]), check=True)
