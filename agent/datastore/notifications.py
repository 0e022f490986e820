"""Events of the agent → the notifications of `tsn-linux` and `tsn-multipath`, sent by sysrepo."""

from __future__ import annotations

import logging
from typing import Any

from agent.events import (
    AgentStarted,
    ClockStep,
    Event,
    LatentError,
    LatentErrorEnded,
    MultipathEvent,
    PortDrift,
    PortRestored,
    PortStateChange,
    PtpGrandmasterChange,
    PtpPortStateChange,
)
from agent.sysrepo import SysrepoError

LOG = logging.getLogger(__name__)


def send(session: Any, event: Event) -> None:
    """Log the event and publish it to all who subscribed to it; a failure is logged, too."""
    name, content = encode(event)
    level = logging.WARNING if isinstance(event, PortDrift | LatentError) else logging.INFO
    leaves = ", ".join(f"{leaf} {value}" for leaf, value in content.items())
    fields = {"TSN_PORT": content["interface"]} if "interface" in content else {}
    LOG.log(level, "%s: %s", name, leaves, extra={"fields": fields})
    try:
        module = "tsn-multipath" if isinstance(event, MultipathEvent) else "tsn-linux"
        session.notification_send(f"/{module}:{name}", content, strict=True)
    except SysrepoError as error:
        LOG.error("%s was not sent: %s", name, error)


def encode(event: Event) -> tuple[str, dict[str, Any]]:
    """The notification's name and its leaves."""
    encoded: tuple[str, dict[str, Any]]
    match event:
        case AgentStarted(pid):
            encoded = "agent-started", {"pid": pid}
        case PortDrift(port, difference):
            encoded = "port-drift", {"interface": port, "difference": difference}
        case PortRestored(port):
            encoded = "port-restored", {"interface": port}
        case PortStateChange(port, oper_status, speed_bps):
            speed = {} if speed_bps is None else {"link-speed-bps": speed_bps}
            state = {"interface": port, "oper-status": str(oper_status)}
            encoded = "port-state-change", state | speed
        case LatentError() | LatentErrorEnded():
            encoded = _latent_error(event)
        case PtpGrandmasterChange() | PtpPortStateChange():
            encoded = _ptp(event)
        case MultipathEvent(name, leaves):
            encoded = name, dict(leaves)
        case ClockStep(tai_offset_s, step_ns):
            encoded = "clock-step", {"tai-offset": tai_offset_s, "step-ns": step_ns}
    return encoded


def _ptp(event: PtpGrandmasterChange | PtpPortStateChange) -> tuple[str, dict[str, Any]]:
    if isinstance(event, PtpPortStateChange):
        leaves = {"interface": event.port, "state": str(event.state), "before": str(event.before)}
        return "ptp-port-state-change", {"instance": event.instance, **leaves}
    return "ptp-grandmaster-change", {
        "instance": event.instance,
        "grandmaster-identity": event.grandmaster,
        "before": event.before,
        "is-grandmaster": event.is_grandmaster,
    }


def _latent_error(event: LatentError | LatentErrorEnded) -> tuple[str, dict[str, Any]]:
    if isinstance(event, LatentErrorEnded):
        return "latent-error-ended", {"sequence-recovery": event.entry}
    ports = [{"interface": port, "copies": copies} for port, copies in event.copies.items()]
    leaves = {"sequence-recovery": event.entry, "difference": event.difference}
    return "latent-error", {**leaves, "port": ports}
