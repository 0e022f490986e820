"""Taps at all ports of a lab: when each frame passed each port.

What they see waits in the kernel until the run is over, so that no program runs beside it.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from cnc.errors import CncError, InputError
from cnc.format import counted
from cnc.lab.namespaced import Namespaces
from cnc.lab.running import Lab
from cnc.model import PortRef
from cnc.traffic.probe_filter import HEADERS_OCTETS, probe_of
from cnc.traffic.sockets import PROBE, tai_offset_ns
from cnc.traffic.tap import Tap

Probe = tuple[int, int]
"""Flow number and sequence number."""


class Passage(NamedTuple):
    """A frame at a port: when (TAI), how many octets it has from the MAC header on, which it is, or
    None if it is no probe; and its first octets, if the tap was to keep them."""

    time_ns: int
    octets: int
    probe: Probe | None
    beginning: bytes = b""


@dataclass(frozen=True)
class TappedPort:
    """What left a port and what arrived there, each in order of time."""

    left: tuple[Passage, ...]
    arrived: tuple[Passage, ...]

    @cached_property
    def left_by_probe(self) -> Mapping[Probe, list[int]]:
        """The places in `left` of each probe."""
        return _places(self.left)

    @cached_property
    def arrived_by_probe(self) -> Mapping[Probe, list[int]]:
        """The places in `arrived` of each probe."""
        return _places(self.arrived)


def _places(passages: tuple[Passage, ...]) -> dict[Probe, list[int]]:
    places: dict[Probe, list[int]] = {}
    for place, passage in enumerate(passages):
        if passage.probe:
            places.setdefault(passage.probe, []).append(place)
    return places


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
    left: list[Passage] = []
    arrived: list[Passage] = []
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
    return TappedPort(tuple(left), tuple(arrived))
