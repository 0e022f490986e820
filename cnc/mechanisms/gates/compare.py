"""Compares the gates that a port is asked for with what is stored and with what its kernel runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple

from cnc.data_tree.list_times import first_start_ns
from cnc.data_tree.tree import CLOCK, GatesReport, PortReport
from cnc.model import (
    GateControlList,
    GateMode,
    PortConfiguration,
    PortGates,
    StoredGates,
    StoredPort,
)
from cnc.support import wording


def needs_change(asked: PortGates, at: StoredPort, report: PortReport | None) -> str | None:
    """Why the gates of a port must be configured again; None when it stores and runs them."""
    desired, stored = asked.configuration, at[StoredGates]
    if foreign := wording.foreign_gates(stored):
        return foreign
    current = stored.configuration
    if desired is None:
        gone = "the gate control list is removed: none is planned or given for this port"
        return gone if current else None
    if current is None:
        return "no gate control list yet"
    if current != desired:
        return (
            "the gate control list changes" if current.gates != desired.gates else "classes change"
        )
    if stored.extras:
        return wording.configured_beside(stored.extras)
    return _drift(desired, stored.base_time_ns, report)


def _drift(desired: PortConfiguration, base_time_ns: int, report: PortReport | None) -> str | None:
    """Why a port must be configured again that stores what is desired."""
    if base_time_ns % desired.gates.cycle_ns:
        return "the base time is not a multiple of the cycle"
    drifted = difference(PortGates(desired), report, base_time_ns)
    return f"the kernel drifted: {drifted}" if drifted else None


def configured_difference(asked: PortGates, at: StoredPort) -> str | None:
    """What is not configured as asked, as text; None when all is."""
    desired, stored = asked.configuration, at[StoredGates]
    configured = stored.configuration
    if foreign := wording.foreign_gates(stored):
        return foreign
    if configured == desired:
        return wording.configured_beside(stored.extras) if stored.extras else None
    if configured is None:
        return "no gate control list is configured"
    if desired is None:
        return "a gate control list is configured, the plan has none"
    if configured.gates != desired.gates:
        return "another gate control list is configured"
    return "other traffic classes or DSCP rules are configured"


def drifted(asked: PortGates, at: StoredPort, report: PortReport | None) -> str | None:
    """The first difference of what the kernel runs from what is stored, as text; None if equal."""
    stored = at[StoredGates]
    return difference(asked, report, stored.base_time_ns, stored.extras)


def differs(asked: PortGates, report: PortReport | None, base_time_ns: int | None) -> str | None:
    """As `difference`, of a list that a rollout sets: it starts with its first cycle at the base
    time or later."""
    if base_time_ns is not None and asked.configuration is not None:
        base_time_ns = first_start_ns(base_time_ns, asked.configuration.gates.cycle_ns)
    return difference(asked, report, base_time_ns)


def difference(
    asked: PortGates,
    report: PortReport | None,
    base_time_ns: int | None,
    extras: Collection[str] = (),
) -> str | None:
    """The first difference of what the kernel runs from what is asked, as text; None if equal.

    A pending list must start exactly at `base_time_ns`, a running one whole cycles from it; without
    it any multiple of the cycle is accepted. `extras` are those that it is to have.
    """
    desired = asked.configuration
    if report is None:
        return "the switch has no such port"
    gates = report[GatesReport]
    newest = gates.newest
    if desired is None:
        return f"a gate control list is still there ({gates.root_qdisc})" if newest else None
    if newest is None:
        return f"no gate control list (root qdisc {gates.root_qdisc})"
    if first := _difference(_run_of(gates), _desired_run(desired, extras), _Relation.DESIRED):
        return first
    # A list that runs already keeps its base time when only classes or rules change.
    shift_ns = newest.base_time_ns - (base_time_ns or 0)
    is_pending = base_time_ns is not None and gates.pending is not None
    if shift_ns if is_pending else shift_ns % newest.gates.cycle_ns:
        expected = f"{base_time_ns} ns" if base_time_ns else "a multiple of the cycle"
        return f"base time is {newest.base_time_ns} ns, expected {expected}"
    return None


def difference_since(port_before: PortReport, port_now: PortReport) -> str | None:
    """The first difference of what a kernel runs from what it ran, as text; None if equal."""
    before, now = port_before[GatesReport], port_now[GatesReport]
    if first := _difference(_run_of(now), _run_of(before), _Relation.BEFORE):
        return first
    if before.newest and now.newest:
        shift_ns = before.newest.base_time_ns - now.newest.base_time_ns
        if shift_ns % now.newest.gates.cycle_ns:
            return f"base time is {now.newest.base_time_ns} ns, was {before.newest.base_time_ns} ns"
    return None


class _Run(NamedTuple):
    """Everything that schedules the frames of a port, except the base time."""

    gates: GateControlList | None
    mode: GateMode | None
    clock: str | None
    number_of_classes: int
    priority_map: tuple[int, ...]
    dscp_priorities: Mapping[int, int]
    extras: tuple[str, ...]


def _run_of(report: GatesReport) -> _Run:
    return _Run(
        report.newest.gates if report.newest else None,
        report.mode,
        report.clock,
        report.number_of_classes,
        report.priority_map,
        dict(report.dscp_priorities),
        report.extras,
    )


def _desired_run(desired: PortConfiguration, extras: Collection[str]) -> _Run:
    return _Run(
        desired.gates,
        desired.mode,
        CLOCK,
        desired.number_of_classes,
        desired.priority_map,
        dict(desired.dscp_priorities),
        tuple(extras),
    )


class _Relation(Enum):
    """The reference of a comparison; how its value is introduced, and what a surplus item is
    called."""

    DESIRED = ("expected", "is not in the plan")
    BEFORE = ("was", "was not there")

    def __init__(self, label: str, surplus: str) -> None:
        self.label = label
        self.surplus = surplus


def _difference(actual: _Run, reference: _Run, relation: _Relation) -> str | None:
    """The first difference as text, None if there is none."""
    if actual.gates != reference.gates:
        return _gate_difference(actual.gates, reference.gates, relation)
    for name, value, expected in (
        ("mode", actual.mode, reference.mode),
        ("clock", actual.clock, reference.clock),
        ("number of traffic classes", actual.number_of_classes, reference.number_of_classes),
    ):
        if value != expected:
            return f"{name} is {value}, {relation.label} {expected}"
    if actual.priority_map != reference.priority_map:
        return wording.priority_difference(actual.priority_map, reference.priority_map)
    if actual.dscp_priorities != reference.dscp_priorities:
        return wording.rule_difference(
            actual.dscp_priorities, reference.dscp_priorities, relation.surplus
        )
    return wording.extras_difference(actual.extras, reference.extras, relation.surplus) or None


def _gate_difference(
    actual: GateControlList | None, reference: GateControlList | None, relation: _Relation
) -> str:
    if actual is None:
        return "the gate control list is gone"
    if reference is None:
        return f"a gate control list that {relation.surplus}: {wording.gates(actual)}"
    return wording.gate_difference(actual, reference)
