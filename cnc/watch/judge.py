"""What one look at a switch says of that switch. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cnc.model import PortConfiguration, StoredPort
from cnc.rollout.compare import agent_down, difference_of
from cnc.rollout.wording import configured_beside
from cnc.switch.mark import Mark
from cnc.switch.tree import AgentReport
from cnc.watch.condition import WHOLE, Kind, Verdicts
from cnc.watch.observation import Look

Wanted = Mapping[str, PortConfiguration | None]


def verdicts(look: Look, wanted: Wanted, is_known: Callable[[str], bool]) -> Verdicts:
    """The troubles of a switch that answers.

    `wanted` is what the plan has for its ports; `is_known` says whether a rollout (UUID) is in the
    history. Without its agent nobody knows what the kernel does: then that is not judged.
    """
    found: dict[Kind, dict[str, str]] = {
        Kind.UNREACHABLE: {},
        Kind.AGENT_DOWN: {},
        Kind.CONFIGURATION: {
            port: text
            for port, want in wanted.items()
            if (text := _otherwise_configured(want, look.stored.ports.get(port)))
        },
        Kind.FOREIGN_CHANGE: _foreign(look.stored.mark, is_known),
    }
    agent = look.state.agent
    if agent is None:
        found[Kind.AGENT_DOWN] = {WHOLE: _without_name(look.switch, str(agent_down(look.switch)))}
        return found
    found[Kind.DRIFT] = drift(look, wanted)
    found[Kind.PTP_UNLOCKED] = _unlocked(agent)
    found[Kind.LINK_DOWN] = {port: text for port in wanted if (text := _link_down(look, port))}
    return found


def drift(look: Look, wanted: Wanted) -> dict[str, str]:
    """The ports whose kernel does something else than the plan wants, and what."""
    return {
        port: text
        for port, want in wanted.items()
        if (report := look.state.ports.get(port))
        and (text := difference_of(want, report, base_time_ns=None))
    }


def silent(switch: str, reason: str) -> Verdicts:
    """The verdict on a switch that gives no answer, for `reason`."""
    return {Kind.UNREACHABLE: {WHOLE: _without_name(switch, reason)}}


def _otherwise_configured(want: PortConfiguration | None, stored: StoredPort | None) -> str | None:
    have = stored.configuration if stored else None
    if have == want:
        extras = stored.extras if stored else ()
        return configured_beside(extras) if extras else None
    if have is None:
        return "no gate control list is configured"
    if want is None:
        return "a gate control list is configured, the plan has none"
    if have.gates != want.gates:
        return "another gate control list is configured"
    return "other traffic classes or DSCP rules are configured"


def _foreign(mark: Mark | None, is_known: Callable[[str], bool]) -> dict[str, str]:
    if mark is None or is_known(mark.id):
        return {}
    return {WHOLE: f"rollout {mark.id} of {mark.controller}, {mark.time}, is not in this history"}


def _unlocked(agent: AgentReport) -> dict[str, str]:
    if agent.ptp is None or agent.ptp.is_locked:
        return {}
    return {WHOLE: f"its PTP ports are {', '.join(agent.ptp.port_states) or 'none'}"}


def _link_down(look: Look, port: str) -> str | None:
    report = look.state.ports.get(port)
    if report is None:
        return "the switch has no such interface"
    return report.link_fault


def _without_name(switch: str, message: str) -> str:
    return message.removeprefix(f"{switch}: ")
