"""The program that sends captured packets from one node, on a timeline of CLOCK_TAI."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cnc.errors import CncError
from cnc.support import whole_file
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic.endpoint import IP_AND_UDP_OCTETS, PORT
from cnc.testbed.traffic.ethernet import Destination
from cnc.testbed.traffic.probe import LACKING, PROGRAM, REMEDY
from cnc.testbed.traffic.replay.flow import ReplayedFlow
from cnc.testbed.traffic.station import Station


class ReplaySender(Station):
    """`tsn-probe replay` at a node: all captured packets that it sends, by the numbers of their
    flows, to the addresses of their listeners."""

    def __init__(
        self,
        lab: Lab,
        node: str,
        turn: int,
        flows: Mapping[int, ReplayedFlow],
        addresses: Mapping[str, Any],
    ) -> None:
        super().__init__(lab, "replay", node, turn, {})
        self._flows, self._turn, self._addresses = flows, turn, addresses

    def _written(self, file: Path, parameters: Mapping[str, Any]) -> Sequence[str]:
        if not PROGRAM.exists():
            raise CncError(LACKING, hint=REMEDY)
        with whole_file.opened_text(file) as opened:
            for number, flow in self._flows.items():
                to = self._addresses[flow.listener].of_version(flow.ip_version)
                opened.write(f"flow {number} {to} {PORT} {flow.dscp}\n")
            opened.write(
                f"run {parameters['duration_ns']} {parameters['drain_ns']} {self._turn} "
                f"{int(self._are_stamped(parameters['stamps']))}\n"
            )
            for at_ns, number, octets in self._packets(parameters["duration_ns"]):
                opened.write(f"{at_ns} {number} {octets}\n")
        return [str(PROGRAM), "replay", str(file), "--output", str(self._output)]

    def _are_stamped(self, stamps: bool | list[int]) -> bool:
        """One program sends all of them, and stamps all where one is to have stamps."""
        return stamps if isinstance(stamps, bool) else any(n in stamps for n in self._flows)

    def _packets(self, duration_ns: int) -> Iterator[tuple[int, int, int]]:
        """Instant, flow and UDP payload of each packet, in the order of time."""
        return heapq.merge(
            *(_of_flow(number, flow, duration_ns) for number, flow in self._flows.items())
        )

    def destinations(self) -> Iterator[tuple[int, int, Destination]]:
        """None: IP packets are addressed by the kernel."""
        return iter(())


def _of_flow(number: int, flow: ReplayedFlow, duration_ns: int) -> Iterator[tuple[int, int, int]]:
    headers = IP_AND_UDP_OCTETS[flow.ip_version]
    for at_ns, octets in flow.timeline.until(duration_ns - flow.offset_ns):
        yield at_ns + flow.offset_ns, number, octets - headers
