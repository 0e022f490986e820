"""The types of the mangle table that the classifier and its back ends share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

TABLE = "mangle"
HOOK = "POSTROUTING"
CHAIN = "TSN-CLASSIFY"


class Family(StrEnum):
    """The value is what the family's tools are called."""

    IPV4 = "iptables"
    IPV6 = "ip6tables"


class Rule(NamedTuple):
    """A packet that leaves by `port` with `dscp` gets the skb priority `priority`."""

    port: str
    dscp: int
    priority: int

    @property
    def set_class(self) -> str:
        """The priority as CLASSIFY takes it: major 0, minor in hexadecimal."""
        return f"0:{self.priority:x}"


@dataclass(frozen=True, slots=True)
class Chain:
    """What a family's table holds of ours.

    `jumps` counts the rules of POSTROUTING that lead to the chain; None in `rules` is a rule in it
    that the agent did not write.
    """

    exists: bool = False
    jumps: int = 0
    rules: tuple[Rule | None, ...] = ()


class Tables(Protocol):
    """A way to the mangle tables. Both methods raise AgentError with the kernel's own words."""

    name: str

    def read(self, family: Family) -> Chain: ...

    def write(self, family: Family, old: Chain, rules: tuple[Rule, ...]) -> None:
        """Replace the chain `old` in one transaction and see to the one jump; without rules
        remove both."""
