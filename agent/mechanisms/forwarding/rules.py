"""The static forwarding of a bridge: compared with what is asked, and put into words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agent import composition
from agent.composition import Change, KernelObject, SoleContent, Stage
from agent.mechanism import Contributions
from agent.mechanisms.forwarding.model import ForwardingConfig, ForwardingState, ForwardingTable
from agent.model import Clock, PortConfig, PortState
from agent.wording import counted, first_few

NAME = "forwarding"


@dataclass(frozen=True, slots=True)
class FilteringDatabase(KernelObject):
    """The static part of a bridge's filtering database; its content is a `ForwardingTable`."""

    removed_in: ClassVar[Stage] = Stage.FORWARD
    set_in: ClassVar[Stage] = Stage.FORWARD


def as_is(state: PortState) -> ForwardingConfig:
    return ForwardingConfig(state[ForwardingState].table)


def contributions(state: PortState) -> Contributions:
    return _sole_content(state).contributions(state[ForwardingState].table)


def diff(config: PortConfig, state: PortState) -> Iterator[Change]:
    before, after = state[ForwardingState].table, config[ForwardingConfig].table
    if before == after:
        return
    yield _sole_content(state).change(
        before,
        after,
        description=f"static forwarding: {_extent(after)}",
        difference=_difference(before, after),
    )


def repair(port: str, ifindex: int) -> Change:
    """The table of the bridge is right, but more is recorded as the agent's than is there."""
    return composition.repair(
        FilteringDatabase(port, ifindex),
        f"port {port}: forget static forwarding that is there no more",
        "entries of the agent are there no more",
    )


def applied(
    state: PortState, contents: Sequence[ForwardingTable], _now_ns: Callable[[Clock], int]
) -> PortState:
    """The bridge in memory with this table."""
    foreign = state[ForwardingState].foreign
    table = contents[0] if contents else ForwardingTable()
    return state.with_part(ForwardingState(table, foreign))


def _sole_content(state: PortState) -> SoleContent:
    return SoleContent(NAME, state.name, FilteringDatabase(state.name, state.ifindex))


def _extent(table: ForwardingTable) -> str:
    if not table:
        return "none"
    addresses = counted(len(table.ports_by_address), "address")
    return f"{addresses} in {counted(len(table.ports_by_vlan), 'VLAN')}"


def _difference(kernel: ForwardingTable, desired: ForwardingTable) -> str:
    """The first differences, registrations before entries, which need them."""
    differences = [
        *(
            f"{each.port} is no member of VLAN {each.vlan_id}"
            for each in sorted(desired.members - kernel.members)
        ),
        *(
            f"frames to {each.address} do not leave by {each.port}"
            for each in sorted(desired.entries - kernel.entries)
        ),
        *(
            f"frames to {each.address} leave by {each.port}, which is not configured"
            for each in sorted(kernel.entries - desired.entries)
        ),
        *(
            f"{each.port} is a member of VLAN {each.vlan_id}, which is not configured"
            for each in sorted(kernel.members - desired.members)
        ),
    ]
    return first_few(differences, "more difference")
