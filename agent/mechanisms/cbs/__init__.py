"""The credit-based shaper (IEEE 802.1Q-2022 8.6.8.2): a class sends by the credit it has."""

from __future__ import annotations

from agent.mechanism import BRIDGE_PORT, Mechanism, MemoryAdapter
from agent.mechanisms.cbs import desired, diff, memory
from agent.mechanisms.cbs.kernel import ShaperAdapter
from agent.mechanisms.cbs.model import NAME, Shapers

CREDIT_BASED_SHAPER = Mechanism(
    name=NAME,
    subtrees=(BRIDGE_PORT,),
    configured=desired.configured,
    as_is=lambda state: state[Shapers],
    contributions=lambda state: diff.contributions(state, state[Shapers]),
    diff=diff.diff,
    problems=diff.problems,
    operational=desired.operational,
    memory=MemoryAdapter(memory.applied),
    kernel=ShaperAdapter,
)
