"""Does a switch run what it should? The plan on one side, the kernel's dump on the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from cnc.errors import CncError
from cnc.model import (
    Bridge,
    GateControlList,
    GateMode,
    Plan,
    PortConfiguration,
    PortRef,
    StoredPort,
)
from cnc.rollout import starvation, wording
from cnc.switch.device import ADMISSION, ConnectOptions, Device, DeviceError, SwitchState
from cnc.switch.payload import desired_ports
from cnc.switch.tree import CLASSIFY_BRIDGED, CLOCK, KernelSchedule, PortReport

_LEFTOVER = (
    "which is not configured there either, so a push finds nothing to change: restart tsn-agent, "
    "which removes it"
)


@dataclass(frozen=True, slots=True)
class PortStatus:
    """One port: what the plan wants and what the kernel has.

    `verdict` says running, pending, no gates, how it differs, or why the switch gave no answer; and
    if the port has no link or is bridged. That is not part of the plan: such a port still `agrees`;
    one that starves a scheduled class does not. `hints` say what to do.
    """

    port: PortRef
    intended: GateControlList | None
    running: KernelSchedule | None
    pending: KernelSchedule | None
    verdict: str
    agrees: bool
    hints: tuple[str, ...] = ()


def status(plan: Plan, *, connect: ConnectOptions) -> list[PortStatus]:
    """Every bridge port's intended, running and pending schedule.

    A switch that does not answer raises nothing: its ports say so.
    """

    def ask(bridge: Bridge) -> list[PortStatus]:
        desired = desired_ports(plan, bridge.name)
        try:
            with Device(bridge, connect) as device:
                state = device.state(desired)
                leftover = _leftover_ports(device, desired, state)
                starved = starvation.starved_ports(device, state, plan.intent)
            if state.agent is None:
                raise agent_down(bridge.name)
        except CncError as error:
            return [
                PortStatus(ref, plan.gates.get(ref), None, None, str(error), agrees=False)
                for ref in (PortRef(bridge.name, port) for port in desired)
            ]
        return [
            _port_status(
                PortRef(bridge.name, port),
                wanted,
                state.ports.get(port),
                starved.get(port),
                is_leftover=port in leftover,
            )
            for port, wanted in desired.items()
        ]

    bridges = list(plan.intent.network.bridges.values())
    with ThreadPoolExecutor(max_workers=max(1, len(bridges))) as pool:
        return [port for ports in pool.map(ask, bridges) for port in ports]


def _leftover_ports(
    device: Device, desired: Mapping[str, PortConfiguration | None], state: SwitchState
) -> set[str]:
    """The ports with gates that neither the plan nor the switch's configuration has."""
    unwanted = {
        port
        for port, wanted in desired.items()
        if wanted is None and (report := state.ports.get(port)) and report.newest
    }
    if not unwanted:
        return unwanted
    stored = device.stored(unwanted).ports
    return {port for port in unwanted if port not in stored or stored[port].configuration is None}


def needs_change(
    wanted: PortConfiguration | None, stored: StoredPort | None, report: PortReport | None
) -> str | None:
    """Why a port must be told anew, None when it already has and runs what is wanted."""
    have = stored.configuration if stored else None
    if wanted is None:
        return "gates are no longer wanted" if have else None
    if have is None or stored is None:
        return "no gate control list yet"
    if have != wanted:
        return "the gate control list changes" if have.gates != wanted.gates else "classes change"
    if stored.extras:
        return wording.configured_beside(stored.extras)
    if stored.base_time_ns % wanted.gates.cycle_ns:
        return "the base time is not a multiple of the cycle"
    difference = difference_of(wanted, report, stored.base_time_ns)
    return f"the kernel drifted: {difference}" if difference else None


def difference_of(
    wanted: PortConfiguration | None,
    report: PortReport | None,
    base_time_ns: int | None,
    extras: Collection[str] = (),
) -> str | None:
    """What the kernel has that the plan has not, in words; None when they agree.

    A pending list must start exactly at `base_time_ns`, a running one whole cycles from it; without
    it any multiple of the cycle will do. `extras` may be there besides: those of a `StoredPort`.
    """
    if report is None:
        return "the switch has no such port"
    newest = report.newest
    if wanted is None:
        return f"a gate control list is still there ({report.root_qdisc})" if newest else None
    if newest is None:
        return f"no gate control list (root qdisc {report.root_qdisc})"
    if difference := _apart(_run_of(report), _run_wanted(wanted, extras), _Relation.WANTED):
        return difference
    # A list that runs already keeps its own base time when only classes or rules change around it.
    apart_ns = newest.base_time_ns - (base_time_ns or 0)
    awaited = base_time_ns is not None and report.pending is not None
    if apart_ns if awaited else apart_ns % newest.gates.cycle_ns:
        wanted_time = f"{base_time_ns} ns" if base_time_ns else "a multiple of the cycle"
        return f"base time is {newest.base_time_ns} ns, wanted {wanted_time}"
    return None


