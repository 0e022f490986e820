"""Classification of the frames that a bridge forwards, which never pass the mangle tables.

The DSCP rules of a port that is a member of a Linux bridge are filters at its egress as well: the
last thing that a frame meets before the queueing discipline, whoever has sent it there.
"""

from __future__ import annotations

from agent.mechanism import BRIDGE_PORT, Mechanism, MemoryAdapter
from agent.mechanisms.bridged_classification import rules
from agent.mechanisms.bridged_classification.kernel import adapter

BRIDGED_CLASSIFICATION = Mechanism(
    name=rules.NAME,
    subtrees=(BRIDGE_PORT,),
    configured=rules.configured,
    as_is=rules.as_is,
    contributions=rules.contributions,
    diff=rules.diff,
    # The mechanism "classification" has the same rules, and says what is wrong with them.
    problems=lambda _config, _state: (),
    operational=rules.operational,
    memory=MemoryAdapter(rules.applied),
    kernel=adapter,
)
