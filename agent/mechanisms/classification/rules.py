"""The DSCP rules of a port: read from the configuration, compared, and reported. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agent import composition
from agent.composition import Change, KernelObject, SoleContent, Stage
from agent.mechanism import BRIDGE_PORT, TAPRIO, Contributions, Node, ReportContext, Tree
from agent.mechanisms.classification.model import DscpConfig, DscpState
from agent.model import Clock, PortConfig, PortState

NAME = "classification"
DSCP_RULE = "tsn-linux:dscp-rule"

MAX_DSCP = 63
PRIORITIES = 16  # Linux maps skb priorities 0..15 to traffic classes


@dataclass(frozen=True, slots=True)
class RuleTable(KernelObject):
    """The rules of all ports: one chain, replaced in one transaction. Contents are mappings."""

    removed_in: ClassVar[Stage] = Stage.CLASSIFY
    set_in: ClassVar[Stage] = Stage.CLASSIFY


TABLE = RuleTable()


def configured(interface: Tree, _state: PortState | None) -> DscpConfig:
    rules = interface.get(BRIDGE_PORT, {}).get(DSCP_RULE, [])
    return DscpConfig({rule["dscp"]: rule["priority"] for rule in rules})


def as_is(state: PortState) -> DscpConfig:
    return DscpConfig(state[DscpState].priorities)


def contributions(state: PortState) -> Contributions:
    return _sole_content(state).contributions(state[DscpState].priorities)


def diff(config: PortConfig, state: PortState) -> Iterator[Change]:
    before, after = dict(state[DscpState].priorities), dict(config[DscpConfig].priorities)
    if before == after:
        return
    rules = ", ".join(f"DSCP {dscp} to {after[dscp]}" for dscp in sorted(after))
    yield _sole_content(state).change(
        before,
        after,
        description=f"priority by DSCP: {rules or 'no rule'}",
        difference=_difference(before, after),
    )


def repair() -> Change:
    """The rules of all ports are right, but not all that is in the chain or leads to it."""
    return composition.repair(
        TABLE,
        "restore the chain of the DSCP rules, which another program has changed",
        "the chain of the DSCP rules was changed",
    )


def problems(config: PortConfig, _state: PortState) -> Iterator[str]:
    for dscp, priority in sorted(config[DscpConfig].priorities.items()):
        if not 0 <= dscp <= MAX_DSCP:
            hint = f"; the TOS byte {dscp:#x} holds DSCP {dscp >> 2}" if dscp % 4 == 0 else ""
            yield f"DSCP {dscp} is not within 0..{MAX_DSCP}{hint}"
        if not 0 <= priority < PRIORITIES:
            yield f"priority {priority} of DSCP {dscp} is not within 0..{PRIORITIES - 1}"


def operational(state: PortState, _context: ReportContext) -> Node:
    rules = [
        {"dscp": dscp, "priority": priority}
        for dscp, priority in sorted(state[DscpState].priorities.items())
    ]
    return {BRIDGE_PORT: {TAPRIO: {"kernel": {"dscp-rule": rules}}}}


def applied(
    state: PortState, contents: Sequence[Mapping[int, int]], _now_ns: Callable[[Clock], int]
) -> PortState:
    """The port in memory with these rules."""
    return state.with_part(DscpState(contents[0] if contents else {}))


def _sole_content(state: PortState) -> SoleContent:
    return SoleContent(NAME, state.name, TABLE)


def _difference(kernel: Mapping[int, int], desired: Mapping[int, int]) -> str:
    parts = (
        ("missing", desired.items() - kernel.items()),
        ("not configured", kernel.items() - desired.items()),
    )
    return ", ".join(
        f"DSCP {dscp} to priority {priority} is {what}"
        for what, rules in parts
        for dscp, priority in sorted(rules)
    )
