"""The priority of frames that come in by a port of a bridge (IEEE Std 802.1Q-2022, 6.9.3, 6.9.4).

Linux gives all of them priority 0. With `pcp-decoding-table`, `priority-regeneration` or
`default-priority` configured, a frame with a VLAN tag gets the priority that its code point stands
for (without a table: its own value), regenerated, any other frame the default priority of the port;
the bridge keeps it until the gates of the port that it leaves by.
"""

from __future__ import annotations

from agent.mechanism import BRIDGE_PORT, Mechanism, MemoryAdapter
from agent.mechanisms.received_priority import rules
from agent.mechanisms.received_priority.kernel import ReceivedPriorityAdapter

RECEIVED_PRIORITY = Mechanism(
    name=rules.NAME,
    subtrees=(BRIDGE_PORT,),
    configured=rules.configured,
    as_is=rules.as_is,
    contributions=rules.contributions,
    diff=rules.diff,
    # YANG allows 0 to 7 only.
    problems=lambda _config, _state: (),
    operational=rules.operational,
    memory=MemoryAdapter(rules.applied),
    kernel=ReceivedPriorityAdapter,
)
