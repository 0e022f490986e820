"""The credit-based shapers of a port in memory: what is asked is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.mechanisms.cbs.model import CreditQdisc, Shapers
from agent.model import AgentError, Clock, PortState


def applied(
    state: PortState, contents: Sequence[CreditQdisc], _now_ns: Callable[[Clock], int]
) -> PortState:
    """The port with these qdiscs, or without."""
    if state.foreign_qdisc:
        raise AgentError(f"port {state.name}: the root qdisc is foreign: Invalid argument (EINVAL)")
    return state.with_part(Shapers(tuple(sorted(contents, key=lambda each: each.queue))))
