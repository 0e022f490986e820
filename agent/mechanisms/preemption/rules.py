"""Preemptable frames of a bridge port (`ieee802-dot1q-preemption-bridge`): read from the
configuration, compared, reported. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from agent.composition import Change, Contribution
from agent.mechanism import BRIDGE_PORT, TAPRIO, Contributions, Node, Refused, ReportContext, Tree
from agent.mechanisms.preemption.model import NAME, Preemptable
from agent.model import AgentError, Clock, MacMerge, PortConfig, PortState
from agent.root_qdisc import (
    PREEMPTABLE,
    Below,
    PreemptableClasses,
    change_below,
    foreign_root,
    root_of,
)
from agent.traffic_classes import PRIORITIES, traffic_classes

PARAMETERS = "ieee802-dot1q-preemption-bridge:frame-preemption-parameters"
TABLE = "frame-preemption-status-table"
WORD = "preemptable"


def configured(interface: Tree, _state: PortState | None) -> Preemptable:
    """The classes of the priorities that are preemptable; raises `Refused` where a class has others
    as well: Linux tells classes apart, not priorities."""
    bridge_port = interface.get(BRIDGE_PORT, {})
    table = bridge_port.get(PARAMETERS, {}).get(TABLE, {})
    asked = tuple(p for p in range(PRIORITIES) if table.get(f"priority{p}") == WORD)
    if not asked:
        return Preemptable()
    class_of = traffic_classes(bridge_port).priority_map
    classes = {class_of[priority] for priority in asked}
    for priority in range(PRIORITIES):
        if class_of[priority] in classes and priority not in asked:
            raise Refused(
                f"{TABLE}: priority {priority} is express, and others of its traffic class "
                f"{class_of[priority]} are {WORD}; all priorities of a class have to agree"
            )
    return Preemptable(tuple(sorted(classes)), asked)


def contributions(state: PortState) -> Contributions:
    """They are handed over with the root of a port's qdiscs."""
    for each in _contributed(state, state[Preemptable]):
        yield root_of(state), each


def diff(config: PortConfig, state: PortState) -> Iterator[Change]:
    """One change, or none where the kernel has what is asked."""
    before, after = state[Preemptable], config[Preemptable]
    if before.classes != after.classes:
        yield change_below(
            state, "preemptable classes", _below(state, before), _below(state, after)
        )


def problems(config: PortConfig, state: PortState) -> Iterator[str]:
    """Why a port cannot have these; whether it can preempt at all the kernel says when it is
    asked."""
    if state.foreign_qdisc and config[Preemptable].classes:
        yield foreign_root(state.name, state.foreign_qdisc)


def operational(state: PortState, _context: ReportContext) -> Node:
    """What the kernel has handed to the port, and what its MAC merge layer does."""
    if (its := state.mac_merge) is None:
        return {}
    shown = state[Preemptable]
    table = {f"priority{priority}": WORD for priority in shown.priorities}
    parameters = {TABLE: table, "preemption-active": its.tx_active}
    merge = {"mac-merge-state": _state(its, shown)}
    return {BRIDGE_PORT: {PARAMETERS: parameters, TAPRIO: {"kernel": merge}}}


def applied(
    state: PortState, contents: Sequence[PreemptableClasses], _now_ns: Callable[[Clock], int]
) -> PortState:
    """The port in memory with these classes, or without."""
    if contents and state.mac_merge is None:
        raise AgentError(
            f"port {state.name}: the kernel refused the schedule: Device does not support "
            "preemption (EOPNOTSUPP)"
        )
    return state.with_part(
        Preemptable(contents[0].numbers, contents[0].priorities) if contents else Preemptable()
    )


def _state(its: MacMerge, shown: Preemptable) -> Node:
    return {
        "tx-enabled": its.tx_enabled,
        "tx-active": its.tx_active,
        "verify-status": str(its.verify_status),
        "tx-min-fragment-octets": its.tx_min_fragment_octets,
        "preemptable-priority": list(shown.priorities),
    }


def _below(state: PortState, its: Preemptable) -> Below:
    words = ", ".join(map(str, its.classes)) or "none"
    return Below(tuple(_contributed(state, its)), words)


def _contributed(state: PortState, its: Preemptable) -> Iterator[Contribution]:
    if its.classes:
        yield Contribution(
            NAME, state.name, PREEMPTABLE, PreemptableClasses(its.classes, its.priorities)
        )
