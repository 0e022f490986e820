"""Identification of streams whose end stations know no VLANs (IEEE Std 802.1CB-2017, clause 6).

Where such a stream enters the network its frames get a destination address, a VLAN tag and a
priority of their own, before the bridge sees them (active destination MAC and VLAN stream
identification, 6.6); where they leave it, the tag goes and the address of the listener comes back.
"""

from __future__ import annotations

from agent.mechanism import STREAM_IDENTITY, Mechanism, MemoryAdapter
from agent.mechanisms.identification import report, rules
from agent.mechanisms.identification.kernel import IdentificationAdapter
from agent.mechanisms.identification.problems import problems
from agent.mechanisms.identification.tree import configured

IDENTIFICATION = Mechanism(
    name=rules.NAME,
    subtrees=(STREAM_IDENTITY,),
    configured=configured,
    as_is=rules.as_is,
    contributions=rules.contributions,
    diff=rules.diff,
    problems=problems,
    operational=report.counters,
    memory=MemoryAdapter(rules.applied),
    kernel=IdentificationAdapter,
    operational_of_switch=report.stream_identities,
)
