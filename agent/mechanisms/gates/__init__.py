"""Gates (IEEE 802.1Q 8.6.8.4): a gate control list on every port, run by the kernel's taprio."""

from __future__ import annotations

from pathlib import Path

from agent.mechanism import BRIDGE_PORT, ByClock, Mechanism, MemoryAdapter
from agent.mechanisms.gates import desired, diff, memory
from agent.mechanisms.gates.kernel import GateAdapter
from agent.mechanisms.gates.model import NAME, GateConfig, GateState
from agent.mechanisms.gates.operational import operational
from agent.mechanisms.gates.problems import problems


def gates_with(quota_record: Path) -> Mechanism:
    """The mechanism; what it has made of the quota of transmitted frames is kept in this file."""
    return Mechanism(
        name=NAME,
        subtrees=(BRIDGE_PORT, desired.INTERFACE_GATE_TABLE),
        configured=desired.configured,
        as_is=desired.as_is,
        contributions=diff.contributions,
        diff=diff.diff,
        problems=problems,
        operational=operational,
        memory=MemoryAdapter(memory.applied, memory.at),
        kernel=lambda ipr: GateAdapter(ipr, quota_record),
        # By a wrong clock every frame is held up; without gates frames at least get through.
        by_clock=ByClock(
            asked=lambda config: config[GateConfig].taprio,
            is_in_force=lambda state: state[GateState].taprio is not None,
            without=lambda _config: GateConfig(),
        ),
    )
