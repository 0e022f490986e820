"""Compares the plan, or an earlier state, with what the kernel of a switch runs, how its bridge
forwards, or what an end station publishes to its talkers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import CLASSIFY_BRIDGED, CLOCK, KernelSchedule, PortReport
from cnc.errors import CncError
from cnc.mechanism import Counts
from cnc.mechanisms.composition import parts_while_clock_settles, within
from cnc.mechanisms.forwarding.compare import forwarding_difference, forwarding_needs_change
from cnc.mechanisms.gates import starvation
from cnc.mechanisms.talker_offsets.compare import talker_difference, talker_needs_change
from cnc.model import (
    Bridge,
    BridgeForwarding,
    EndStation,
    GateControlList,
    GateMode,
    Intent,
    Plan,
    PortConfiguration,
    PortRef,
    PortSettings,
    StoredPort,
    TalkerConfiguration,
    gated_port,
    gates_of,
)
from cnc.rollout.left_over import LeftOver
from cnc.rollout.stream_counts import NO_COUNTS, stream_counts
from cnc.support import wording
from cnc.switch.device import ADMISSION, ConnectOptions, Device, DeviceError, Managed
from cnc.switch.payload import desired_nodes

_LEFTOVER = (
    "which is not configured either, so a push would change nothing: restart tsn-agent, which "
    "removes it"
)


@dataclass(frozen=True, slots=True)
class ForwardingStatus:
    """How a bridge is to forward the frames of streams, and how its kernel does; None: unknown."""

    intended: BridgeForwarding
    running: BridgeForwarding | None


@dataclass(frozen=True, slots=True)
class PortStatus:
    """One port: the desired gate control list and the kernel's; of a bridge its `forwarding`.

    `verdict` is running, pending, no gates, how the port differs, or why its state is unknown; it
    also reports a port without link, or bridged, which is not part of the plan: such a port still
    `agrees` unless streams cross its cable, which carries no frames; nor does one that starves a
    scheduled class, nor a bridge to which frames come otherwise than planned, or copies by one way
    no longer. `hints` say what to do.
    """

    port: PortRef
    intended: GateControlList | None
    running: KernelSchedule | None
    pending: KernelSchedule | None
    verdict: str
    agrees: bool
    hints: tuple[str, ...] = ()
    is_end_station: bool = False
    forwarding: ForwardingStatus | None = None
    counts: Counts = NO_COUNTS


def status(
    plan: Plan, *, connect: ConnectOptions, left: LeftOver | None = None
) -> list[PortStatus]:
    """Every port's intended, running and pending schedule, and whether talkers know their offsets.

    A switch that does not answer raises no error: the verdict of its ports has the reason. What is
    `left` of earlier plans, by the history, is named.
    """

    settings = left.noted(desired_nodes(plan)) if left else desired_nodes(plan)
    crossed = _crossed(plan)

    def compared(device: Device, state: SwitchState) -> list[PortStatus]:
        desired = settings[device.name]
        gated = {port for port, its in desired.items() if _owns_gates(its)}
        stored = device.stored(gated).ports if gated else {}
        starved = starvation.starved_ports(device.state, state, plan.intent)
        if state.agent is None:
            raise agent_down(device.name)
        counts = stream_counts(device, plan.intent, desired, state)
        return [
            _port_status(
                PortRef(device.name, port),
                configuration,
                state.ports.get(port),
                starved.get(port),
                counts.get(port, NO_COUNTS),
                stored=stored.get(port),
                waits=state.agent.gates_wait,
                is_crossed=PortRef(device.name, port) in crossed,
                hint=left.hint(device.name, state.ports.get(port)) if left else None,
            )
            for port, configuration in desired.items()
        ]

    return _of_each_node(plan, settings, compared, connect)


def _crossed(plan: Plan) -> set[PortRef]:
    """The ports at both ends of the cables that frames of streams take."""
    links = plan.intent.network.links
    sending = {hop.egress for planned in plan.streams.values() for hop in planned.hops}
    return sending | {links[port].target for port in sending}


def status_without_plan(intent: Intent, *, connect: ConnectOptions) -> list[PortStatus]:
    """Every port's running and pending schedule, compared with nothing: the intent has no plan."""

    plan = Plan(intent, {}, {}, algorithm="none")
    settings = desired_nodes(plan)

    def read(device: Device, state: SwitchState) -> list[PortStatus]:
        if state.agent is None:
            raise agent_down(device.name)
        return [
            _not_compared(PortRef(device.name, port), configuration, state.ports.get(port))
            for port, configuration in settings[device.name].items()
        ]

    return _of_each_node(plan, settings, read, connect)


