"""The code point in the VLAN tag of frames that leave by a port of a bridge (IEEE Std 802.1Q-2022,
6.9.3).

A Linux bridge sends a tag as it came in. With `pcp-encoding-table` configured, the tag says which
priority the frame has when it leaves: the one with which it came in, or the one that the filters of
the port gave it.
"""

from __future__ import annotations

from agent.mechanism import BRIDGE_PORT, Mechanism, MemoryAdapter
from agent.mechanisms.sent_priority import rules
from agent.mechanisms.sent_priority.kernel import adapter

SENT_PRIORITY = Mechanism(
    name=rules.NAME,
    subtrees=(BRIDGE_PORT,),
    configured=rules.configured,
    as_is=rules.as_is,
    contributions=rules.contributions,
    diff=rules.diff,
    problems=rules.problems,
    operational=rules.operational,
    memory=MemoryAdapter(rules.applied),
    kernel=adapter,
)