def difference_between(before: PortReport | None, now: PortReport | None) -> str | None:
    """What a kernel has that it had not before, in words; None when it runs as it did."""
    if before is None or now is None:
        return None if before is now else "the port has gone" if before else "the port is new"
    if difference := _apart(_run_of(now), _run_of(before), _Relation.BEFORE):
        return difference
    if before.newest and now.newest:
        apart_ns = before.newest.base_time_ns - now.newest.base_time_ns
        if apart_ns % now.newest.gates.cycle_ns:
            return f"base time is {now.newest.base_time_ns} ns, was {before.newest.base_time_ns} ns"
    return None


class _Run(NamedTuple):
    """All that decides when which frame leaves by a port, but the base time."""

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


def _run_wanted(wanted: PortConfiguration, extras: Collection[str]) -> _Run:
    return _Run(
        wanted.gates,
        wanted.mode,
        CLOCK,
        wanted.number_of_classes,
        wanted.priority_map,
        dict(wanted.dscp_priorities),
        tuple(extras),
    )


class _Relation(Enum):
    """What something is compared with; how that is said, and what of a thing too many."""

    WANTED = ("wanted", "is not wanted")
    BEFORE = ("was", "was not there")

    def __init__(self, words: str, surplus: str) -> None:
        self.words = words
        self.surplus = surplus


def _apart(has: _Run, other: _Run, relation: _Relation) -> str | None:
    """The first difference in words, None if there is none."""
    if has.gates != other.gates:
        return _gates_apart(has.gates, other.gates, relation)
    for what, its, the_other in (
        ("mode", has.mode, other.mode),
        ("clock", has.clock, other.clock),
        ("number of traffic classes", has.number_of_classes, other.number_of_classes),
    ):
        if its != the_other:
            return f"{what} is {its}, {relation.words} {the_other}"
    if has.priority_map != other.priority_map:
        return wording.priorities_apart(has.priority_map, other.priority_map)
    if has.dscp_priorities != other.dscp_priorities:
        return wording.rules_apart(has.dscp_priorities, other.dscp_priorities, relation.surplus)
    return wording.extras_apart(has.extras, other.extras, relation.surplus) or None


def _gates_apart(
    has: GateControlList | None, other: GateControlList | None, relation: _Relation
) -> str:
    if has is None:
        return "the gate control list is gone"
    if other is None:
        return f"a gate control list that {relation.surplus}: {wording.gates(has)}"
    return wording.gates_apart(has, other)


def _port_status(
    ref: PortRef,
    wanted: PortConfiguration | None,
    report: PortReport | None,
    starved: str | None,
    *,
    is_leftover: bool,
) -> PortStatus:
    difference = difference_of(wanted, report, None)
    if is_leftover:
        verdict = f"differs: {difference}, {_LEFTOVER}"
    elif difference:
        verdict = f"differs: {difference}"
    elif report and report.pending:
        verdict = "pending"
    else:
        verdict = "running" if wanted else "no gates"
    if report and report.link_fault:
        verdict += f"; {report.link_fault}"
    hints = []
    if wanted and wanted.dscp_priorities and report and report.unclassified:
        verdict += f"; {report.unclassified}"
        hints.append(CLASSIFY_BRIDGED)
    if starved:
        verdict += f"; starved: {starved}"
        hints.append(starvation.HINT)
    return PortStatus(
        port=ref,
        intended=wanted.gates if wanted else None,
        running=report.running if report else None,
        pending=report.pending if report else None,
        verdict=verdict,
        agrees=difference is None and starved is None,
        hints=tuple(hints),
    )


def agent_down(switch: str) -> DeviceError:
    return DeviceError(
        switch,
        "the NETCONF server answers but no agent runs behind it; "
        "a configuration would be stored and never reach the kernel",
        hint="start it on the switch: systemctl start tsn-agent; if it runs, the NETCONF user may "
        f"not read its state: {ADMISSION}",
    )
