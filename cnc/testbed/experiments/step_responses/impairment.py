"""A longer and lossy way between two stations: delay and loss at the ports of its talkers.

Frames that are to be lost are named beforehand, and no chance is left to the kernel: so the same
frames are lost in every run, and what a loop makes of that can be computed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from cnc.testbed.lab.iproute2 import batch
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic.endpoint import IP_AND_UDP_OCTETS
from cnc.testbed.traffic.loop.stations import PORT

LOST_MAX = 4_000  # the kernel's u32 classifier has room for 4,095 filters of one priority
QUEUE_FRAMES = 100_000  # more than are on their way at once
UDP_OCTETS = 8
FLOW_NUMBER_OCTETS = 2  # before the sequence number of a probe
LOW_BITS = 16


@dataclass(frozen=True, slots=True)
class Impairment:
    """What befalls the frames that a talker sends by `port`: each comes `delay_ns` later, and those
    with these sequence numbers never."""

    talker: str
    port: str
    ip_version: int
    delay_ns: int
    lost: Collection[int]

    def commands(self) -> Iterator[str]:
        """For `tc`, to have it."""
        if self.delay_ns:
            delay = f"delay {self.delay_ns / 1000}us"
            yield f"qdisc add dev {self.port} root netem limit {QUEUE_FRAMES} {delay}"
        if self.lost:
            yield f"qdisc add dev {self.port} clsact"
            for seq in sorted(self.lost):
                yield self._drop(seq)

    def removal(self) -> Iterator[str]:
        """Undoes `commands`."""
        if self.delay_ns:
            yield f"qdisc del dev {self.port} root"
        if self.lost:
            yield f"qdisc del dev {self.port} clsact"

    def _drop(self, seq: int) -> str:
        matches = probes_match(self.ip_version, PORT, seq)
        return f"filter add dev {self.port} egress prio 1 {matches} action drop"


def probes_match(ip_version: int, udp_port: int, seq: int) -> str:
    """For `tc filter`: what probes to a port with this sequence number match.

    u32 compares words at multiples of four octets; the number lies across two of them.
    """
    headers_octets = IP_AND_UDP_OCTETS[ip_version]
    at = headers_octets + FLOW_NUMBER_OCTETS
    high, low = divmod(seq, 1 << LOW_BITS)
    destination_port = headers_octets - UDP_OCTETS + 2
    matches = " ".join(
        f"match u16 {value:#06x} 0xffff at {offset}"
        for value, offset in ((udp_port, destination_port), (high, at), (low, at + 2))
    )
    protocol = {4: "ip", 6: "ipv6"}[ip_version]
    return f"protocol {protocol} u32 {matches}"


@contextmanager
def impaired(running: Lab, impairments: Sequence[Impairment]) -> Iterator[None]:
    """Have them in place for the time of a `with` block.

    Raises:
        CncError: the kernel refused, most likely because it has no netem or u32.
    """
    with ExitStack() as stack:
        for each in impairments:
            if lines := [*each.commands()]:
                _tc(running, each.talker, lines)
                stack.callback(_tc, running, each.talker, [*each.removal()])
        yield


def _tc(running: Lab, node: str, lines: Sequence[str]) -> None:
    needs = "sch_netem, sch_ingress, cls_u32 and act_gact"
    aim = f"delay and lose frames of {node}"
    batch(running.command(node, ["tc"]), lines, aim=aim, needs=needs)
