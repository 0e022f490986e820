"""Compares the plan, or an earlier state, with what the kernel of a switch runs, how its bridge
forwards, or what an end station publishes to its talkers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cnc.data_tree.list_times import first_start_ns
from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import (
    CLASSIFY_BRIDGED,
    BridgeReport,
    GatesReport,
    KernelSchedule,
    PortReport,
)
from cnc.errors import CncError
from cnc.mechanism import Counts
from cnc.mechanisms.composition import asked_at, at_places, within
from cnc.mechanisms.second_look import Found, second_look
from cnc.model import (
    NO_GATES,
    NOTHING_STORED,
    Bridge,
    BridgeForwarding,
    EndStation,
    GateControlList,
    Intent,
    Plan,
    PortGates,
    PortRef,
    PortSettings,
    StoredGates,
    StoredPort,
    TalkerStreams,
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
        gated = {port for port, its in desired.items() if its.get(PortGates)}
        stored = device.stored(gated).ports if gated else {}
        troubles = second_look(device.name, device.state, state, plan.intent)
        if state.agent is None:
            raise agent_down(device.name)
        counts = stream_counts(device, plan.intent, desired, state)
        return [
            _port_status(
                PortRef(device.name, port),
                configuration,
                state.ports.get(port),
                troubles.get(port, ()),
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


def _not_compared(ref: PortRef, desired: PortSettings, report: PortReport | None) -> PortStatus:
    verdict, gates = "not compared", (report or PortReport())[GatesReport]
    if report is None:
        verdict = "the switch has no such port"
    elif report.link_fault:
        verdict += f"; {report.link_fault}"
    return PortStatus(
        port=ref,
        intended=None,
        running=gates.running,
        pending=gates.pending,
        verdict=verdict,
        agrees=False,
        is_end_station=desired.get(TalkerStreams) is not None,
    )


def _of_each_node(
    plan: Plan,
    settings: Mapping[str, Mapping[str, PortSettings]],
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


def needs_change(
    desired: PortSettings, stored: StoredPort | None, report: PortReport | None
) -> str | None:
    """Why a place must be configured again; None when it stores and runs what is desired."""
    its = stored or NOTHING_STORED
    changes = (place.needs_change(part, its, report) for place, part in asked_at(desired))
    return next(filter(None, changes), None)


def difference_of(
    desired: PortSettings,
    report: PortReport | None,
    base_time_ns: int | None,
) -> str | None:
    """The first difference of the kernel from the plan, as text; None when they agree.

    A pending list must start exactly at `base_time_ns`, a running one whole cycles from it; without
    it any multiple of the cycle is accepted.
    """
    return _explained(
        report,
        (place.differs(part, report, base_time_ns) for place, part in asked_at(desired)),
    )


def is_configured(desired: PortSettings, stored: StoredPort | None, base_time_ns: int) -> bool:
    """Whether a place stores what is desired, with lists that begin at this base time."""
    its = stored or NOTHING_STORED
    if any(place.configured(part, its) for place, part in asked_at(desired)):
        return False
    gates = gates_of(desired)
    return gates is None or its[StoredGates].base_time_ns == first_start_ns(
        base_time_ns, gates.cycle_ns
    )


def difference_from_stored(
    previous: PortSettings, stored: StoredPort | None, report: PortReport | None
) -> str | None:
    """The first difference of the kernel from what is `stored` at a place of what a rollout asks
    there, as text; None when they agree."""
    its = stored or NOTHING_STORED
    return _explained(
        report, (place.drifted(part, its, report) for place, part in asked_at(previous))
    )


def _explained(report: PortReport | None, differences: Iterable[str | None]) -> str | None:
    """The first difference, with what the switch says of it."""
    difference = next(filter(None, differences), None)
    if difference and report and report.profile and not report.profile.reads_back:
        return f"{difference}, by what is stored there"
    if difference and report and report.not_applied:
        return f"{difference}; the switch cannot apply what it has stored: {report.not_applied}"
    return difference


def difference_between(before: PortReport | None, now: PortReport | None) -> str | None:
    """The first difference of a kernel's state from an earlier one, as text; None when they
    agree."""
    if before is None or now is None:
        return (
            None if before is now else "the port has disappeared" if before else "the port is new"
        )
    # Gates first, and bridges, which have none of the others.
    differences = (place.since(before, now) for place in reversed(at_places()))
    return next(filter(None, differences), None)


def _port_status(
    ref: PortRef,
    desired: PortSettings,
    report: PortReport | None,
    troubles: Collection[Found],
    counts: Counts,
    *,
    stored: StoredPort | None,
    is_crossed: bool,
    hint: str | None,
    waits: str | None = None,
) -> PortStatus:
    difference = difference_of(desired, report, None)
    hints = [hint] if hint else []
    gates = (report or PortReport())[GatesReport]
    stored_gates = (stored or NOTHING_STORED)[StoredGates]
    if foreign := wording.foreign_gates(stored_gates):
        difference = f"{difference}; {foreign}" if difference else foreign
        hints.append(wording.FOREIGN_GATES_HINT)
    if desired == NO_GATES and gates.newest and not stored_gates.are_on:
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
    if gated and gated.dscp_priorities and gates.unclassified:
        verdict += f"; {gates.unclassified}"
        hints.append(CLASSIFY_BRIDGED)
    if report:
        verdict += "".join(f"; {text}" for text in told_at(desired, report))
    for trouble in troubles:
        verdict += f"; {trouble.text}"
        hints.append(trouble.followed.hint)
    return PortStatus(
        port=ref,
        intended=gates_of(desired),
        running=gates.running,
        pending=gates.pending,
        verdict=verdict,
        agrees=not (difference or troubles or counts.problems or (link_fault and is_crossed)),
        hints=tuple(hints),
        is_end_station=desired.get(TalkerStreams) is not None,
        forwarding=_forwarding_status(desired, report),
        counts=counts,
    )


def told_at(desired: PortSettings, report: PortReport) -> list[str]:
    """What mechanisms tell of a port beside whether it is as planned: what was lost there, and what
    goes on there."""
    asked = [place for place, _ in asked_at(desired)]
    told = [each for place in asked for each in (place.lost(report), place.goes_on(report))]
    return [text for text in told if text]


def _lacks_only_what_waits(desired: PortSettings, report: PortReport | None) -> bool:
    """Whether a difference is one that an agent makes which waits for the clock: no gates, no
    offsets, or stream gates that let pass at any time."""
    if report is None:
        return False
    return all(place.waits(part, report) for place, part in asked_at(desired))


def _as_planned(desired: PortSettings, report: PortReport | None) -> str:
    """What to say of a place that does what it is to do, or soon will."""
    if pends(desired, report):
        return "pending"
    # Gates before what talkers know.
    asked = [*asked_at(desired)][::-1]
    does = [text for place, part in asked if (text := place.does(part))]
    if does and report and report.profile and not report.profile.reads_back:
        return "configured; it does not report what it runs"
    return "; ".join(does) or asked[0][0].idle


def pends(desired: PortSettings, report: PortReport | None) -> bool:
    """Whether some of what is asked at a place begins at a base time to come."""
    return report is not None and any(place.pends(report) for place, _ in asked_at(desired))


def _forwarding_status(desired: PortSettings, report: PortReport | None) -> ForwardingStatus | None:
    its = desired.get(BridgeForwarding)
    if its is None:
        return None
    bridge = report.get(BridgeReport) if report else None
    return ForwardingStatus(its, within(bridge.forwarding, its) if bridge else None)


def agent_down(switch: str) -> DeviceError:
    return DeviceError(
        switch,
        "the NETCONF server answers but no agent runs behind it; "
        "a configuration would be stored and never reach the kernel",
        hint="start it on the switch: systemctl start tsn-agent; if it runs, the NETCONF user has "
        f"no read access to its state: {ADMISSION}",
    )
