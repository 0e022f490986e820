"""DSCP to skb priority: the chain TSN-CLASSIFY in the mangle table, for IPv4 and IPv6.

POSTROUTING jumps to the chain once, as its last rule. The chain and the jump are ours, all else in
the table is not. A chain is replaced as a whole in one transaction, and only when it differs from
what is desired.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable, Mapping

from agent.mechanisms.classification.iptables_legacy import LegacyTables
from agent.mechanisms.classification.iptables_restore import Flavour, RestoreTables
from agent.mechanisms.classification.mangle import Chain, Family, Rule, Tables
from agent.model import AgentError

LOG = logging.getLogger(__name__)

Priorities = Mapping[str, Mapping[int, int]]
Chains = Mapping[Family, Chain]


class Classifier:
    """Classification by DSCP, with any of the ways to the tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.name = tables.name

    def chains(self) -> Chains:
        """What both families' tables hold; each takes two milliseconds or more."""
        return {family: self._tables.read(family) for family in Family}

    def read(self) -> dict[str, dict[int, int]]:
        """The priorities in force in both families, by port and DSCP."""
        return in_force(self.chains())

    def apply(self, desired: Priorities, chains: Chains | None = None) -> None:
        """Make both families' chains exactly `desired`; one that is so already is not touched.

        `chains` is what the tables hold if that has just been read. When the second family is
        refused the first is set back.
        """
        if chains is None:
            chains = self.chains()
        written = as_written(desired)
        rules = tuple(rule for rule in written.rules if rule is not None)
        changed: list[tuple[Family, Chain]] = []
        for family in Family:
            old = chains[family]
            if old == written:
                continue
            try:
                self._tables.write(family, old, rules)
            except BaseException:
                for done, former in changed:
                    own = tuple(rule for rule in former.rules if rule is not None)
                    self._tables.write(done, written, own)
                raise
            changed.append((family, old))


def as_written(desired: Priorities) -> Chain:
    """What a family's table holds of ours once `desired` is written, and nothing else."""
    rules = tuple(
        Rule(port, dscp, priority)
        for port, priorities in sorted(desired.items())
        for dscp, priority in sorted(priorities.items())
    )
    return Chain(exists=True, jumps=1, rules=rules) if rules else Chain()


def in_force(chains: Chains) -> dict[str, dict[int, int]]:
    """The priorities that both families' chains give, by port and DSCP."""
    common = set.intersection(
        *({rule for rule in chain.rules if rule and chain.jumps} for chain in chains.values())
    )
    priorities: dict[str, dict[int, int]] = {}
    for rule in sorted(common):
        priorities.setdefault(rule.port, {})[rule.dscp] = rule.priority
    return priorities


def choose() -> Classifier:
    """A classifier this kernel can run; AgentError with every reason when there is none.

    The flavour of the system's own `iptables` goes first: rules of two flavours side by side hide
    ours from the operator.
    """
    legacy: list[Callable[[], Tables]] = [LegacyTables, lambda: RestoreTables(Flavour.LEGACY)]
    nft: list[Callable[[], Tables]] = [lambda: RestoreTables(Flavour.NFT)]
    reasons = []
    for way in legacy + nft if _system_is_legacy() else nft + legacy:
        try:
            return Classifier(way())
        except AgentError as reason:
            LOG.info("classifier: %s", reason)
            reasons.append(str(reason))
    raise AgentError("no way to classify by DSCP: " + "; ".join(reasons))


def _system_is_legacy() -> bool:
    try:
        version = subprocess.run(
            ["iptables", "--version"], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return False
    return "legacy" in version.stdout
