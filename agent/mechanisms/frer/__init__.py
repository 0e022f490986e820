"""Frame replication and elimination for reliability (IEEE Std 802.1CB-2017, clause 7).

Where a stream with two paths comes in from its talker its frames get sequence numbers in an R-TAG;
the bridge replicates them. Where both copies come in each number passes once, without the R-TAG.
"""

from __future__ import annotations

from pathlib import Path

from agent.mechanism import FRER, Mechanism, MemoryAdapter
from agent.mechanisms.frer import report, rules
from agent.mechanisms.frer.kernel import FrerAdapter
from agent.mechanisms.frer.problems import problems
from agent.mechanisms.frer.tree import configured


def frer(pins: Path) -> Mechanism:
    """The mechanism; its program and maps are pinned in this directory."""
    return Mechanism(
        name=rules.NAME,
        subtrees=(FRER,),
        configured=configured,
        as_is=rules.as_is,
        contributions=rules.contributions,
        diff=rules.diff,
        problems=problems,
        operational=report.counters,
        memory=MemoryAdapter(rules.applied),
        kernel=lambda _ipr: FrerAdapter(pins),
        operational_of_switch=report.tables,
    )
