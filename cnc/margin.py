"""Plans whose windows leave the kernel no time to wake up."""

from __future__ import annotations

from cnc import clock
from cnc.format import counted
from cnc.model import GateMode, Plan

HINT = (
    "gate-margin: 50us under `defaults` of the intent, or how late the switch's timers wake up at "
    "worst; `gates: full-offload` needs none"
)


def warning(plan: Plan, switch: str | None = None) -> str | None:
    """What to say of ports, of one switch or of all, that open windows by timer without a margin.

    None where there are none, or where the clock is virtual and a timer is never late.
    """
    network = plan.intent.network
    ports = sum(
        network.bridges[port.node].gate_mode is GateMode.SOFTWARE
        and port.node == (switch or port.node)
        for port in plan.gates
    )
    if not ports or network.gate_margin_ns or clock.is_exact():
        return None
    return (
        f"{counted(ports, 'port')} with software gates and gate-margin 0ns: a timer that is late "
        "misses the window, and frames may never leave"
    )
