"""Control loops: does each take as long as the plan says, and no longer than it may?"""

from __future__ import annotations

from collections.abc import Iterator

from cnc.account.violation import Violation
from cnc.loops.model import Loop, Loops
from cnc.model import Plan


def judge_loops(plan: Plan) -> Iterator[Violation]:
    """What is wrong with the delays of loops, if the latency bounds of their streams hold.

    A loop is closed where both of its streams have a place.
    """
    loops = plan.intent[Loops].by_name
    for name in sorted(plan.loops.keys() - loops.keys()):
        yield Violation("loop", name, "has a delay in the plan, and is no loop of the intent")
    for name, loop in loops.items():
        stated = plan.loops.get(name)
        if loop.sensor not in plan.streams or loop.actuator not in plan.streams:
            if stated:
                yield Violation("loop", name, "has a delay in the plan, and a stream without place")
            continue
        delay_ns = _delay_ns(plan, loop)
        if stated is None:
            yield Violation("loop", name, f"takes {delay_ns} ns, of which the plan says nothing")
        elif stated.total_ns != delay_ns:
            text = f"takes {delay_ns} ns, the plan says {stated.total_ns} ns"
            yield Violation("loop", name, text)
        if delay_ns > loop.deadline_ns:
            text = f"takes {delay_ns} ns, {loop.deadline_ns} ns allowed"
            yield Violation("loop-deadline", name, text)


def _delay_ns(plan: Plan, loop: Loop) -> int:
    """From the planned start of a sample to the last bit of its command, at the latest."""
    sensor, actuator = plan.streams[loop.sensor], plan.streams[loop.actuator]
    sampled_ns, leaves_ns = (
        min(path[0].offset_ns for path in each.paths) for each in (sensor, actuator)
    )
    ready_ns = sampled_ns + sensor.latency_bound_ns + loop.compute_ns
    periods = -(-(ready_ns - leaves_ns) // loop.period_ns)
    return leaves_ns + periods * loop.period_ns + actuator.latency_bound_ns - sampled_ns
