"""From the etf qdiscs that a port has to those it is to have. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from agent.composition import Change, Contribution
from agent.mechanism import Contributions
from agent.mechanisms.launch_time.desired import mode_of
from agent.mechanisms.launch_time.model import NAME, LaunchTime
from agent.model import PortConfig, PortState
from agent.root_qdisc import CLASSES, Below, change_below, foreign_root, root_of
from agent.traffic_classes import queue_problems


def contributions(state: PortState, its: LaunchTime) -> Contributions:
    """The qdiscs below the root of a port, and the root where it has no gates."""
    for each in _contributed(state, its):
        yield root_of(state), each


def diff(config: PortConfig, state: PortState) -> Iterator[Change]:
    """One change, or none where the kernel has what is asked."""
    before, after = state[LaunchTime], config[LaunchTime]
    if before != after:
        yield change_below(state, "launch time", _below(state, before), _below(state, after))


def problems(config: PortConfig, state: PortState) -> Iterator[str]:
    """Why a port cannot have these; whether it has the hardware the kernel says when it is set."""
    asked = config[LaunchTime]
    if asked.classes is None or asked == state[LaunchTime]:
        return
    if state.foreign_qdisc:
        yield foreign_root(state.name, state.foreign_qdisc)
    yield from queue_problems(asked.classes.queues, state.tx_queues)


def _below(state: PortState, its: LaunchTime) -> Below:
    return Below(tuple(_contributed(state, its)), _words(its))


def _contributed(state: PortState, its: LaunchTime) -> Iterator[Contribution]:
    if its.classes is None:
        return
    yield Contribution(NAME, state.name, CLASSES, its.classes)
    for child in its.queues:
        yield Contribution(NAME, state.name, child.place, child)


def _words(its: LaunchTime) -> str:
    found = [
        f"priority {priority} {mode_of(etf)}, delta {dict(etf.options)['delta_ns']} ns"
        for priority, etf in its.by_priority.items()
    ]
    return "; ".join(found) or "none"
