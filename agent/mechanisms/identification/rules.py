"""The streams of a port: compared with what is asked, and put into words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agent.composition import Change, Contribution, KernelObject, Stage
from agent.mechanism import Contributions
from agent.mechanisms.identification.model import (
    IdentificationConfig,
    IdentificationState,
    IdentificationTable,
    Stream,
)
from agent.model import Clock, PortConfig, PortState
from agent.wording import counted

NAME = "identification"
_NAMED = 3  # of many differences


@dataclass(frozen=True, slots=True)
class StreamFilters(KernelObject):
    """The filters of streams at both hooks of one port; their content is an `IdentificationTable`.

    They go first: without the filters a frame passes as its talker has sent it.
    """

    removed_in: ClassVar[Stage] = Stage.CLASSIFY
    set_in: ClassVar[Stage] = Stage.IDENTIFY


def as_is(state: PortState) -> IdentificationConfig:
    return IdentificationConfig(state[IdentificationState].table)


def contributions(state: PortState) -> Contributions:
    if table := state[IdentificationState].table:
        yield _filters(state), _contribution(state, table)


def diff(config: PortConfig, state: PortState) -> Iterator[Change]:
    before, after = state[IdentificationState].table, config[IdentificationConfig].table
    if before == after:
        return
    yield Change(
        port=state.name,
        target=_filters(state),
        before=(_contribution(state, before),) if before else (),
        after=(_contribution(state, after),) if after else (),
        description=f"port {state.name}: stream identification: {_extent(after)}",
        difference=_difference(before, after),
    )


def repair(port: str, ifindex: int) -> Change:
    """The streams of the port are right, but not all filters among those of the agent."""
    return Change(
        port=None,
        target=StreamFilters(port, ifindex),
        before=(),
        after=(),
        description=f"port {port}: restore the stream filters, which another program has changed",
        difference="the stream filters were changed",
    )


def applied(
    state: PortState, contents: Sequence[IdentificationTable], _now_ns: Callable[[Clock], int]
) -> PortState:
    """The port in memory with these streams, of which it has met no frame."""
    table = contents[0] if contents else IdentificationTable()
    streams: tuple[Stream, ...] = (*table.incoming, *table.outgoing, *table.named)
    frames = dict.fromkeys(streams, 0)
    return state.with_part(IdentificationState(table, frames))


def _filters(state: PortState) -> StreamFilters:
    return StreamFilters(state.name, state.ifindex)


def _contribution(state: PortState, table: IdentificationTable) -> Contribution:
    return Contribution(NAME, state.name, 0, table)


def _extent(table: IdentificationTable) -> str:
    if not table:
        return "none"
    incoming, outgoing = len(table.incoming), len(table.outgoing)
    translated = f"{counted(incoming, 'stream')} of the talker, {outgoing} to the listener"
    named = f"{counted(len(table.named), 'stream')} named"
    if not table.named:
        return translated
    return f"{translated}, {named}" if incoming or outgoing else named


def _difference(kernel: IdentificationTable, desired: IdentificationTable) -> str:
    """The first differences, by stream; one that gets something else is named once."""
    wanted, present = _done_to_frames(desired), _done_to_frames(kernel)
    differences = [
        *(f"{frames} do not get {wanted[frames]}" for frames in _differing(wanted, present)),
        *(
            f"{frames} get {present[frames]}, which is not configured"
            for frames in _differing(present, wanted)
            if frames not in wanted
        ),
    ] or ["entries have other numbers"]
    more = len(differences) - _NAMED
    named = ", ".join(differences[:_NAMED])
    return f"{named}, and {counted(more, 'more difference')}" if more > 0 else named


def _differing(table: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    return [frames for frames, given in table.items() if other.get(frames) != given]


def _done_to_frames(table: IdentificationTable) -> dict[str, str]:
    """What frames get, by what they are known by."""
    done = {}
    for each in sorted(table.incoming, key=_numbers):
        frames = f"frames of stream {each.handle} ({each.match})"
        done[frames] = f"{each.mac}, VLAN {each.vlan_id} and priority {each.pcp}"
    for other in sorted(table.outgoing, key=_numbers):
        frames = f"frames of stream {other.handle} ({other.mac} in VLAN {other.vlan_id})"
        done[frames] = f"{other.restored_mac} and no tag"
    for named in sorted(table.named, key=_numbers):
        frames = f"frames to {named.mac} in VLAN {named.vlan_id}"
        done[frames] = f"the handle {named.handle}"
    return done


def _numbers(stream: Stream) -> tuple[int, int]:
    return stream.handle, stream.index
