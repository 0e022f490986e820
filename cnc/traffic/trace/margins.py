"""The margins that a plan has at each hop of a stream, beside what its frames used of them.

A plan lets a frame leave a switch at an instant by which it is there even if all on the way before
takes as long as it may. A frame that comes sooner waits for its gate: that is a margin it had no
use for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cnc.delays import start_delay_ns
from cnc.model import Hop, Plan, PortRef
from cnc.sequencing import client_octets
from cnc.traffic.recording import BridgedFlow
from cnc.traffic.trace.join import Row


@dataclass(frozen=True, slots=True)
class HopMargin:
    """The margin before a port, one that a switch sends by: how much later than at the earliest
    the first frame of a period is planned to leave it.

    It is the sum of `processing_ns`, by how much processing varies; `clock_ns`, the clock error;
    `start_ns`, how much later than planned the node before may send; and `turn_ns`, the wait for a
    turn between other frames. `used_max_ns` is by how much the latest frame came later than at the
    earliest, where the plan was kept; None: none came.
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


def margins(plan: Plan, rows: Iterable[Row]) -> list[HopMargin]:
    """Of each planned stream at each of its listeners, hop after hop."""
    by_way: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if row.path is not None and row.flow.latency_bound_ns is not None:
            by_way.setdefault((row.flow.name, row.path), []).append(row)
    return [margin for same in by_way.values() for margin in _of_way(plan, same)]


def _of_way(plan: Plan, rows: Sequence[Row]) -> Iterator[HopMargin]:
    flow, path = rows[0].flow, rows[0].path or 0
    name = flow.stream if isinstance(flow, BridgedFlow) else flow.name
    planned = {hop.egress: hop for hop in plan.streams[name].paths[path]}
    hops = [planned[crossing.port] for crossing in rows[0].crossings]
    firsts = [row for row in rows if row.seq % flow.frames == 0]
    for number in range(1, len(hops)):
        before, hop = hops[number - 1 : number + 1]
        earliest_ns, processing_ns = _arrival(plan, name, before)
        came_ns = [
            entered_ns - row.planned_ns - (earliest_ns - hops[0].offset_ns)
            for row in firsts
            if (entered_ns := row.crossings[number].entered_ns) is not None
        ]
        margin_ns = hop.offset_ns - earliest_ns
        parts = _parts(plan, before, processing_ns, margin_ns)
        yield HopMargin(flow.name, path, hop.egress, margin_ns, *parts, max(came_ns, default=None))


def _arrival(plan: Plan, stream: str, before: Hop) -> tuple[int, int]:
    """When a frame that leaves by the hop before as planned is at the earliest in the next queue,
    and how much later it may be for the processing there."""
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
