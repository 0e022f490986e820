"""Taps at all ports of a lab: when each frame passed each port.

What they see waits in the kernel until the run is over, so that no program runs beside it.
"""

from __future__ import annotations

import socket
from collections.abc import Collection
from contextlib import ExitStack, closing
from dataclasses import dataclass

from cnc.errors import CncError, InputError
from cnc.format import counted
from cnc.lab.namespaced import Namespaces
from cnc.lab.running import Lab
from cnc.model import PortRef
from cnc.traffic.probe_filter import HEADERS_OCTETS, probe_of
from cnc.traffic.sockets import PROBE, tai_offset_ns
from cnc.traffic.tap import Tap
from cnc.traffic.trace.passages import Passage, Passages


@dataclass(frozen=True, slots=True)
class TappedPort:
    """What left a port and what arrived there, each in order of time."""

    left: Passages
    arrived: Passages


class Taps:
    """Taps at ports of a lab. Use as a context manager around a run, and `read` within it.

    Raises:
        InputError: its nodes are kernels of their own.
    """

    def __init__(self, lab: Lab, ports: Collection[PortRef]) -> None:
        if not isinstance(lab.nodes, Namespaces):
            raise InputError(
                f"the ports of lab {lab.intent.name} are in kernels of their own, where no tap can "
                "be opened from here",
                hint="trace in a lab that `cnc lab up` brings up without --kernels own",
            )
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
        """All that passed since the taps are there. Probes are in UDP packets to `udp_ports`, too.
        `keep`: keep the first octets of each frame.

        Raises:
            CncError: frames are missing, since a buffer was full.
        """
        offset_ns = tai_offset_ns()
        return {tap.port: _read(tap, udp_ports, offset_ns, keep=keep) for tap in self._taps}


def _read(tap: Tap, udp_ports: Collection[int], offset_ns: int, *, keep: bool) -> TappedPort:
    left, arrived = Passages(), Passages()
    while True:
        try:
            frame = tap.take(HEADERS_OCTETS + PROBE.size, socket.MSG_DONTWAIT)
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