def _not_compared(
    ref: PortRef, desired: PortSettings | None, report: PortReport | None
) -> PortStatus:
    verdict = "not compared"
    if report is None:
        verdict = "the switch has no such port"
    elif report.link_fault:
        verdict += f"; {report.link_fault}"
    return PortStatus(
        port=ref,
        intended=None,
        running=report.running if report else None,
        pending=report.pending if report else None,
        verdict=verdict,
        agrees=False,
        is_end_station=isinstance(desired, TalkerConfiguration),
    )


def _of_each_node(
    plan: Plan,
    settings: Mapping[str, Mapping[str, PortSettings | None]],
    judge: Callable[[Device, SwitchState], list[PortStatus]],
    connect: ConnectOptions,
) -> list[PortStatus]:
    """What `judge` says of the ports of each node, or why a node does not tell."""

    def read(node: Bridge | EndStation) -> list[PortStatus]:
        desired = settings[node.name]
        try:
            with Device(Managed.of(node, desired), connect) as device:
                return judge(device, device.state(desired))
        except CncError as error:
            return [
                PortStatus(
                    port=ref,
                    intended=plan.gates.get(ref),
                    running=None,
                    pending=None,
                    verdict=str(error),
                    agrees=False,
                    is_end_station=isinstance(node, EndStation),
                    forwarding=_forwarding_status(desired[ref.port], None),
                )
                for ref in (PortRef(node.name, port) for port in desired)
            ]

    nodes = list(plan.intent.network.managed.values())
    with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as pool:
        return [port for ports in pool.map(read, nodes) for port in ports]


def _owns_gates(desired: PortSettings | None) -> bool:
    """Whether it is the plan that says what gates a port has."""
    if isinstance(desired, TalkerConfiguration):
        return desired.owns_gates
    return not isinstance(desired, BridgeForwarding)


def needs_change(
    desired: PortSettings | None, stored: StoredPort | None, report: PortReport | None
) -> str | None:
    """Why a port must be configured again; None when it stores and runs what is desired."""
    if isinstance(desired, TalkerConfiguration):
        change = talker_needs_change(desired, stored, report)
        if change or not desired.owns_gates:
            return change
        return _gates_need_change(desired.gates, stored, report)
    if isinstance(desired, BridgeForwarding):
        return forwarding_needs_change(desired, stored, report)
    return _gates_need_change(desired, stored, report)


def _gates_need_change(
    desired: PortConfiguration | None, stored: StoredPort | None, report: PortReport | None
) -> str | None:
    if foreign := wording.foreign_gates(stored):
        return foreign
    current = stored.configuration if stored else None
    if desired is None:
        gone = "the gate control list is removed: no stream leaves by this port"
        return gone if current else None
    if current is None or stored is None:
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
    difference = _kernel_difference(desired, report, base_time_ns, ())
    return f"the kernel drifted: {difference}" if difference else None


def difference_of(
    desired: PortSettings | None,
    report: PortReport | None,
    base_time_ns: int | None,
    extras: Collection[str] = (),
) -> str | None:
    """The first difference of the kernel from the plan, as text; None when they agree.

    A pending list must start exactly at `base_time_ns`, a running one whole cycles from it; without
    it any multiple of the cycle is accepted. `extras` are accepted as well: those of a
    `StoredPort`.
    """
    difference = _first_difference(desired, report, base_time_ns, extras)
    if difference and report and report.not_applied:
        return f"{difference}; the switch cannot apply what it has stored: {report.not_applied}"
    return difference


def _first_difference(
    desired: PortSettings | None,
    report: PortReport | None,
    base_time_ns: int | None,
    extras: Collection[str],
) -> str | None:
    if isinstance(desired, TalkerConfiguration):
        difference = talker_difference(desired, report, base_time_ns)
        if difference or not desired.owns_gates:
            return difference
        return _kernel_difference(desired.gates, report, base_time_ns, extras)
    if isinstance(desired, BridgeForwarding):
        return forwarding_difference(desired, report)
    return _kernel_difference(desired, report, base_time_ns, extras)


def _kernel_difference(
    desired: PortConfiguration | None,
    report: PortReport | None,
    base_time_ns: int | None,
    extras: Collection[str],
) -> str | None:
    if report is None:
        return "the switch has no such port"
    newest = report.newest
    if desired is None:
        return f"a gate control list is still there ({report.root_qdisc})" if newest else None
    if newest is None:
        return f"no gate control list (root qdisc {report.root_qdisc})"
    if difference := _difference(_run_of(report), _desired_run(desired, extras), _Relation.DESIRED):
        return difference
    # A list that runs already keeps its base time when only classes or rules change.
    shift_ns = newest.base_time_ns - (base_time_ns or 0)
    is_pending = base_time_ns is not None and report.pending is not None
    if shift_ns if is_pending else shift_ns % newest.gates.cycle_ns:
        expected = f"{base_time_ns} ns" if base_time_ns else "a multiple of the cycle"
        return f"base time is {newest.base_time_ns} ns, expected {expected}"
    return None


