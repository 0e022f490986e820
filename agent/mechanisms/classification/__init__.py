"""Classification: the DSCP of an IP packet decides the skb priority, and so the traffic class."""

from __future__ import annotations

from agent.mechanism import BRIDGE_PORT, Mechanism, MemoryAdapter
from agent.mechanisms.classification import rules
from agent.mechanisms.classification.kernel import RuleAdapter

CLASSIFICATION = Mechanism(
    name=rules.NAME,
    subtrees=(BRIDGE_PORT,),
    configured=rules.configured,
    as_is=rules.as_is,
    contributions=rules.contributions,
    diff=rules.diff,
    problems=rules.problems,
    operational=rules.operational,
    memory=MemoryAdapter(rules.applied),
    kernel=lambda _ipr: RuleAdapter(),
)
