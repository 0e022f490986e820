"""The priorities of received frames: read from the configuration, compared, reported. Pure."""

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
from agent.mechanisms.received_priority.model import (
    PRIORITIES,
    PriorityTable,
    ReceivedPriorityConfig,
    ReceivedPriorityState,
)
from agent.model import Clock, PortConfig, PortState

NAME = "received-priority"
REGENERATION, DEFAULT = "priority-regeneration", "default-priority"
DECODING, DECODING_MAP = "pcp-decoding-table", "pcp-decoding-map"


@dataclass(frozen=True, slots=True)
class IngressFilters(KernelObject):
    """The filters at the ingress of one port; their content is a `PriorityTable`."""

    removed_in: ClassVar[Stage] = Stage.CLASSIFY
    set_in: ClassVar[Stage] = Stage.CLASSIFY


def configured(interface: Tree, _state: PortState | None) -> ReceivedPriorityConfig:
    """What is not given has the standard's default; without any of it nothing is asked for."""
    port = interface.get(BRIDGE_PORT, {})
    if not {REGENERATION, DEFAULT, DECODING} & port.keys():
        return ReceivedPriorityConfig()
    # One map at most: that of 8P0D, by a deviation.
    decoded = {
        row["priority-code-point"]: row["priority"]
        for given in port.get(DECODING, {}).get(DECODING_MAP, [])
        for row in given.get("priority-map", [])
    }
    given = port.get(REGENERATION, {})
    by_code_point = tuple(decoded.get(p, p) for p in range(PRIORITIES))
    regenerated = tuple(given.get(f"priority{p}", p) for p in by_code_point)
    return ReceivedPriorityConfig(PriorityTable(regenerated, port.get(DEFAULT, 0), by_code_point))


def as_is(state: PortState) -> ReceivedPriorityConfig:
    return ReceivedPriorityConfig(state[ReceivedPriorityState].table)


def contributions(state: PortState) -> Contributions:
    return _sole_content(state).contributions(state[ReceivedPriorityState].table)


def diff(config: PortConfig, state: PortState) -> Iterator[Change]:
    before = state[ReceivedPriorityState].table
    after = config[ReceivedPriorityConfig].table if state.bridge is not None else None
    if before == after:
        return
    yield _sole_content(state).change(
        before,
        after,
        description=f"priority of received frames: {_words(after)}",
        difference=f"received frames get {_words(before)}, not {_words(after)}",
    )


def operational(state: PortState, _context: ReportContext) -> Node:
    table = state[ReceivedPriorityState].table
    if table is None:
        return {}
    regenerated = {
        f"priority{p}": given for p, given in zip(table.decoded, table.regenerated, strict=True)
    }
    node: Node = {REGENERATION: regenerated, DEFAULT: table.default}
    if table.decoded != PriorityTable().decoded:
        rows = [
            {"priority-code-point": pcp, "priority": priority, "drop-eligible": False}
            for pcp, priority in enumerate(table.decoded)
        ]
        node[DECODING] = {DECODING_MAP: [{"pcp": EIGHT_PRIORITIES, "priority-map": rows}]}
    if state.bridge is not None:
        node[TAPRIO] = {"kernel": {"bridged-frames": _in_kernel(table)}}
    return {BRIDGE_PORT: node}


def _in_kernel(table: PriorityTable) -> Node:
    return {
        "received-priority": [
            {"code-point": pcp, "priority": given} for pcp, given in enumerate(table.regenerated)
        ],
        "default-priority": table.default,
    }


def applied(
    state: PortState, contents: Sequence[PriorityTable], _now_ns: Callable[[Clock], int]
) -> PortState:
    """The port in memory with this table."""
    return state.with_part(ReceivedPriorityState(contents[0] if contents else None))


def _sole_content(state: PortState) -> SoleContent:
    return SoleContent(NAME, state.name, IngressFilters(state.name, state.ifindex))


def _words(table: PriorityTable | None) -> str:
    if table is None:
        return "priority 0"
    by_code_point = ", ".join(map(str, table.regenerated))
    return f"the priorities {by_code_point} by code point, {table.default} without a tag"
