"""From what the network must carry to who sends when: `plan(intent) -> Plan`.

Pure functions: no I/O, no clock, no randomness; the same intent gives the same plan everywhere.

    routing    which links a stream crosses          problem   what an algorithm has to solve
    no_wait    when each frame leaves each port      gates     the port's gate control list
"""

from __future__ import annotations

from cnc.errors import InputError, Unschedulable
from cnc.model import Intent, Plan, StreamPlan
from cnc.planner.gates import gate_control_lists
from cnc.planner.no_wait import NoWait
from cnc.planner.problem import Algorithm, Problem, Result

__all__ = ["ALGORITHMS", "Algorithm", "Problem", "Result", "plan"]

ALGORITHMS: dict[str, Algorithm] = {algorithm.name: algorithm for algorithm in (NoWait(),)}
_AUTO = NoWait.name
_ATTEMPTS = 8  # measured in work, not seconds: a slow machine must not get another plan


def plan(intent: Intent, *, algorithm: str = "auto") -> Plan:
    """Place every stream and derive every gate control list, or raise `Unschedulable`."""
    name = _AUTO if algorithm == "auto" else algorithm
    if name not in ALGORITHMS:
        known = ", ".join(["auto", *ALGORITHMS])
        raise InputError(f"unknown algorithm {algorithm!r}", hint=f"choose one of: {known}")
    problem = Problem.of(intent)
    result = ALGORITHMS[name].schedule(problem, _ATTEMPTS)
    if result.refused:
        raise Unschedulable(
            dict(result.refused),
            hint="change what the reasons name, or take a stream out; nothing was planned",
        )
    streams = {
        stream: StreamPlan(
            result.hops[stream], problem.latency_bound_ns(stream, result.hops[stream])
        )
        for stream in intent.streams
    }
    return Plan(intent, streams, gate_control_lists(problem, result.hops), name)
