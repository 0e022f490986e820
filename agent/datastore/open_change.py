"""A change that is applied and waits for its end.

sysrepo announces a commit once for each module that it changes, and shows each time what this
module is to hold beside the others as they were. So a commit of two modules is applied in two
parts, which are kept or reverted together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.datastore.desired import Impossible
from agent.mechanism import Tree
from agent.mechanisms.gates.history import GateHistory
from agent.model import AgentError, LastChange, PortConfig, PortState
from agent.switch import REFUSALS, Applied


class Request(NamedTuple):
    """One announcement of sysrepo, which counts them for each module."""

    module: str
    number: int

    def __str__(self) -> str:
        return f"{self.number} of {self.module}"


@dataclass(frozen=True, slots=True)
class OpenChange:
    """What was applied of one commit, in the order of its announcements.

    `before` is how the ports were before all of it, `desired` what they are to do after.
    """

    tree: Tree
    before: Mapping[str, PortState]
    desired: Mapping[str, PortConfig]
    parts: tuple[Applied, ...]
    summary: LastChange
    history: Mapping[str, GateHistory]
    # The ports whose gates wait for the clock.
    waiting: frozenset[str] = frozenset()
    requests: frozenset[Request] = frozenset()
    # Those of them whose `done` has come.
    landed: set[Request] = field(default_factory=set)
    # The ports that are left as they are, because nobody could do what is asked of them.
    impossible: Mapping[str, Impossible] = field(default_factory=dict)

    def __str__(self) -> str:
        return ", ".join(sorted(map(str, self.requests)))

    @property
    def ports(self) -> frozenset[str]:
        """The names of the ports that changed."""
        return frozenset(port for part in self.parts for port in part.ports)

    @property
    def has_steps(self) -> bool:
        """Whether anything changed at all."""
        return any(part.steps for part in self.parts)

    def is_joined_by(self, request: Request) -> bool:
        """Whether this may announce the same commit for another of its modules."""
        return request.module not in {each.module for each in self.requests}

    def tree_with(self, module: str, tree: Tree) -> Tree:
        """The configuration with that of one module replaced by what `tree` has of it."""
        others = {k: v for k, v in self.tree.items() if not k.startswith(f"{module}:")}
        return others | {k: v for k, v in tree.items() if k.startswith(f"{module}:")}

    def undo(self) -> None:
        """Undo all parts, the last first; AgentError names what could not be undone."""
        failures = []
        for part in reversed(self.parts):
            try:
                part.undo()
            except REFUSALS as failure:
                failures.append(str(failure))
        if failures:
            raise AgentError("\n".join(failures))
