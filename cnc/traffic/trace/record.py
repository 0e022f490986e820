"""A run through a lab with taps at all its ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cnc.lab.running import Lab
from cnc.model import Plan, PortRef
from cnc.traffic.endpoint import PORT
from cnc.traffic.flows import UntaggedFlow
from cnc.traffic.recording import AnyFlow, Recording, run
from cnc.traffic.trace import account
from cnc.traffic.trace.account import CLOCK_READ_NS, Account, Circumstances
from cnc.traffic.trace.join import join
from cnc.traffic.trace.taps import TappedPort, Taps
from cnc.traffic.trace.ways import ways
from cnc.traffic.untagged import UdpPackets


@dataclass(frozen=True, slots=True)
class Trace:
    """What was sent, all stamps of it, and what passed each port."""

    plan: Plan
    sent: Sequence[AnyFlow]
    recording: Recording
    taps: Mapping[PortRef, TappedPort]
    timed_wires: bool

    @property
    def hops_max(self) -> int:
        """How many ports the longest way of a flow has."""
        return max((len(way) for flow in self.sent for way in ways(self.plan, flow)), default=0)

    def accounts(self) -> Iterator[Account]:
        """Where the time of each frame went, one for each copy, in the order of the recording.

        One at a time: together they take twenty times the room of what they are computed from.
        """
        network = self.plan.intent.network
        routes = {flow.name: ways(self.plan, flow) for flow in self.sent}
        rows = join(network, routes, self.sent, self.recording, self.taps)
        under = Circumstances(network, self.plan.gates, self.timed_wires, CLOCK_READ_NS)
        return account.account(under, self.sent, rows, self.taps)


def record(
    lab: Lab,
    plan: Plan,
    sent: Sequence[AnyFlow],
    duration_ns: int,
    directory: Path,
    *,
    keep: bool = False,
) -> Trace:
    """Send the flows as `cnc.traffic.recording.run` does, with all stamps, and tap every port.

    `keep`: the trace has the first octets of each frame, so that it can be written as a capture.

    Raises what `run` does, and what `Taps` does.
    """
    udp_ports = {PORT} | {
        flow.sending.port
        for flow in sent
        if isinstance(flow, UntaggedFlow) and isinstance(flow.sending, UdpPackets)
    }
    with Taps(lab, plan.intent.network.links) as taps:
        recording = run(lab, sent, duration_ns, directory, stamps=True, deliveries=True)
        tapped = taps.read(udp_ports, keep=keep)
        return Trace(plan, sent, recording, tapped, lab.nodes.timed_wires)
