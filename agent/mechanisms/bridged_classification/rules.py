"""The filters of a bridged port: read from the configuration, compared, and reported. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agent.composition import Change, KernelObject, SoleContent, Stage
from agent.mechanism import BRIDGE_PORT, TAPRIO, Contributions, Node, ReportContext, Tree
from agent.mechanisms.bridged_classification.model import BridgedConfig, BridgedState
from agent.model import Clock, PortConfig, PortState

NAME = "bridged-classification"
DSCP_RULE = "tsn-linux:dscp-rule"


@dataclass(frozen=True, slots=True)
class EgressFilters(KernelObject):
    """The filters at the egress of one port; their content is a mapping of priorities by DSCP."""

    removed_in: ClassVar[Stage] = Stage.CLASSIFY
    set_in: ClassVar[Stage] = Stage.CLASSIFY


def configured(interface: Tree, _state: PortState | None) -> BridgedConfig:
    rules = interface.get(BRIDGE_PORT, {}).get(DSCP_RULE, [])
    return BridgedConfig({rule["dscp"]: rule["priority"] for rule in rules})


def as_is(state: PortState) -> BridgedConfig:
    return BridgedConfig(state[BridgedState].priorities)


def contributions(state: PortState) -> Contributions:
    return _sole_content(state).contributions(state[BridgedState].priorities)


def diff(config: PortConfig, state: PortState) -> Iterator[Change]:
    """A port that is no member of a bridge needs no filters: the mangle tables see its frames."""
    before = dict(state[BridgedState].priorities)
    after = dict(config[BridgedConfig].priorities) if state.bridge is not None else {}
    if before == after:
        return
    rules = ", ".join(f"DSCP {dscp} to {after[dscp]}" for dscp in sorted(after))
    yield _sole_content(state).change(
        before,
        after,
        description=f"priority of bridged frames by DSCP: {rules or 'no rule'}",
        difference=_difference(before, after),
    )


def operational(state: PortState, _context: ReportContext) -> Node:
    if state.bridge is None:
        return {}
    rules = [
        {"dscp": dscp, "priority": priority}
        for dscp, priority in sorted(state[BridgedState].priorities.items())
    ]
    return {BRIDGE_PORT: {TAPRIO: {"kernel": {"bridged-frames": {"dscp-rule": rules}}}}}


def applied(
    state: PortState, contents: Sequence[Mapping[int, int]], _now_ns: Callable[[Clock], int]
) -> PortState:
    """The port in memory with these rules."""
    return state.with_part(BridgedState(contents[0] if contents else {}))


def _sole_content(state: PortState) -> SoleContent:
    return SoleContent(NAME, state.name, EgressFilters(state.name, state.ifindex))


def _difference(kernel: Mapping[int, int], desired: Mapping[int, int]) -> str:
    parts = (
        ("missing", desired.items() - kernel.items()),
        ("not configured", kernel.items() - desired.items()),
    )
    return ", ".join(
        f"DSCP {dscp} to priority {priority} is {what} for bridged frames"
        for what, rules in parts
        for dscp, priority in sorted(rules)
    )
