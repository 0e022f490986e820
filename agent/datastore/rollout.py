"""The rollout that a configuration comes from, as its controller has written it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from agent.mechanism import Tree

# What a rollout edits beside the ports; so an edit of it shows that gates are pushed.
ROLLOUT_MODULE = "tsn-linux"


@dataclass(frozen=True, slots=True)
class Rollout:
    """`/tsn-linux:rollout` as it is configured; all None where nothing is.

    `apply_before_ns` is TAI. `clock_error_ns` is how far the plan allows two clocks to differ;
    None: there is no other clock. `time` is that of the controller. `network` and `term` say who
    acts, both or neither is there; `former_network` is the one that the switch leaves.
    """

    id: str | None = None
    controller: str | None = None
    apply_before_ns: int | None = None
    clock_error_ns: int | None = None
    time: str | None = None
    network: str | None = None
    term: int | None = None
    former_network: str | None = None

    @classmethod
    def of(cls, tree: Tree) -> Self:
        """The rollout in a configured tree."""
        rollout = tree.get(f"{ROLLOUT_MODULE}:rollout", {})
        return cls(
            rollout.get("id"),
            rollout.get("controller"),
            _number(rollout.get("apply-before")),
            _number(rollout.get("clock-error-ns")),
            rollout.get("time"),
            rollout.get("network"),
            _number(rollout.get("term")),
            rollout.get("former-network"),
        )


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)  # a text: RFC 7951, 6.1