def difference_between(before: PortReport | None, now: PortReport | None) -> str | None:
    """The first difference of a kernel's state from an earlier one, as text; None when they
    agree."""
    if before is None or now is None:
        return (
            None if before is now else "the port has disappeared" if before else "the port is new"
        )
    if difference := _difference(_run_of(now), _run_of(before), _Relation.BEFORE):
        return difference
    if before.talker.newest != now.talker.newest:
        return "other offsets are published to its talkers than before"
    if before.forwarding != now.forwarding:
        return "the bridge forwards frames otherwise than before"
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


def _run_of(report: PortReport) -> _Run:
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


def _port_status(
    ref: PortRef,
    desired: PortSettings | None,
    report: PortReport | None,
    starved: str | None,
    counts: Counts,
    *,
    stored: StoredPort | None,
    is_crossed: bool,
    hint: str | None,
    waits: str | None = None,
) -> PortStatus:
    difference = difference_of(desired, report, None)
    hints = [hint] if hint else []
    is_surplus = desired is None and report is not None and report.newest is not None
    if foreign := wording.foreign_gates(stored):
        difference = f"{difference}; {foreign}" if difference else foreign
        hints.append(wording.FOREIGN_GATES_HINT)
    if is_surplus and not (stored and stored.is_gated):
        verdict = f"differs: {difference}, {_LEFTOVER}"
    elif waits and difference and _lacks_only_what_waits(desired, report):
        verdict = wording.gates_wait(waits)
        hints.append(wording.GATES_WAIT_HINT)
    elif difference:
        verdict = f"differs: {difference}"
    else:
        verdict = _as_planned(desired, report)
    link_fault = report.link_fault if report else None
    if link_fault:
        verdict += f"; {link_fault}"
        hints.append(wording.link_hint(ref.port))
    if met := [*counts.problems, *counts.past]:
        verdict += f"; {wording.named(met)}"
        hints += counts.hints
    gated = gated_port(desired)
    if gated and gated.dscp_priorities and report and report.unclassified:
        verdict += f"; {report.unclassified}"
        hints.append(CLASSIFY_BRIDGED)
    if starved:
        verdict += f"; starved: {starved}"
        hints.append(starvation.HINT)
    return PortStatus(
        port=ref,
        intended=gates_of(desired),
        running=report.running if report else None,
        pending=report.pending if report else None,
        verdict=verdict,
        agrees=not (difference or starved or counts.problems or (link_fault and is_crossed)),
        hints=tuple(hints),
        is_end_station=isinstance(desired, TalkerConfiguration),
        forwarding=_forwarding_status(desired, report),
        counts=counts,
    )


def _lacks_only_what_waits(desired: PortSettings | None, report: PortReport | None) -> bool:
    """Whether a difference is one that an agent makes which waits for the clock: no gates, no
    offsets, or stream gates that let pass at any time."""
    if report is None:
        return False
    if isinstance(desired, BridgeForwarding):
        return forwarding_difference(parts_while_clock_settles(desired), report) is None
    return report.newest is None and report.talker.newest is None


def _as_planned(desired: PortSettings | None, report: PortReport | None) -> str:
    """What to say of a port that does what it is to do, or soon will."""
    if report and (report.pending or report.talker.pending):
        return "pending"
    if isinstance(desired, TalkerConfiguration):
        talkers = "talkers know their offsets" if desired.streams else "no talkers"
        return f"running; {talkers}" if desired.gates else talkers
    if isinstance(desired, BridgeForwarding):
        return "running" if desired.entries else "no streams"
    return "running" if desired else "no gates"


def _forwarding_status(
    desired: PortSettings | None, report: PortReport | None
) -> ForwardingStatus | None:
    if not isinstance(desired, BridgeForwarding):
        return None
    bridge = report.forwarding if report else None
    return ForwardingStatus(desired, within(bridge.forwarding, desired) if bridge else None)


def agent_down(switch: str) -> DeviceError:
    return DeviceError(
        switch,
        "the NETCONF server answers but no agent runs behind it; "
        "a configuration would be stored and never reach the kernel",
        hint="start it on the switch: systemctl start tsn-agent; if it runs, the NETCONF user has "
        f"no read access to its state: {ADMISSION}",
    )
