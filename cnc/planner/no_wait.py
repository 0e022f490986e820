"""No-wait earliest fit: a frame leaves each bridge as soon as it surely lies in the queue.

The talker's offset alone decides a stream's hops, so placing a stream is one search: move the
offset past every reservation in the way until none is, or the talker's window ends.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cnc.model import Hop, PortRef, Stream
from cnc.planner import explain
from cnc.planner.occupancy import Occupancy
from cnc.planner.problem import Problem, Result, interval_min_ns


class NoWait:
    """Earliest fit in one order; streams that found no place go first in the next attempt."""

    name = "no-wait"

    def schedule(self, problem: Problem, budget: int) -> Result:
        """Place the streams, at most `budget` times from an empty network; the best try counts."""
        reservations = {name: _reservations(problem, name) for name in problem.routes}
        hopeless = _hopeless(problem, reservations)
        order = sorted(
            (name for name in problem.routes if name not in hopeless),
            key=lambda name: _urgency(problem, name),
        )
        best = _place(problem, reservations, order)
        refused = best.refused
        for _ in range(budget - 1):
            if not refused:
                break
            order = [*refused, *(name for name in order if name not in refused)]
            result = _place(problem, reservations, order)
            refused = result.refused
            if len(refused) < len(best.refused):
                best = result
        return Result(best.hops, {**hopeless, **best.refused})


class _Reservation(NamedTuple):
    """The time a stream takes on a port, relative to the talker's offset.

    It ends with the window in which the gate is open. `edge_min_ns` is how near the end of the
    cycle a window may start or end, since a gate entry cut there must not become too short: 0
    where there is no gate.
    """

    port: PortRef
    start_ns: int
    duration_ns: int
    window_ns: int
    edge_min_ns: int


def _reservations(problem: Problem, name: str) -> tuple[_Reservation, ...]:
    """From the first moment the frame may lie in the queue to the last its window is open.

    No other frame is on the link or in the queue meanwhile, so none can take its place. Where the
    gate is closed at all before the window, it is so for an interval the port accepts.
    """
    out = []
    hops = problem.hops_without_waiting(name, 0)
    for leg, hop in zip(problem.routes[name], hops, strict=True):
        start = hop.offset_ns
        edge_min = 0
        if leg.parent is not None:
            edge_min = interval_min_ns(leg.link)
            arrival = hops[leg.parent].offset_ns + leg.earliest_ns
            if arrival < start:
                start = min(arrival, start - edge_min)
        duration = hop.offset_ns + leg.window_ns - start
        out.append(_Reservation(hop.egress, start, duration, leg.window_ns, edge_min))
    return tuple(out)


def _hopeless(
    problem: Problem, reservations: Mapping[str, Sequence[_Reservation]]
) -> dict[str, str]:
    """Streams that would not fit an empty network, with the reason."""
    streams = problem.intent.streams
    reasons = {
        name: explain.unreachable(streams[name].talker, listeners)
        for name, listeners in problem.unreachable.items()
    }
    for name, taken in reservations.items():
        period = streams[name].period_ns
        longest = max(taken, key=lambda r: r.duration_ns)
        if problem.least_latency_ns[name] > streams[name].max_latency_ns:
            reasons[name] = explain.too_slow(problem, name)
        elif longest.duration_ns > period:
            reasons[name] = explain.too_long(longest.port, longest.duration_ns, period)
    return reasons


def _urgency(problem: Problem, name: str) -> tuple[int, int, int, str]:
    """Sort key: short periods leave the fewest places, so they choose first; then tight windows."""
    stream = problem.intent.streams[name]
    earliest, latest = _window(stream)
    return stream.period_ns, latest - earliest, -len(problem.routes[name]), name


def _window(stream: Stream) -> tuple[int, int]:
    latest = stream.period_ns - 1 if stream.latest_ns is None else stream.latest_ns
    return stream.earliest_ns, latest


def _place(
    problem: Problem, reservations: Mapping[str, Sequence[_Reservation]], order: Sequence[str]
) -> Result:
    """One pass over the streams in `order` on an empty network."""
    occupancy: defaultdict[PortRef, Occupancy] = defaultdict(Occupancy)
    placed: dict[str, tuple[Hop, ...]] = {}
    refused: dict[str, str] = {}
    for name in order:
        stream = problem.intent.streams[name]
        taken = reservations[name]
        offset = _earliest_fit(stream, taken, occupancy)
        if isinstance(offset, _Reservation):
            load = occupancy[offset.port].load()
            refused[name] = explain.no_slot(
                offset.port, offset.duration_ns, stream.period_ns, _window(stream), load
            )
            continue
        placed[name] = problem.hops_without_waiting(name, offset)
        for r in taken:
            occupancy[r.port].reserve(offset + r.start_ns, r.duration_ns, stream.period_ns)
    return Result(placed, refused)


def _earliest_fit(
    stream: Stream, taken: Sequence[_Reservation], occupancy: Mapping[PortRef, Occupancy]
) -> int | _Reservation:
    """The first free offset of the talker's window, or the reservation most in trouble."""
    offset, latest = _window(stream)
    obstacles: Counter[_Reservation] = Counter()
    clear = 0  # reservations in a row known to fit at `offset`
    while clear < len(taken):
        for r in taken:
            start = offset + r.start_ns
            shift = _edge_shift(start, r, stream.period_ns) or occupancy[r.port].shift(
                start, r.duration_ns, stream.period_ns
            )
            if shift is None:
                return r
            if shift == 0:
                clear += 1
                continue
            clear = 0
            obstacles[r] += shift
            offset += shift
            if offset > latest:
                return obstacles.most_common(1)[0][0]
    return offset


def _edge_shift(start_ns: int, reservation: _Reservation, period_ns: int) -> int:
    """How much later the window must be to keep its edges clear of the end of every cycle.

    A port's cycle is a multiple of each of its streams' periods, and starts with them at 0.
    """
    margin = reservation.edge_min_ns
    close = start_ns + reservation.duration_ns
    for edge in (close - reservation.window_ns, close):
        phase = edge % period_ns
        if 0 < phase < margin:
            return margin - phase
        if period_ns - margin < phase:
            return period_ns - phase
    return 0
