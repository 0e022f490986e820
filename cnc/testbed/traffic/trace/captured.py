"""A trace as a capture, so that Wireshark shows the plan beside what passed each port."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import BinaryIO

from cnc.captures.pcapng import Address, CaptureFile, Direction
from cnc.model import Plan, PortRef
from cnc.support.format import microseconds
from cnc.testbed.lab.addressing import addresses, port_addresses
from cnc.testbed.traffic.recording import BridgedFlow
from cnc.testbed.traffic.trace.passages import Passage, Probe
from cnc.testbed.traffic.trace.record import Trace
from cnc.version import __version__


def write(trace: Trace, file: BinaryIO, *, system: str) -> None:
    """Write the first octets of every frame at every port, which the taps must have kept, as
    pcapng. Comments name stream and sequence number, and where a frame leaves a port that the plan
    has for it, the planned instant, from the start of the run, and the difference. `system` is
    what the frames were sent on.

    Raises what writing to `file` does.
    """
    intent, clocks = trace.plan.intent, trace.under.clocks
    ports = port_addresses(intent.network)
    written = CaptureFile(
        file,
        application=f"cnc {__version__}",
        system=system,
        comment=f"lab {intent.name}; {clocks.comment}",
    )
    names: dict[Address, str] = {end.mac: str(port) for port, end in ports.items()}
    for node, own in addresses(intent).items():
        names |= {own.v4: node, own.v6: node}
    numbers = {
        port: written.add_interface(
            str(port), f"port {port.port} of {port.node}", mac=ports[port].mac
        )
        for port in trace.taps
    }
    written.add_names(names)
    offset_ns = clocks.tai_offset_ns
    comments = _Comments(trace)
    for passage, port, direction in _in_order(trace):
        written.add_frame(
            numbers[port],
            passage.time_ns - offset_ns,
            passage.beginning,
            direction,
            comments.about(port, passage, direction),
            length_octets=passage.octets,
        )


def _in_order(trace: Trace) -> Iterator[tuple[Passage, PortRef, Direction]]:
    """All passages in order of time."""
    by_port = (
        zip(passages, repeat(port), repeat(direction))
        for port, tapped in trace.taps.items()
        for direction, passages in (
            (Direction.OUTBOUND, tapped.left),
            (Direction.INBOUND, tapped.arrived),
        )
    )
    return heapq.merge(*by_port, key=lambda each: each[0].time_ns)


class _Comments:
    """What there is to say of a frame at a port."""

    def __init__(self, trace: Trace) -> None:
        self._start_ns = trace.start_ns
        self._clocks = {node: trace.under.clocks.of(node) for node, _ in trace.taps}
        self._streams = {
            number: flow.stream if isinstance(flow, BridgedFlow) else flow.name
            for number, flow in enumerate(trace.sent)
        }
        numbers = {flow.name: number for number, flow in enumerate(trace.sent)}
        self._planned_ns: Mapping[Probe, int] = {
            (numbers[frame.flow], frame.seq): frame.planned_ns for frame in trace.recording
        }
        self._hops_ns = _hops_ns(trace.plan)

    def about(self, port: PortRef, passage: Passage, direction: Direction) -> list[str]:
        if passage.probe is None or passage.probe not in self._planned_ns:
            return []
        number, seq = passage.probe
        stream = self._streams[number]
        comments = [f"{stream}/{seq}"]
        planned_ns = self._planned_ns[passage.probe]
        true_ns = self._clocks[port.node].true_ns
        instants_ns = [
            (true_ns(planned_ns + after_ns), window_ns)
            for after_ns, window_ns in self._hops_ns.get((stream, port), ())
        ]
        if instants_ns and direction is Direction.OUTBOUND:
            # Two paths may have one port: it is the copy that was planned for the nearest instant.
            instant_ns, window_ns = min(
                instants_ns, key=lambda each: abs(passage.time_ns - each[0])
            )
            planned = microseconds(instant_ns - self._start_ns)
            if window_ns:
                planned += f" to {microseconds(instant_ns + window_ns - self._start_ns)}"
            late = microseconds(passage.time_ns - instant_ns)
            comments.append(f"planned {planned} µs after the start, left {late} µs later")
        return comments


def _hops_ns(plan: Plan) -> dict[tuple[str, PortRef], set[tuple[int, int]]]:
    """How long after the planned instant of a stream's frame it is to leave a port, and how long a
    window lasts from there on that it shares; 0: it shares none. Streams without instants are not
    there."""
    found: dict[tuple[str, PortRef], set[tuple[int, int]]] = {}
    for name, planned in plan.streams.items():
        for path in planned.paths if planned.has_instants else ():
            for hop in path:
                after_ns = hop.offset_ns - path[0].offset_ns
                found.setdefault((name, hop.egress), set()).add((after_ns, hop.window_ns))
    return found
