"""From the gates that a port has to those it is to have. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from agent.composition import Change, Contribution
from agent.mechanism import Contributions
from agent.mechanisms.gates import transmit_quota
from agent.mechanisms.gates.model import NAME, GateConfig, GateSchedule, GateState, Taprio
from agent.mechanisms.gates.openings import binding_max_sdu_octets
from agent.model import PortConfig, PortState
from agent.root_qdisc import ROOT, root_of
from agent.wording import counted

_PARTS = {
    "mode": "mode",
    "clock": "clock",
    "priority_map": "priority map",
    "queues": "queues",
    "emulated": "size table: frames count for another length than they have on this link",
}


def contributions(state: PortState) -> Contributions:
    """Its taprio is the root of the port's qdiscs."""
    if taprio := state[GateState].taprio:
        yield root_of(state), _contribution(state, taprio)
    yield from transmit_quota.contributions(state)


def diff(config: PortConfig, state: PortState) -> Iterator[Change]:
    """One change of the gates, or none where they do what is asked; a base time whole cycles away
    does. And one of the quota that they count on."""
    before, after = state[GateState].taprio, config[GateConfig].taprio
    if not agrees(after, state):
        yield _change_of_root(before, after, state)
    yield from transmit_quota.changes(config, state)


def _change_of_root(before: Taprio | None, after: Taprio | None, state: PortState) -> Change:
    return Change(
        port=state.name,
        target=root_of(state),
        before=(_contribution(state, before),) if before else (),
        after=(_contribution(state, after),) if after else (),
        description=f"port {state.name}: {_description(before, after)}",
        difference=_difference(before, after, state),
    )


def _contribution(state: PortState, taprio: Taprio) -> Contribution:
    return Contribution(NAME, state.name, ROOT, taprio)


def agrees(desired: Taprio | None, state: PortState) -> bool:
    """Whether the gates move as desired already, now and for ever.

    Frame size limits that the gates imply already ask for nothing.
    """
    gates = state[GateState]
    if desired is None or gates.taprio is None:
        return desired is gates.taprio
    desired = _without_idle_limits(desired, state.link_speed_bps)
    current = _without_idle_limits(gates.taprio, state.link_speed_bps)
    same_schedule = gates.moves_gates_as(desired.schedule)
    return same_schedule and replace(desired, schedule=current.schedule) == current


def _without_idle_limits(taprio: Taprio, link_speed_bps: int | None) -> Taprio:
    limits = binding_max_sdu_octets(taprio.max_sdu_octets, taprio.schedule, link_speed_bps)
    return replace(taprio, max_sdu_octets=limits)


def _description(before: Taprio | None, after: Taprio | None) -> str:
    if after is None:
        return "remove the schedule"
    return f"{'change' if before else 'set'} the schedule: {_summary(after.schedule)}"


def _difference(before: Taprio | None, after: Taprio | None, state: PortState) -> str:
    if state.foreign_qdisc:
        return f"the root qdisc {state.foreign_qdisc} was not set by this agent"
    if before is None:
        return f"the gate control list is gone; the root qdisc is {state.root_qdisc}"
    if after is None:
        return f"a gate control list that is not configured: {_summary(before.schedule)}"
    parts = [
        words for name, words in _PARTS.items() if getattr(before, name) != getattr(after, name)
    ]
    if parts:
        return f"taprio with another {', '.join(parts)}"
    if before.schedule != after.schedule:
        return (
            f"another gate control list: {_summary(before.schedule)} "
            f"instead of {_summary(after.schedule)}"
        )
    return f"other frame size limits: {before.max_sdu_octets or 'none'}"


def _summary(schedule: GateSchedule) -> str:
    return (
        f"{counted(len(schedule.entries), 'entry')}, cycle {schedule.cycle_time_ns} ns, "
        f"base time {schedule.base_time_ns} ns"
    )
