"""Does a switch run what it should? The plan on one side, the kernel's dump on the other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cnc.errors import CncError
from cnc.model import Bridge, GateControlList, Plan, PortRef
from cnc.netconf.device import ADMISSION, ConnectOptions, Device, DeviceError
from cnc.netconf.payload import desired_ports
from cnc.netconf.tree import CLOCK, KernelSchedule, PortConfiguration, PortReport, StoredPort


@dataclass(frozen=True, slots=True)
class PortStatus:
    """One port: what the plan wants and what the kernel has.

    `verdict` says running, pending, no gates, how it differs, or why the switch gave no answer; and
    if the port has no link. That is not part of the plan: such a port still `agrees`.
    """

    port: PortRef
    intended: GateControlList | None
    running: KernelSchedule | None
    pending: KernelSchedule | None
    verdict: str
    agrees: bool


def status(plan: Plan, *, connect: ConnectOptions) -> list[PortStatus]:
    """Every bridge port's intended, running and pending schedule.

    A switch that does not answer raises nothing: its ports say so.
    """

    def ask(bridge: Bridge) -> list[PortStatus]:
        desired = desired_ports(plan, bridge.name)
        try:
            with Device(bridge, connect) as device:
                state = device.state(desired)
            if state.agent is None:
                raise agent_down(bridge.name)
        except CncError as error:
            return [
                PortStatus(ref, plan.gates.get(ref), None, None, str(error), agrees=False)
                for ref in (PortRef(bridge.name, port) for port in desired)
            ]
        return [
            _port_status(PortRef(bridge.name, port), wanted, state.ports.get(port))
            for port, wanted in desired.items()
        ]

    bridges = list(plan.intent.network.bridges.values())
    with ThreadPoolExecutor(max_workers=max(1, len(bridges))) as pool:
        return [port for ports in pool.map(ask, bridges) for port in ports]


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
    if stored.base_time_ns % wanted.gates.cycle_ns:
        return "the base time is not a multiple of the cycle"
    if difference := difference_of(wanted, report, stored.base_time_ns):
        return f"the kernel drifted: {difference}"
    return None


def difference_of(
    wanted: PortConfiguration | None, report: PortReport | None, base_time_ns: int | None
) -> str | None:
    """What the kernel has that the plan has not, in words; None when they agree.

    A pending list must start exactly at `base_time_ns`, a running one whole cycles from it; without
    it any multiple of the cycle will do.
    """
    if report is None:
        return "the switch has no such port"
    newest = report.newest
    if wanted is None:
        return f"a gate control list is still there ({report.root_qdisc})" if newest else None
    if newest is None:
        return f"no gate control list (root qdisc {report.root_qdisc})"
    for what, have, want in (
        ("gate control list", newest.gates, wanted.gates),
        ("mode", report.mode, wanted.mode),
        ("clock", report.clock, CLOCK),
        ("number of traffic classes", report.number_of_classes, wanted.number_of_classes),
        ("priority map", report.priority_map, wanted.priority_map),
        ("DSCP rules", dict(report.dscp_priorities), dict(wanted.dscp_priorities)),
    ):
        if have != want:
            return f"{what} is {have}, wanted {want}"
    # A list that runs already keeps its own base time when only classes or rules change around it.
    apart_ns = newest.base_time_ns - (base_time_ns or 0)
    awaited = base_time_ns is not None and report.pending is not None
    if apart_ns if awaited else apart_ns % newest.gates.cycle_ns:
        return f"base time is {newest.base_time_ns}, wanted {base_time_ns or 'whole cycles'}"
    return None


def difference_between(before: PortReport | None, now: PortReport | None) -> str | None:
    """What a kernel has that it had not before, in words; None when it runs as it did."""
    if before is None or now is None:
        return None if before is now else "the port has gone" if before else "the port is new"
    for what, had, has in (
        ("gate control list", _gates(before), _gates(now)),
        ("mode", before.mode, now.mode),
        ("clock", before.clock, now.clock),
        ("priority map", before.priority_map, now.priority_map),
        ("DSCP rules", dict(before.dscp_priorities), dict(now.dscp_priorities)),
    ):
        if had != has:
            return f"{what} is {has}, was {had}"
    if before.newest and now.newest:
        apart_ns = before.newest.base_time_ns - now.newest.base_time_ns
        if apart_ns % now.newest.gates.cycle_ns:
            return f"base time is {now.newest.base_time_ns}, was {before.newest.base_time_ns}"
    return None


def _gates(report: PortReport) -> GateControlList | None:
    return report.newest.gates if report.newest else None


def _port_status(
    ref: PortRef, wanted: PortConfiguration | None, report: PortReport | None
) -> PortStatus:
    difference = difference_of(wanted, report, None)
    if difference:
        verdict = f"differs: {difference}"
    elif report and report.pending:
        verdict = "pending"
    else:
        verdict = "running" if wanted else "no gates"
    if report and report.link_fault:
        verdict += f"; {report.link_fault}"
    return PortStatus(
        port=ref,
        intended=wanted.gates if wanted else None,
        running=report.running if report else None,
        pending=report.pending if report else None,
        verdict=verdict,
        agrees=difference is None,
    )


def agent_down(switch: str) -> DeviceError:
    return DeviceError(
        switch,
        "the NETCONF server answers but no agent runs behind it; "
        "a configuration would be stored and never reach the kernel",
        hint="start it on the switch: systemctl start tsn-agent; if it runs, the NETCONF user may "
        f"not read its state: {ADMISSION}",
    )
