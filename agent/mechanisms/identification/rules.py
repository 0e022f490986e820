"""The streams of a port: compared with what is asked, and put into words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agent.composition import Change, KernelObject, SoleContent, Stage
from agent.mechanism import Contributions
from agent.mechanisms.identification.model import (
    IdentificationConfig,
    IdentificationState,
    IdentificationTable,
    Stream,
)
from agent.model import Clock, PortConfig, PortState
from agent.wording import counted, first_few

NAME = "identification"


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
    return _sole_content(state).contributions(state[IdentificationState].table)


def diff(config: PortConfig, state: PortState) -> Iterator[Change]:
    before, after = state[IdentificationState].table, config[IdentificationConfig].table
    if before == after:
        return
    yield _sole_content(state).change(
        before,
        after,
        description=f"stream identification: {_extent(after)}",
        difference=_difference(before, after),
    )


def applied(
    state: PortState, contents: Sequence[IdentificationTable], _now_ns: Callable[[Clock], int]
) -> PortState:
    """The port in memory with these streams, of which it has met no frame."""
    table = contents[0] if contents else IdentificationTable()
    streams: tuple[Stream, ...] = (*table.incoming, *table.outgoing, *table.named)
    frames = dict.fromkeys(streams, 0)
    return state.with_part(IdentificationState(table, frames))


def _sole_content(state: PortState) -> SoleContent:
    return SoleContent(NAME, state.name, StreamFilters(state.name, state.ifindex))


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
    return first_few(differences, "more difference")


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
