"""All checks on the states of switches: each by itself, then their clocks together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cnc.clocks.findings import examine_clocks
from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import AgentReport, BridgeReport
from cnc.finding import Check, Finding, Verdict
from cnc.mechanism import OnPorts
from cnc.mechanisms.forwarding.preflight import EACH_PRIORITY, examine_bridge, examine_rings
from cnc.mechanisms.gates.preflight import examine_limits, examine_port
from cnc.mechanisms.registry import MEASURED
from cnc.model import (
    BridgeForwarding,
    Intent,
    Network,
    Plan,
    PortConfiguration,
    PortRef,
    PortSettings,
    TalkerConfiguration,
    gated_port,
)
from cnc.plans.packets import longest_packets
from cnc.rollout.compare import agent_down
from cnc.rollout.preflight.mtus import examine_mtu
from cnc.rollout.preflight.streams import examine_kernel

_NO_GATES = (
    "a switch: modprobe sch_taprio, or boot a kernel that has it, such as Debian's "
    "linux-image-amd64; a lab: run the commands in such a kernel, scripts/vm bash SCRIPT"
)

_NOT_APPLIED = "remove the cause, or correct or delete what is configured of the port"

Desired = Mapping[str, Mapping[str, PortSettings | None]]


def examine(
    desired: Desired,
    states: Mapping[str, SwitchState],
    *,
    clock_error_ns: int,
    plan: Plan | None = None,
) -> list[Finding]:
    """All findings about a change, those that prevent it and those that do not.

    `desired` is the configuration by switch and port, None for no gates. Without the
    `plan` that it is of, rates, limits, margins and packets are not checked.
    """
    packets = longest_packets(plan) if plan else {}
    intent = plan.intent if plan else None
    measured = [(each.check, each.on_ports(intent)) for each in MEASURED] if intent else []
    findings = [
        finding
        for name, state in states.items()
        for finding in _examine_switch(name, desired[name], state, intent, measured)
    ]
    findings += [
        finding
        for name, state in states.items()
        for port, report in state.ports.items()
        for finding in examine_mtu(PortRef(name, port), report.mtu_octets, packets)
    ]
    alive = {name: state for name, state in states.items() if state.agent}
    if plan:
        network = plan.intent.network
        planned = _by_port({name: desired[name] for name in alive})
        reports = {
            PortRef(name, port): report
            for name, state in alive.items()
            for port, report in state.ports.items()
        }
        findings += examine_limits(network, planned, reports)
        findings += examine_rings(network, _bridges(network, alive))
    return findings + list(examine_clocks(alive, clock_error_ns))


def _bridges(network: Network, alive: Mapping[str, SwitchState]) -> dict[str, BridgeReport]:
    """The bridges of the switches that answer, by switch; none of a network that routes."""
    reports = {
        name: alive[name].ports.get(bridge.bridge_device)
        for name, bridge in network.bridges.items()
        if name in alive
    }
    return {name: each.forwarding for name, each in reports.items() if each and each.forwarding}


def _by_port(desired: Desired) -> dict[PortRef, PortConfiguration]:
    """The ports that are to have a gate control list."""
    return {
        PortRef(name, port): configuration
        for name, ports in desired.items()
        for port, settings in ports.items()
        if (configuration := gated_port(settings))
    }


def _examine_switch(
    name: str,
    ports: Mapping[str, PortSettings | None],
    state: SwitchState,
    intent: Intent | None,
    measured: Sequence[tuple[Check, OnPorts]],
) -> Iterator[Finding]:
    if state.agent is None:
        down = agent_down(name)
        yield Finding(name, None, Check.AGENT, Verdict.FAILED, down.reason, down.hint)
        return
    yield Finding(name, None, Check.AGENT, Verdict.OK, "answers")
    yield _late_commits(name, state.agent)
    for port, reason in state.agent.not_applied.items():
        text = f"what is stored of this port cannot be applied: {reason}"
        yield Finding(name, port, Check.STORED, Verdict.WARNING, text, _NOT_APPLIED)
    is_gated = any(gated_port(each) for each in ports.values())
    if is_gated or not all(isinstance(each, TalkerConfiguration) for each in ports.values()):
        yield _kernel(name, ports, state.agent)
        bridges = [each for each in ports.values() if isinstance(each, BridgeForwarding)]
        yield from examine_kernel(name, bridges, state.agent)
    for port, configuration in ports.items():
        ref = PortRef(name, port)
        if isinstance(configuration, BridgeForwarding):
            report = state.ports.get(port)
            yield from examine_bridge(ref, configuration, report, _classes(ports.values()))
            continue
        link = intent.network.links.get(ref) if intent else None
        report = state.ports.get(port)
        yield from examine_port(ref, configuration, report, link)
        for check, on_port in measured:
            if report and (found := on_port(ref, configuration, report)):
                text = f"{found.text}{found.remark}"
                yield Finding(*ref, check, found.verdict, text, found.hint)


def _late_commits(name: str, agent: AgentReport) -> Finding:
    if agent.refuses_late_rollouts:
        return Finding(name, None, Check.LATE_COMMITS, Verdict.OK, "refused")
    return Finding(
        name,
        None,
        Check.LATE_COMMITS,
        Verdict.FAILED,
        "its agent applies a commit however late it comes: a change that was given up could move "
        "its gates while its neighbours keep theirs",
        "upgrade tsn-agent and its YANG modules there; until then `--without-deadline` pushes "
        "all the same",
    )


def _classes(ports: Iterable[PortSettings | None]) -> Sequence[int]:
    """The traffic class of each priority on this switch; without gates each has its own."""
    gated = filter(None, map(gated_port, ports))
    return next((each.priority_map for each in gated), EACH_PRIORITY)


def _kernel(name: str, ports: Mapping[str, PortSettings | None], agent: AgentReport) -> Finding:
    """Gates and DSCP rules, which the agent refuses where the kernel lacks support."""
    gated = list(filter(None, map(gated_port, ports.values())))
    if refused := agent.refused.get("gates"):
        text, hint = refused, _NO_GATES
    elif agent.classifier == "none" and any(each.dscp_priorities for each in gated):
        text = "its kernel has neither iptables nor nftables: DSCP rules are refused"
        hint = "load ip_tables and ip6_tables, or nf_tables, and install iptables on the switch"
    else:
        return Finding(name, None, Check.KERNEL, Verdict.OK, "runs gate control lists")
    return Finding(name, None, Check.KERNEL, Verdict.FAILED, text, hint)
