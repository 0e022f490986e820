"""The launch times of a port in memory: what is asked is there, whatever the port could do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agent.mechanisms.launch_time.model import LaunchTime
from agent.model import AgentError, Clock, PortState
from agent.root_qdisc import NO_QDISC, ChildQdisc
from agent.traffic_classes import TrafficClasses

MQPRIO = "mqprio"


def applied(
    state: PortState,
    contents: Sequence[TrafficClasses | ChildQdisc],
    now_ns: Callable[[Clock], int],
) -> PortState:
    """The port with these qdiscs, or without."""
    if state.foreign_qdisc:
        raise AgentError(f"port {state.name}: the root qdisc is foreign: Invalid argument (EINVAL)")
    classes = next((each for each in contents if isinstance(each, TrafficClasses)), None)
    queues = tuple(each for each in contents if isinstance(each, ChildQdisc))
    return at(state.with_part(LaunchTime(classes, queues)), now_ns)


def at(state: PortState, _now_ns: Callable[[Clock], int]) -> PortState:
    """The port with the root that it has where there are no gates."""
    has_root = state[LaunchTime].classes is not None
    if state.root_qdisc == (NO_QDISC if has_root else MQPRIO):
        return replace(state, root_qdisc=MQPRIO if has_root else NO_QDISC)
    return state
