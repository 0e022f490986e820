"""Where the kernel and the configuration in force part, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from agent.model import PortConfig, PortState, Schedule, Taprio
from agent.reconcile import SetDscpPriorities, SetTaprio, plan_steps
from agent.wording import counted


def drift(wanted: Mapping[str, PortConfig], states: Mapping[str, PortState]) -> dict[str, str]:
    """The difference of each port that does not do what is wanted; an absent one has none.

    What counts is what `plan_steps` would change: a list whole cycles away is the same.
    """
    differences: dict[str, list[str]] = {}
    for step in plan_steps(wanted, states):
        words = _gates(step, states[step.port]) if isinstance(step, SetTaprio) else _rules(step)
        differences.setdefault(step.port, []).append(words)
    return {port: "; ".join(words) for port, words in differences.items()}


def _gates(step: SetTaprio, state: PortState) -> str:
    if state.foreign_qdisc:
        return f"somebody set the root qdisc {state.foreign_qdisc}"
    if step.before is None:
        return f"the gate control list is gone; the root qdisc is {state.root_qdisc}"
    if step.after is None:
        return f"a gate control list that is not configured: {_list(step.before.schedule)}"
    if parts := _fixed_parts(step.before, step.after):
        return f"taprio with another {', '.join(parts)}"
    if step.before.schedule != step.after.schedule:
        return (
            f"another gate control list: {_list(step.before.schedule)} "
            f"instead of {_list(step.after.schedule)}"
        )
    return f"other frame size limits: {step.before.max_sdu_octets or 'none'}"


def _fixed_parts(one: Taprio, other: Taprio) -> list[str]:
    names = {"mode": "mode", "clock": "clock", "priority_map": "priority map", "queues": "queues"}
    return [words for name, words in names.items() if getattr(one, name) != getattr(other, name)]


def _list(schedule: Schedule) -> str:
    return (
        f"{counted(len(schedule.entries), 'entry')}, cycle {schedule.cycle_time_ns} ns, "
        f"base time {schedule.base_time_ns} ns"
    )


def _rules(step: SetDscpPriorities) -> str:
    kernel, wanted = step.before.items(), step.after.items()
    said = (("missing", wanted - kernel), ("not configured", kernel - wanted))
    return ", ".join(
        f"DSCP {dscp} to priority {priority} is {what}"
        for what, rules in said
        for dscp, priority in sorted(rules)
    )
