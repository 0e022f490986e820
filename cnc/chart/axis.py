"""Rulers and what both pictures have in common."""

from __future__ import annotations

from collections.abc import Iterator

from cnc.model import GateControlList, Plan, PortRef, TrafficClass


def tick_ns(cycle_ns: int, ticks_max: int) -> int:
    """The distance of the ruler's marks: 1, 2 or 5 times a power of ten, at most `ticks_max`."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if cycle_ns <= factor * step * ticks_max:
                return factor * step
        step *= 10


def span_ns(plan: Plan) -> int:
    """What a picture shows: the longest of all periods and cycles."""
    periods = [stream.period_ns for stream in plan.intent.streams.values()]
    return max([*periods, *(gates.cycle_ns for gates in plan.gates.values())], default=1)


def classes_of(plan: Plan) -> list[TrafficClass]:
    """All classes, the highest queue first."""
    return sorted(plan.intent.classes.values(), key=lambda c: -c.number)


def open_times(gates: GateControlList, number: int) -> Iterator[tuple[int, int]]:
    """When a class's gate opens and closes within the cycle; neighbouring entries are one time."""
    now = 0
    opened: int | None = None
    for entry in gates.entries:
        is_open = bool(entry.gate_states >> number & 1)
        if is_open and opened is None:
            opened = now
        elif not is_open and opened is not None:
            yield opened, now
            opened = None
        now += entry.interval_ns
    if opened is not None:
        yield opened, now


def joined_open_times(gates: GateControlList, number: int) -> list[tuple[int, int]]:
    """As `open_times`, but the last time of a cycle that goes on as the first of the next is one
    time, which begins before the cycle does."""
    times = list(open_times(gates, number))
    if len(times) > 1 and times[0][0] == 0 and times[-1][1] == gates.cycle_ns:
        (_, first_end), *between, (last, _) = times
        return [(last - gates.cycle_ns, first_end), *between]
    return times


def ports_along_the_way(plan: Plan) -> list[PortRef]:
    """Every port the plan uses, those near the talkers first."""
    depth: dict[PortRef, int] = {}
    for stream in plan.streams.values():
        for path in stream.paths:
            for index, hop in enumerate(path):
                depth[hop.egress] = max(index, depth.get(hop.egress, 0))
    for port in plan.gates:
        depth.setdefault(port, 0)
    return sorted(depth, key=lambda port: (depth[port], port))
