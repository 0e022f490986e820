"""The gates of a port in memory: they wait for their base time and run, but hold no frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agent.mechanisms.gates.limits import limits_by_mode
from agent.mechanisms.gates.model import ClassCounters, GateState, Taprio
from agent.model import AgentError, Clock, PortState
from agent.root_qdisc import NO_QDISC


def applied(
    state: PortState, contents: Sequence[Taprio], now_ns: Callable[[Clock], int]
) -> PortState:
    """The port with this taprio, or without one."""
    if state.foreign_qdisc:
        raise AgentError(f"port {state.name}: the root qdisc is foreign: Invalid argument (EINVAL)")
    before = state[GateState]
    if not contents:
        without = GateState(limits_by_mode=before.limits_by_mode)
        return replace(state, root_qdisc=NO_QDISC).with_part(without)
    (taprio,) = contents
    waits = _waits(taprio, now_ns)
    return replace(state, root_qdisc="taprio").with_part(
        replace(
            before,
            taprio=taprio,
            running=before.running if waits else taprio.schedule,
            pending=taprio.schedule if waits else None,
            counters=tuple(ClassCounters(frames=0, octets=0, drops=0) for _ in taprio.queues),
        )
    )


def at(state: PortState, now_ns: Callable[[Clock], int]) -> PortState:
    """The port by now: a schedule that has waited for its base time runs.

    A port without limits gets those of its driver.
    """
    gates = state[GateState]
    if not gates.limits_by_mode:
        gates = replace(gates, limits_by_mode=limits_by_mode(state.driver))
        state = state.with_part(gates)
    if gates.taprio is None or gates.pending is None or _waits(gates.taprio, now_ns):
        return state
    return state.with_part(replace(gates, running=gates.pending, pending=None))


def _waits(taprio: Taprio, now_ns: Callable[[Clock], int]) -> bool:
    return taprio.schedule.base_time_ns > now_ns(taprio.clock)
