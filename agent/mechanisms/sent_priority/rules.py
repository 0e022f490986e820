"""The code points of sent frames: read from the configuration, compared, reported. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agent.composition import Change, KernelObject, SoleContent, Stage
from agent.mechanism import (
    BRIDGE_PORT,
    EIGHT_PRIORITIES,
    TAPRIO,
    Contributions,
    Node,
    ReportContext,
    Tree,
)
from agent.mechanisms.sent_priority.model import (
    PRIORITIES,
    CodePoints,
    SentPriorityConfig,
    SentPriorityState,
)
from agent.model import Clock, PortConfig, PortState

NAME = "sent-priority"
ENCODING, ENCODING_MAP = "pcp-encoding-table", "pcp-encoding-map"


@dataclass(frozen=True, slots=True)
class CodePointFilters(KernelObject):
    """The filters that write code points at the egress of one port; their content is
    `CodePoints`."""

    removed_in: ClassVar[Stage] = Stage.CLASSIFY
    set_in: ClassVar[Stage] = Stage.CLASSIFY


def configured(interface: Tree, _state: PortState | None) -> SentPriorityConfig:
    """A priority without a row is sent as its own value (8P0D); without a map nothing is asked."""
    maps = interface.get(BRIDGE_PORT, {}).get(ENCODING, {}).get(ENCODING_MAP, [])
    if not maps:
        return SentPriorityConfig()
    # One map at most, and only of frames that are not drop eligible, by deviations.
    given = {
        row["priority"]: row["priority-code-point"]
        for each in maps
        for row in each.get("priority-map", [])
    }
    return SentPriorityConfig(tuple(given.get(p, p) for p in range(PRIORITIES)))


def as_is(state: PortState) -> SentPriorityConfig:
    return SentPriorityConfig(state[SentPriorityState].code_points)


def contributions(state: PortState) -> Contributions:
    return _sole_content(state).contributions(state[SentPriorityState].code_points)


def diff(config: PortConfig, state: PortState) -> Iterator[Change]:
    before = state[SentPriorityState].code_points
    after = config[SentPriorityConfig].code_points if state.bridge is not None else None
    if before == after:
        return
    yield _sole_content(state).change(
        before,
        after,
        description=f"code point of sent frames: {_words(after)}",
        difference=f"sent frames have {_words(before)}, not {_words(after)}",
    )


def problems(config: PortConfig, state: PortState) -> Iterator[str]:
    """YANG allows 0 to 7 only. The classifier of these filters (basic) has no hardware form."""
    if config[SentPriorityConfig].code_points and state.switch_id is not None:
        yield (
            f"the hardware of switch {state.switch_id} forwards its frames, and {ENCODING} is "
            "written by filters of the kernel (basic), which do not see them; remove the table: "
            "frames then leave with the code points with which they came"
        )


def operational(state: PortState, _context: ReportContext) -> Node:
    code_points = state[SentPriorityState].code_points
    if code_points is None:
        return {}
    rows = [
        {"priority": priority, "dei": False, "priority-code-point": code_point}
        for priority, code_point in enumerate(code_points)
    ]
    node: Node = {ENCODING: {ENCODING_MAP: [{"pcp": EIGHT_PRIORITIES, "priority-map": rows}]}}
    if state.bridge is not None:
        sent = [{"priority": p, "code-point": given} for p, given in enumerate(code_points)]
        node[TAPRIO] = {"kernel": {"bridged-frames": {"sent-code-point": sent}}}
    return {BRIDGE_PORT: node}


def applied(
    state: PortState, contents: Sequence[CodePoints], _now_ns: Callable[[Clock], int]
) -> PortState:
    """The port in memory with these code points."""
    return state.with_part(SentPriorityState(contents[0] if contents else None))


def _sole_content(state: PortState) -> SoleContent:
    return SoleContent(NAME, state.name, CodePointFilters(state.name, state.ifindex))


def _words(code_points: CodePoints | None) -> str:
    if code_points is None:
        return "the code points with which they came"
    return f"the code points {', '.join(map(str, code_points))} by priority"
