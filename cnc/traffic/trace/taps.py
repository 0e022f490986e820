"""Taps at all ports of a lab: when each frame passed each port.

What they see waits in the kernel until the run is over, so that no program runs beside it.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Protocol, Self

from cnc.errors import CncError
from cnc.format import counted
from cnc.lab.running import Lab
from cnc.model import PortRef
from cnc.traffic.probe_filter import HEADERS_OCTETS, probe_of
from cnc.traffic.sockets import PROBE, tai_offset_ns
from cnc.traffic.tap import Tap
from cnc.traffic.trace.passages import Passage, Passages

BEGINNING_OCTETS = HEADERS_OCTETS + PROBE.size  # in which a probe is found


class Source(Protocol):
    """Where what passes the ports of a lab is to be had. Use as a context manager around a run, and
    `read` within it."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def read(self, udp_ports: Collection[int], *, keep: bool) -> Mapping[PortRef, TappedPort]:
        """All that passed since it is there. Probes are in UDP packets to `udp_ports`, too. `keep`:
        keep the first octets of each frame.

        Raises:
            CncError: frames are missing, since a buffer was full.
        """


@dataclass(frozen=True, slots=True)
class TappedPort:
    """What left a port and what arrived there, each in order of time."""

    left: Passages
    arrived: Passages


class Taps:
    """Taps at ports of a lab of namespaces; see `Source`."""

    def __init__(self, lab: Lab, ports: Collection[PortRef]) -> None:
        self._lab = lab.intent.name
        self._ports = sorted(ports)
        self._stack = ExitStack()
        self._taps: list[Tap] = []

    def __enter__(self) -> Taps:
        with self._stack:
            for port in self._ports:
                self._taps.append(self._stack.enter_context(closing(Tap(self._lab, port))))
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def read(self, udp_ports: Collection[int], *, keep: bool) -> dict[PortRef, TappedPort]:
        offset_ns = tai_offset_ns()
        return {tap.port: _read(tap, udp_ports, offset_ns, keep=keep) for tap in self._taps}


def _read(tap: Tap, udp_ports: Collection[int], offset_ns: int, *, keep: bool) -> TappedPort:
    left, arrived = Passages(), Passages()
    while True:
        try:
            frame = tap.take(BEGINNING_OCTETS, socket.MSG_DONTWAIT)
        except BlockingIOError:
            break
        probe = probe_of(frame.octets, udp_ports)
        beginning = frame.octets if keep else b""
        passage = Passage(frame.time_ns + offset_ns, frame.length_octets, probe, beginning)
        (left if frame.is_leaving else arrived).append(passage)
    if dropped := tap.dropped():
        raise CncError(
            f"{tap.port}: {counted(dropped, 'frame')} found no room in the buffer of the tap",
            hint="trace for fewer cycles",
        )
    return TappedPort(left, arrived)
