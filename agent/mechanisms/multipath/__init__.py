"""Multipath TCP (RFC 8684) at an end station: addresses of several ports in one connection.

A kernel with multipath TCP has a path manager (`agent.kernel.mptcp_pm`): it opens a subflow from
each address that is an endpoint, as their flags say and as far as limits let it. A subflow takes
the port that the routes say, and these go by the destination: each address gets a rule, and each
port a table of its own routes for it.
"""

from __future__ import annotations

from pathlib import Path

from agent.mechanism import MULTIPATH, Mechanism, MemoryAdapter
from agent.mechanisms.multipath import rules, tree
from agent.mechanisms.multipath.kernel import MultipathAdapter
from agent.mechanisms.multipath.model import NAME


def multipath(record: Path) -> Mechanism:
    """The mechanism; `record` is the file of what it has set, and of what it found."""
    return Mechanism(
        name=NAME,
        subtrees=(MULTIPATH,),
        configured=tree.configured,
        as_is=rules.as_is,
        contributions=rules.contributions,
        diff=rules.diff,
        problems=rules.problems,
        operational=lambda _state, _context: {},
        memory=MemoryAdapter(rules.applied),
        kernel=lambda ipr: MultipathAdapter(ipr, record),
        operational_of_switch=tree.operational,
    )
