"""The legacy mangle tables through python-iptables: no process is started.

python-iptables keeps a copy of each table from when it was opened; `refresh` brings a new one.
With autocommit off, everything up to `commit` is one transaction.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.mechanisms.classification.mangle import CHAIN, HOOK, TABLE, Chain, Family, Rule
from agent.model import AgentError

LOCK = Path("/run/xtables.lock")  # the one iptables itself takes


class LegacyTables:
    name = "iptables-legacy"

    def __init__(self) -> None:
        """AgentError when the library or the kernel's legacy tables are missing."""
        try:
            import iptc  # noqa: PLC0415 (loads C libraries, which may be absent)
        except Exception as reason:  # its loader raises bare Exceptions
            raise AgentError(f"python-iptables does not load: {reason}") from reason
        self._iptc = iptc
        for family in Family:
            self.read(family)

    @contextmanager
    def _table(self, family: Family) -> Iterator[Any]:
        iptc = self._iptc
        kind = iptc.Table6 if family is Family.IPV6 else iptc.Table
        try:
            with LOCK.open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                table = kind(TABLE, autocommit=False)
                table.refresh()
                yield table
        except (iptc.IPTCError, iptc.XTablesError, OSError) as reason:
            raise AgentError(f"{family}-legacy, table {TABLE}: {reason}") from reason

    def read(self, family: Family) -> Chain:
        with self._table(family) as table:
            if not table.is_chain(CHAIN):
                return Chain()
            return Chain(
                exists=True,
                jumps=len(self._jumps(table, family)),
                rules=tuple(_parsed(rule) for rule in self._iptc.Chain(table, CHAIN).rules),
            )

    def write(self, family: Family, old: Chain, rules: tuple[Rule, ...]) -> None:
        iptc = self._iptc
        with self._table(family) as table:
            hook = iptc.Chain(table, HOOK)
            if not table.is_chain(CHAIN):
                table.create_chain(CHAIN)
            chain = iptc.Chain(table, CHAIN)
            chain.flush()
            for rule in rules:
                entry = self._rule(family)
                entry.out_interface = rule.port
                entry.create_match("dscp").dscp = f"{rule.dscp:#04x}"
                entry.create_target("CLASSIFY").set_class = rule.set_class
                chain.append_rule(entry)
            for surplus in self._jumps(table, family)[1 if rules else 0 :]:
                hook.delete_rule(surplus)
            if not rules:
                chain.delete()
            elif old.jumps == 0:
                hook.append_rule(self._jump(family))
            table.commit()

    def _rule(self, family: Family) -> Any:
        return self._iptc.Rule6() if family is Family.IPV6 else self._iptc.Rule()

    def _jump(self, family: Family) -> Any:
        jump = self._rule(family)
        jump.create_target(CHAIN)
        return jump

    def _jumps(self, table: Any, family: Family) -> list[Any]:
        jump = self._jump(family)
        return [rule for rule in self._iptc.Chain(table, HOOK).rules if rule == jump]


def _parsed(rule: Any) -> Rule | None:
    if rule.target.name != "CLASSIFY" or [match.name for match in rule.matches] != ["dscp"]:
        return None
    major, minor = rule.target.set_class.split(":")
    if int(major, 16) != 0 or not rule.out_interface:
        return None
    return Rule(rule.out_interface, int(rule.matches[0].dscp, 16), int(minor, 16))
