"""What passed the ports of a lab with a kernel for each node, by the frames on its cables.

No node knows of it. A frame leaves a port when its sending begins, and the card at the other end
has it after the time that the cable takes: both to the nanosecond, in true time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cnc.errors import InputError
from cnc.model import Intent, PortRef
from cnc.testbed.intent.lab_model import ImpairedLinks
from cnc.testbed.lab.kernels import layout, offsets
from cnc.testbed.lab.kernels.offsets import TrueOffsets
from cnc.testbed.traffic.cables import CableFrames
from cnc.testbed.traffic.trace.clocks import OwnClocks
from cnc.testbed.traffic.trace.passages import Passage
from cnc.testbed.traffic.trace.taps import BEGINNING_OCTETS, ProbeOf, TappedPort


class CableTaps:
    """Taps at all cables of a lab. Use as a context manager around a run, and `read` within it.

    Raises:
        CncError: the lab has ended, or one of its cables is being captured.
    """

    def __init__(self, lab: str) -> None:
        self._frames = CableFrames(lab)

    def __enter__(self) -> CableTaps:
        return self

    def __exit__(self, *_: object) -> None:
        self._frames.__exit__()

    def read(self, probe_of: ProbeOf, *, keep: bool) -> dict[PortRef, TappedPort]:
        """All that passed; `probe_of` finds the probe in each. `keep`: keep the first octets of
        each frame."""
        network = self._frames.intent.network
        taps = {port: TappedPort() for port in sorted(network.links)}
        tai_offset_ns = offsets.tai_offset_ns(self._record)
        for frame in self._frames.take():
            link = network.links[frame.sender]
            beginning = frame.octets[:BEGINNING_OCTETS]
            octets, probe = len(frame.octets), probe_of(beginning)
            kept = beginning if keep else b""
            left_ns = frame.time_ns + tai_offset_ns
            taps[frame.sender].left.append(Passage(left_ns, octets, probe, kept))
            if frame.arrives:
                came_ns = left_ns + layout.travel_ns(network, link, octets)
                taps[link.target].arrived.append(Passage(came_ns, octets, probe, kept))
        return taps

    def clocks(self, taps: Mapping[PortRef, TappedPort]) -> OwnClocks:
        """The clocks of all nodes from the first passage to the last."""
        times_ns = [
            each.times_ns for tap in taps.values() for each in (tap.left, tap.arrived) if each
        ]
        begin_ns = min((each[0] for each in times_ns), default=0) - offsets.PERIOD_NS
        end_ns = max((each[-1] for each in times_ns), default=0) + offsets.PERIOD_NS
        recorded = (
            replace(each, time_ns=each.time_ns + begin_ns)
            for each in offsets.span(self._record, begin_ns, end_ns - begin_ns)
        )
        return OwnClocks(TrueOffsets(recorded), offsets.tai_offset_ns(self._record))

    @property
    def _record(self) -> Path:
        file = self._frames.nodes.clock_offsets()
        assert file is not None  # noqa: S101  they are kernels
        return file


def refuse_jitter(intent: Intent) -> None:
    """A tap at a cable knows when a frame was sent, and from that when it came.

    Raises:
        InputError: a cable has jitter or a delay.
    """
    for port, its in intent[ImpairedLinks].by_port.items():
        if its.jitter_ns or its.pareto_ns:
            raise InputError(
                f"the link of {port} has jitter or a delay, and a trace takes each frame to arrive "
                "when the length of its cable says",
                hint="leave both out of its key impairments, or measure with `cnc lab traffic`",
            )
