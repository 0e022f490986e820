"""All checks on the states of switches: each by itself, then their clocks together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cnc.clocks.findings import examine_clocks
from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import EACH_PRIORITY, AgentReport
from cnc.finding import Check, Finding, Verdict
from cnc.mechanism import Around, OnPorts
from cnc.mechanisms.composition import at_places, is_bridge
from cnc.mechanisms.registry import MEASURED
from cnc.model import (
    Intent,
    Plan,
    PortRef,
    PortSettings,
    gated_port,
)
from cnc.plans.packets import longest_packets
from cnc.rollout.compare import agent_down
from cnc.rollout.preflight.mtus import examine_mtu
from cnc.rollout.preflight.profiles import examine_profile

_NOT_APPLIED = "remove the cause, or correct or delete what is configured of the port"

Desired = Mapping[str, Mapping[str, PortSettings]]


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
    measured = [each.on_ports(intent) for each in MEASURED] if intent else []
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
        findings += _examine_network(plan, {name: desired[name] for name in alive}, alive)
    return findings + list(examine_clocks(alive, clock_error_ns))


def _examine_network(
    plan: Plan, desired: Desired, states: Mapping[str, SwitchState]
) -> Iterator[Finding]:
    """All findings about what is asked of several switches together."""
    asked = {PortRef(name, port): its for name, of in desired.items() for port, its in of.items()}
    reports = {
        PortRef(name, port): report
        for name, state in states.items()
        for port, report in state.ports.items()
    }
    for place in at_places():
        found = {ref: settings.get(place.part) for ref, settings in asked.items()}
        parts = {ref: part for ref, part in found.items() if part is not None}
        yield from place.examine_network(plan, parts, reports)


def _examine_switch(
    name: str,
    ports: Mapping[str, PortSettings],
    state: SwitchState,
    intent: Intent | None,
    measured: Sequence[OnPorts],
) -> Iterator[Finding]:
    if state.agent is None:
        down = agent_down(name)
        yield Finding(name, None, Check.AGENT, Verdict.FAILED, down.reason, down.hint)
        return
    if state.agent.profile:
        yield from examine_profile(name, state.agent.profile)
    else:
        yield Finding(name, None, Check.AGENT, Verdict.OK, "answers")
        yield _late_commits(name, state.agent)
    for port, reason in state.agent.not_applied.items():
        text = f"what is stored of this port cannot be applied: {reason}"
        yield Finding(name, port, Check.STORED, Verdict.WARNING, text, _NOT_APPLIED)
    for place in at_places():
        yield from place.examine_node(name, ports, state.agent)
    classes = _classes(ports.values())
    for port, settings in ports.items():
        ref, report = PortRef(name, port), state.ports.get(port)
        around = Around(intent.network.links.get(ref) if intent else None, classes)
        is_of_bridge = is_bridge(settings)
        for place in at_places():
            if place.of_bridges is is_of_bridge:
                yield from place.examine(ref, settings[place.part], report, around)
        for on_port in measured:
            if report and not is_of_bridge and (found := on_port(ref, settings, report)):
                yield found.finding()


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


def _classes(ports: Iterable[PortSettings]) -> Sequence[int]:
    """The traffic class of each priority on this switch; without gates each has its own."""
    gated = filter(None, map(gated_port, ports))
    return next((each.priority_map for each in gated), EACH_PRIORITY)
