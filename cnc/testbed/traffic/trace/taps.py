"""Taps at all ports of a lab: when each frame passed each port.

What they see waits in the kernel for a second at most, where a tap has room for ten thousands of
frames, and in columns until the run is over.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from threading import Event

from cnc.errors import CncError
from cnc.model import NS_PER_S, PortRef
from cnc.support.format import counted
from cnc.talker import tai_ns
from cnc.talker.clock import tai_offset_ns
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic.probe_filter import HEADERS_OCTETS
from cnc.testbed.traffic.sockets import PROBE
from cnc.testbed.traffic.tap import Tap
from cnc.testbed.traffic.trace.passages import Passage, Passages, Probe

BEGINNING_OCTETS = HEADERS_OCTETS + PROBE.size  # in which a probe is found
# Seldom, since reading the clock for it may delay a program by some hundred nanoseconds.
_EMPTIED_EVERY_S = 1.0

ProbeOf = Callable[[bytes], Probe | None]
"""Which probe the first octets of a frame hold; None: none."""


@dataclass(frozen=True, slots=True)
class TappedPort:
    """What left a port and what arrived there, each in order of time."""

    left: Passages = field(default_factory=Passages)
    arrived: Passages = field(default_factory=Passages)


class Taps:
    """Taps at ports of a lab of namespaces. Use as a context manager around a run.

    `probe_of` finds the probe in each. `keep`: keep the first octets of each frame.
    """

    def __init__(
        self, lab: Lab, ports: Collection[PortRef], probe_of: ProbeOf, *, keep: bool
    ) -> None:
        self._lab = lab.intent.name
        self._ports = sorted(ports)
        self._probe_of, self._keep = probe_of, keep
        self._stack = ExitStack()
        self._taps: list[tuple[Tap, TappedPort]] = []
        self._tai_offset_ns = tai_offset_ns()
        self._has_ended = Event()
        self._emptying: Future[None] | None = None

    def __enter__(self) -> Taps:
        with self._stack:
            for port in self._ports:
                tap = self._stack.enter_context(closing(Tap(self._lab, port)))
                self._taps.append((tap, TappedPort()))
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self._stack.close()

    def empty_from(self, start_ns: int) -> None:
        """Take what waits in the taps each second, the first time a second after a run begins at an
        instant (TAI): a shorter one has no program beside it."""
        self._emptying = self._stack.enter_context(ThreadPoolExecutor(1)).submit(
            self._empty_each_second, start_ns
        )

    def read(self) -> dict[PortRef, TappedPort]:
        """All that passed since they are there.

        Raises:
            CncError: frames are missing, since a buffer was full.
        """
        self._has_ended.set()
        if self._emptying:
            self._emptying.result()
        self._empty()
        for tap, _ in self._taps:
            if dropped := tap.dropped():
                raise CncError(
                    f"{tap.port}: {counted(dropped, 'frame')} found no room in the buffer of the "
                    "tap, which is emptied each second",
                    hint="have less sent in a second, such as best effort",
                )
        return {tap.port: tapped for tap, tapped in self._taps}

    def _empty_each_second(self, start_ns: int) -> None:
        wait_s = (start_ns - tai_ns()) / NS_PER_S + _EMPTIED_EVERY_S
        while not self._has_ended.wait(wait_s):
            self._empty()
            wait_s = _EMPTIED_EVERY_S

    def _empty(self) -> None:
        for tap, tapped in self._taps:
            while True:
                try:
                    frame = tap.take(BEGINNING_OCTETS, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    break
                probe = self._probe_of(frame.octets)
                beginning = frame.octets if self._keep else b""
                time_ns = frame.time_ns + self._tai_offset_ns
                passage = Passage(time_ns, frame.length_octets, probe, beginning)
                (tapped.left if frame.is_leaving else tapped.arrived).append(passage)
