"""Evaluates one poll of a switch. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from cnc.data_tree.tree import AgentReport
from cnc.mechanisms.composition import asked_at
from cnc.mechanisms.registry import MEASURED
from cnc.model import NOTHING_STORED, Intent, PortRef, PortSettings, StoredPort
from cnc.rollout.compare import agent_down, difference_of
from cnc.support.wording import gates_wait, named
from cnc.switch.rollout_id import RolloutId
from cnc.watch.condition import WHOLE, Kind, Verdicts
from cnc.watch.observation import Poll

Desired = Mapping[str, PortSettings]


def verdicts(poll: Poll, desired: Desired, is_known: Callable[[str], bool]) -> Verdicts:
    """The verdicts on a switch that answers.

    `desired` is the plan's configuration of its ports; `is_known` says whether a rollout (UUID) is
    in the history. Without its agent the state of the kernel is unknown and not judged.
    """
    found: dict[StrEnum, dict[str, str]] = {
        Kind.UNREACHABLE: {},
        Kind.AGENT_DOWN: {},
        Kind.CONFIGURATION: {
            port: text
            for port, configuration in desired.items()
            if (text := _configuration_difference(configuration, poll.stored.ports.get(port)))
        },
        Kind.FOREIGN_CHANGE: _foreign(poll.stored.rollout_id, is_known),
    }
    agent = poll.state.agent
    if agent is None:
        found[Kind.AGENT_DOWN] = {WHOLE: _without_name(poll.switch, str(agent_down(poll.switch)))}
        return found
    found[Kind.DRIFT] = drift(poll, desired)
    found[Kind.PTP_UNLOCKED] = _unlocked(agent)
    found[Kind.GATES_WAIT] = {WHOLE: gates_wait(agent.gates_wait)} if agent.gates_wait else {}
    found[Kind.LINK_DOWN] = {port: text for port in desired if (text := _link_down(poll, port))}
    return found


def drift(poll: Poll, desired: Desired) -> dict[str, str]:
    """The ports whose kernel state differs from the plan, with the difference."""
    return {
        port: text
        for port, configuration in desired.items()
        if (report := poll.state.ports.get(port))
        and (text := difference_of(configuration, report, base_time_ns=None))
    }


def late(poll: Poll, desired: Desired, intent: Intent) -> Verdicts:
    """Where what ports have measured is more than the plan allows; what is the same on all ports
    of a switch is told once."""
    verdicts: dict[StrEnum, dict[str, str]] = {}
    for each in MEASURED:
        if each.kind is None:
            continue
        found = verdicts.setdefault(each.kind, {})
        on_port = each.on_ports(intent)
        for port, report in poll.state.ports.items():
            measured = on_port(PortRef(poll.switch, port), desired.get(port), report)
            if measured and not measured.is_allowed:
                found[WHOLE if measured.is_of_node else port] = measured.text
    return verdicts


def unreachable(switch: str, reason: str) -> Verdicts:
    """The verdict on a switch that does not answer, for `reason`."""
    return {Kind.UNREACHABLE: {WHOLE: _without_name(switch, reason)}}


def _configuration_difference(desired: PortSettings, stored: StoredPort | None) -> str | None:
    its = stored or NOTHING_STORED
    differences = (place.configured(part, its) for place, part in asked_at(desired))
    return next(filter(None, differences), None)


def _foreign(rollout_id: RolloutId | None, is_known: Callable[[str], bool]) -> dict[str, str]:
    if rollout_id is None or is_known(rollout_id.id):
        return {}
    return {
        WHOLE: f"rollout {rollout_id.id} of {rollout_id.controller}, {rollout_id.time}, "
        "is not in this history"
    }


def _unlocked(agent: AgentReport) -> dict[str, str]:
    if agent.ptp is None or agent.ptp.is_locked:
        return {}
    return {WHOLE: f"its PTP ports are {named(agent.ptp.port_states) or 'none'}"}


def _link_down(poll: Poll, port: str) -> str | None:
    report = poll.state.ports.get(port)
    if report is None:
        return "the switch has no such interface"
    return report.link_fault


def _without_name(switch: str, message: str) -> str:
    return message.removeprefix(f"{switch}: ")
