"""Static forwarding of the frames of streams by a Linux bridge (IEEE Std 802.1Q-2022, 8.8).

In the VLANs that are configured for a bridge, a frame leaves by the ports of the filtering entry of
its address and by no other, whatever the bridge has learned: without an entry it goes nowhere. In
all other VLANs the bridge learns and floods as before. Bridges and their ports are made by others.
"""

from __future__ import annotations

from agent.mechanism import BRIDGE, Mechanism, MemoryAdapter
from agent.mechanisms.forwarding import rules
from agent.mechanisms.forwarding.kernel import BridgeAdapter
from agent.mechanisms.forwarding.problems import problems
from agent.mechanisms.forwarding.tree import configured, operational

FORWARDING = Mechanism(
    name=rules.NAME,
    subtrees=(BRIDGE,),
    configured=configured,
    as_is=rules.as_is,
    contributions=rules.contributions,
    diff=rules.diff,
    problems=problems,
    # Under the bridge, not under the interface.
    operational=lambda _state, _context: {},
    memory=MemoryAdapter(rules.applied),
    kernel=BridgeAdapter,
    operational_of_bridge=operational,
)
