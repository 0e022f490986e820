"""Frame preemption (IEEE 802.1Q-2022 6.7.2): the frames of some traffic classes are interrupted by
all others."""

from __future__ import annotations

from agent.mechanism import BRIDGE_PORT, ByClock, Mechanism, MemoryAdapter
from agent.mechanisms.preemption import rules
from agent.mechanisms.preemption.kernel import PreemptionAdapter
from agent.mechanisms.preemption.model import NAME, Preemptable

PREEMPTION = Mechanism(
    name=NAME,
    subtrees=(BRIDGE_PORT,),
    configured=rules.configured,
    as_is=lambda state: state[Preemptable],
    contributions=rules.contributions,
    diff=rules.diff,
    problems=rules.problems,
    operational=rules.operational,
    memory=MemoryAdapter(rules.applied),
    kernel=PreemptionAdapter,
    # Classes are handed to the port with its gates, which wait for the clock.
    by_clock=ByClock(
        asked=lambda config: config[Preemptable].classes,
        is_in_force=lambda state: bool(state[Preemptable].classes),
        without=lambda _config: Preemptable(),
    ),
)
