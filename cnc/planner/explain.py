"""Why a stream cannot be placed, in the operator's words: where, how much, what would help."""

from __future__ import annotations

from cnc.format import microseconds
from cnc.model import PortRef
from cnc.planner.problem import Leg, Problem, blocking_ns


def us(time_ns: int) -> str:
    """A time for people, exact to the nanosecond."""
    return f"{microseconds(time_ns)} µs"


def unreachable(talker: str, listeners: tuple[str, ...]) -> str:
    return f"no path from {talker} to {', '.join(listeners)}; add the missing link"


def too_slow(problem: Problem, name: str) -> str:
    """The latency is above the limit even on an empty network: says what it consists of."""
    intent = problem.intent
    stream = intent.streams[name]
    path = _slowest_path(problem, name)
    blocking = sum(blocking_ns(intent, leg.link) for leg in path)
    error = len(path) * intent.network.clock_error_ns
    processing = sum(
        intent.network.bridges[leg.link.source.node].processing_max_ns for leg in path[1:]
    )
    least = problem.least_latency_ns[name]
    wire = least - blocking - error - processing
    return (
        f"needs at least {us(least)} over {_route(path)}, max-latency is "
        f"{us(stream.max_latency_ns)}. Of this, frame and cable take {us(wire)}, control frames "
        f"in the way {us(blocking)}, switch processing {us(processing)}, clock error {us(error)}. "
        f"Raise max-latency to {us(least)} or lower one of these"
    )


def too_long(port: PortRef, taken_ns: int, period_ns: int) -> str:
    return (
        f"one frame takes {us(taken_ns)} of {port}, jitter and blocking included, more than its "
        f"period of {us(period_ns)}. A longer period, a smaller payload or a faster link would help"
    )


def no_slot(
    port: PortRef, taken_ns: int, period_ns: int, window_ns: tuple[int, int], load: float
) -> str:
    """No offset of the talker's window is free; `port` is where most of the search was spent."""
    earliest, latest = window_ns
    total = load + taken_ns / period_ns
    wider = "" if latest - earliest >= period_ns - 1 else "a wider talker window, "
    return (
        f"no free slot of {us(taken_ns)} every {us(period_ns)} on {port} for a talker that starts "
        f"between {us(earliest)} and {us(latest)}. Scheduled frames already take {load:.0%} of "
        f"that port; with this stream {total:.0%}. What would help: {wider}a longer period, a "
        f"smaller payload, a faster link or less clock error"
    )


def _slowest_path(problem: Problem, name: str) -> list[Leg]:
    legs = problem.routes[name]
    hops = problem.hops_without_waiting(name, 0)
    listeners = problem.intent.streams[name].listeners
    last = max(
        (i for i, leg in enumerate(legs) if leg.link.target.node in listeners),
        key=lambda i: hops[i].offset_ns + legs[i].delivery_ns,
    )
    path = [legs[last]]
    while (parent := path[0].parent) is not None:
        path.insert(0, legs[parent])
    return path


def _route(path: list[Leg]) -> str:
    return " → ".join([*(leg.link.source.node for leg in path), path[-1].link.target.node])
