"""How long control loops take, and offsets by which they take less.

A command is sent at the first offset of its stream at which it is ready. Streams are placed without
regard to that; then each actuator's stream for which its commands would wait is placed once more,
around all others, from where they are ready on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from cnc.errors import Unschedulable
from cnc.loops.model import Loop, Loops
from cnc.model import Intent, LoopDelay, Plan, Stream
from cnc.support.format import duration

Around = Callable[[Intent, Plan], Plan]

_HINT = (
    "allow a longer deadline, a shorter max-latency of its streams or another window of the "
    "actuator's stream, or a faster computation; nothing was planned"
)


def closed(planned: Plan, kept: Collection[str], around: Around) -> Plan:
    """The plan with the delay of each loop, as short as moving actuators' streams makes it.

    Streams that are `kept` do not move. `around` plans an intent around a plan; what is unchanged
    in it stays. Raises `Unschedulable` where a loop takes longer than its deadline.
    """
    for loop in planned.intent[Loops].by_name.values():
        if loop.actuator not in kept and loop.name in delays(planned):
            planned = _sooner(planned, loop, around)
    found = delays(planned)
    if too_late := late(planned, found):
        raise Unschedulable(too_late, hint=_HINT)
    return replace(planned, loops=found)


def late(planned: Plan, found: Mapping[str, LoopDelay]) -> dict[str, str]:
    """What to say of loops that take longer than their deadline."""
    return {
        f"loop {name}": _explained(loop, found[name])
        for name, loop in planned.intent[Loops].by_name.items()
        if name in found and found[name].total_ns > loop.deadline_ns
    }


def delays(planned: Plan) -> dict[str, LoopDelay]:
    """Of each loop whose two streams have a place."""
    return {
        name: _delay(planned, loop)
        for name, loop in planned.intent[Loops].by_name.items()
        if loop.sensor in planned.streams and loop.actuator in planned.streams
    }


def _delay(planned: Plan, loop: Loop) -> LoopDelay:
    sensor, actuator = planned.streams[loop.sensor], planned.streams[loop.actuator]
    wait_ns = (_leaves_ns(planned, loop.actuator) - _ready_ns(planned, loop)) % loop.period_ns
    return LoopDelay(sensor.latency_bound_ns, loop.compute_ns, wait_ns, actuator.latency_bound_ns)


def _leaves_ns(planned: Plan, stream: str) -> int:
    return min(planned.streams[stream].talker_offsets_ns)


def _ready_ns(planned: Plan, loop: Loop) -> int:
    """From the start of the period until the command for its sample is ready, at the latest."""
    bound_ns = planned.streams[loop.sensor].latency_bound_ns
    return _leaves_ns(planned, loop.sensor) + bound_ns + loop.compute_ns


def _sooner(planned: Plan, loop: Loop, around: Around) -> Plan:
    """The plan with another offset of the loop's actuator if it takes less by that, else as it is.

    The window that the operator gave the stream is narrowed for the search alone.
    """
    intent, stream = planned.intent, planned.intent.streams[loop.actuator]
    before = _delay(planned, loop)
    window = _window(stream, _ready_ns(planned, loop) % loop.period_ns)
    if before.wait_ns == 0 or window is None:
        return planned
    earliest_ns, latest_ns = window
    narrowed = replace(stream, earliest_ns=earliest_ns, latest_ns=latest_ns)
    wanted = replace(intent, streams={**intent.streams, stream.name: narrowed})
    try:
        moved = replace(around(wanted, planned), intent=intent)
    except Unschedulable:
        return planned
    if not planned.streams.keys() <= moved.streams.keys():
        return planned
    return moved if _delay(moved, loop).total_ns < before.total_ns else planned


def _window(stream: Stream, ready_ns: int) -> tuple[int, int | None] | None:
    """From where commands are ready to the end of the stream's window; None where that is over."""
    earliest_ns = max(stream.earliest_ns, ready_ns)
    last_ns = stream.period_ns - 1 if stream.latest_ns is None else stream.latest_ns
    return (earliest_ns, stream.latest_ns) if earliest_ns <= last_ns else None


def _explained(loop: Loop, delay: LoopDelay) -> str:
    return (
        f"takes {duration(delay.total_ns)}, its deadline is {duration(loop.deadline_ns)}: "
        f"{duration(delay.sensor_ns)} for {loop.sensor}, {duration(delay.compute_ns)} to compute, "
        f"{duration(delay.wait_ns)} until {loop.actuator} leaves, {duration(delay.actuator_ns)} "
        "for it"
    )
