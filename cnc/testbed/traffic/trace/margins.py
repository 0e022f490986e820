"""The margins that a plan has at each hop of a stream, beside what its frames used of them.

A plan lets a frame leave a switch at an instant by which it is there even if all on the way before
takes as long as it may. A frame that comes sooner waits for its gate: that is a margin it had no
use for. Where frames share a window, none has an instant: one has to come by when it can still be
sent before the window is over. A frame is planned by the clock of its talker, and comes to a port
by that of its node: by what the two differ it uses of a margin, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cnc.mechanisms.terms import client_octets, start_delay_ns
from cnc.model import Hop, Plan, PortRef
from cnc.testbed.traffic.recording import BridgedFlow
from cnc.testbed.traffic.trace.clocks import Clocks
from cnc.testbed.traffic.trace.join import Kind, Row


@dataclass(frozen=True, slots=True)
class HopMargin:
    """The margin before a port, one that a switch sends by: how much later than at the earliest
    the first frame of a period is planned to leave it, or has to in a window that it shares.

    It is the sum of `processing_ns`, by how much processing varies; `clock_ns`, the clock error;
    `start_ns`, how much later than planned the node before may send; and `turn_ns`, the wait for a
    turn between other frames, or among those of a window. `used_max_ns` is by how much the latest
    frame came later than at the earliest, where the plan was kept; None: none came.
    """

    flow: str
    path: int
    port: PortRef
    margin_ns: int
    processing_ns: int
    clock_ns: int
    start_ns: int
    turn_ns: int
    used_max_ns: int | None


class Margins:
    """Finds what frames used of the margins of a plan; their rows come one at a time."""

    def __init__(self, plan: Plan, clocks: Clocks) -> None:
        self._plan, self._clocks = plan, clocks
        self._by_way: dict[tuple[str, int], _Way] = {}

    def add(self, row: Row) -> None:
        if row.path is None or row.flow.latency_bound_ns is None or row.kind is Kind.RESENT:
            return  # nothing is planned for it
        way = self._by_way.get((row.flow.name, row.path))
        if way is None:
            way = self._by_way[row.flow.name, row.path] = _Way(self._plan, self._clocks, row)
        way.add(row)

    def hops(self) -> list[HopMargin]:
        """Of each planned stream at each of its listeners, hop after hop."""
        return [margin for way in self._by_way.values() for margin in way.margins()]


class _Way:
    """The hops of a flow by one path, and when the latest frame came to each, after its planned
    instant."""

    def __init__(self, plan: Plan, clocks: Clocks, row: Row) -> None:
        self._plan, self._flow, self._path = plan, row.flow, row.path or 0
        self._talker = clocks.of(row.flow.talker)
        self._stream = row.flow.stream if isinstance(row.flow, BridgedFlow) else row.flow.name
        planned = {hop.egress: hop for hop in plan.streams[self._stream].paths[self._path]}
        self._hops = [planned[crossing.port] for crossing in row.crossings]
        self._clocks = [clocks.of(hop.egress.node) for hop in self._hops]
        self._came_max_ns: list[int | None] = [None] * len(self._hops)

    def add(self, row: Row) -> None:
        if row.seq % self._flow.frames:
            return
        planned_ns = self._talker.shown_ns(row.planned_ns)
        for number, crossing in enumerate(row.crossings):
            if crossing.entered_ns is not None:
                came_ns = self._clocks[number].shown_ns(crossing.entered_ns) - planned_ns
                latest_ns = self._came_max_ns[number]
                self._came_max_ns[number] = (
                    came_ns if latest_ns is None else max(latest_ns, came_ns)
                )

    def margins(self) -> Iterator[HopMargin]:
        if not self._plan.streams[self._stream].has_instants:
            return  # no frame is planned for any instant
        for number in range(1, len(self._hops)):
            before, hop = self._hops[number - 1 : number + 1]
            earliest_ns, processing_ns = _arrival(self._plan, self._stream, before)
            margin_ns = _due_ns(self._plan, self._stream, hop) - earliest_ns
            parts = _parts(self._plan, before, processing_ns, margin_ns)
            came_ns, used_ns = self._came_max_ns[number], None
            if came_ns is not None:
                used_ns = came_ns - (earliest_ns - self._hops[0].offset_ns)
            yield HopMargin(self._flow.name, self._path, hop.egress, margin_ns, *parts, used_ns)


def _due_ns(plan: Plan, stream: str, hop: Hop) -> int:
    """When the first frame of a period is planned to leave, or has to at the latest in a window
    that it shares, with the others of the period behind it."""
    if not hop.is_shared:
        return hop.offset_ns
    network, its = plan.intent.network, plan.intent.streams[stream]
    link = network.links[hop.egress]
    octets = client_octets(network, its, link)
    return hop.window_end_ns - its.frames * network.occupation_max_ns(link, octets)


def _arrival(plan: Plan, stream: str, before: Hop) -> tuple[int, int]:
    """When a frame that leaves by the hop before as planned is at the earliest in the next queue,
    over a link of the nominal rate, and how much later it may be for the processing there."""
    network = plan.intent.network
    link = network.links[before.egress]
    bridge = network.bridges[link.target.node]
    octets = client_octets(network, plan.intent.streams[stream], link)
    on_way_ns = network.reception_ns(link, octets) + link.propagation_ns
    earliest_ns = before.offset_ns + on_way_ns + bridge.processing_min_ns
    return earliest_ns, bridge.processing_max_ns - bridge.processing_min_ns


def _parts(
    plan: Plan, before: Hop, processing_ns: int, margin_ns: int
) -> tuple[int, int, int, int]:
    """Processing, clock, start and turn; late hops have no clock error."""
    network = plan.intent.network
    start_ns = start_delay_ns(plan.intent, network.links[before.egress])
    left_ns = margin_ns - processing_ns - start_ns
    clock_ns = max(0, min(network.clock_error_ns, left_ns))
    return processing_ns, clock_ns, start_ns, left_ns - clock_ns
