"""The stream filters of a bridge: compared with what is asked, and put into words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from agent import composition
from agent.composition import Change, KernelObject, SoleContent, Stage
from agent.mechanism import Contributions
from agent.mechanisms.stream_filters.model import (
    PRIORITIES,
    FilterCounters,
    FilterTable,
    Frames,
    Gate,
    GateList,
    PortTable,
    RunningGate,
    Setting,
    StreamFilter,
    StreamFilterConfig,
    StreamFilterState,
)
from agent.model import Clock, PortConfig, PortState
from agent.wording import counted, first_few

NAME = "stream filters"


@dataclass(frozen=True, slots=True)
class StreamFilters(KernelObject):
    """The stream filters at the ports of one bridge; their content is a `FilterTable`.

    They are there before streams are forwarded and before gates close, and go after both have
    ended: no frame of a talker that does what it likes gets among those that are planned.
    """

    removed_in: ClassVar[Stage] = Stage.IDENTIFY
    set_in: ClassVar[Stage] = Stage.CLASSIFY


def as_is(state: PortState) -> FilterTable:
    """What the bridge does already, which `diff` takes as what is asked."""
    return state[StreamFilterState].table


def timed_gates(config: PortConfig) -> frozenset[Gate]:
    """The stream gates that are asked for with a list, by which they open and close at instants."""
    filters = config[StreamFilterConfig].filters
    return frozenset(each.gate for each in filters if each.gate.list)


def runs_timed_gates(state: PortState) -> bool:
    """Whether one of them is in force."""
    return any(gate.list for gate in state[StreamFilterState].table.gates)


def without_timed_gates(config: PortConfig) -> StreamFilterConfig:
    """What is asked, with stream gates that stay as they are before their list (AdminGateStates,
    IEEE Std 802.1Q-2022, 8.6.10). By a wrong clock they would drop every frame."""
    its = config[StreamFilterConfig]
    untimed = (replace(each, gate=replace(each.gate, list=None)) for each in its.filters)
    return replace(its, filters=frozenset(untimed))


def contributions(state: PortState) -> Contributions:
    return _sole_content(state).contributions(state[StreamFilterState].table)


def diff(config: PortConfig, state: PortState) -> Iterator[Change]:
    before, after = state[StreamFilterState].table, table_of(config, state)
    if before == after:
        return
    yield _sole_content(state).change(
        before,
        after,
        description=f"stream filters: {_extent(after)}",
        difference=_difference(before, after),
    )


def table_of(config: PortConfig, state: PortState) -> FilterTable:
    """What is asked of the ports that the bridge has."""
    if as_found := config[FilterTable]:
        return as_found
    asked = config[StreamFilterConfig]
    ports = state.as_bridge.ports if state.as_bridge else ()
    addresses: dict[str, dict[tuple[str, int], int]] = {}
    for each in asked.addresses:
        addresses.setdefault(each.port, {})[each.mac, each.vlan_id] = each.handle
    tables = {port: _port_table(asked, port, addresses.get(port, {})) for port in sorted(ports)}
    return FilterTable({port: table for port, table in tables.items() if table})


def _port_table(
    asked: StreamFilterConfig, port: str, addresses: Mapping[tuple[str, int], int]
) -> PortTable:
    """Which stream filter has which frames: of those that match the one with the lowest number.

    `addresses` has the handle of each stream that comes in by the port, by address and VLAN.
    """
    restricted = {number for number, _ in asked.places}
    here = {number for number, where in asked.places if where == port}
    by_handle: dict[int | None, list[StreamFilter]] = {}
    for each in asked.filters:
        if each.id in here or each.id not in restricted:
            by_handle.setdefault(each.handle, []).append(each)
    of_any = _lowest_by_priority(by_handle.get(None, ()))
    table: dict[Frames, StreamFilter] = {}
    for (mac, vlan_id), handle in addresses.items():
        matching = (*by_handle.get(handle, ()), *of_any.values())
        table |= _entries_of(_lowest_by_priority(matching), mac, vlan_id)
    return table | _entries_of(of_any, None, 0)


def _lowest_by_priority(matching: Iterable[StreamFilter]) -> dict[int, StreamFilter]:
    """Of those that match frames of a priority the one with the lowest number."""
    found: dict[int, StreamFilter] = {}
    for each in sorted(matching, key=lambda each: each.id, reverse=True):
        for priority in PRIORITIES if each.priority is None else (each.priority,):
            found[priority] = each
    return found


def _entries_of(
    by_priority: Mapping[int, StreamFilter], mac: str | None, vlan_id: int
) -> dict[Frames, StreamFilter]:
    """One entry where all priorities have the same stream filter, else one for each."""
    if len(by_priority) == len(PRIORITIES):
        of_all = by_priority[PRIORITIES[0]]
        if all(each.id == of_all.id for each in by_priority.values()):
            return {Frames(mac, vlan_id): of_all}
    return {Frames(mac, vlan_id, each): by_priority[each] for each in sorted(by_priority)}


def repair(bridge: str, ifindex: int) -> Change:
    """The stream filters of the bridge are right, but the program is of another version, or is left
    at a port that is in no bridge any more."""
    return composition.repair(
        StreamFilters(bridge, ifindex),
        f"port {bridge}: filter streams by the program of this version, at its ports",
        "the program that filters streams is of another version, or left at a port",
    )


def applied(
    state: PortState, contents: Sequence[FilterTable], now_ns: Callable[[Clock], int]
) -> PortState:
    """The bridge in memory with these stream filters, which have met no frame."""
    table, known = contents[0] if contents else FilterTable(), state[StreamFilterState]
    running = running_gates(known, table, now_ns(Clock.TAI))
    counters = {each.id: known.counters.get(each.id, FilterCounters()) for each in table.filters}
    return state.with_part(StreamFilterState(table, running, counters))


def running_gates(
    known: StreamFilterState, table: FilterTable, now_ns: int
) -> Mapping[int, RunningGate]:
    """What each gate does until its list takes over: what it does now, or what was first asked."""
    present = {each.id: each for each in known.table.gates}
    found: dict[int, RunningGate] = {}
    for gate in table.gates:
        former = present.get(gate.id)
        if former == gate:
            found[gate.id] = known.running[gate.id]
            continue
        if former is None:
            before: GateList | Setting = gate.first
        else:
            running = known.running[gate.id]
            before = running.before if running.is_pending(now_ns) else former.rule
        change_ns = gate.list.start_ns(now_ns) if gate.list else 0
        found[gate.id] = RunningGate(before, change_ns)
    return found


def _sole_content(state: PortState) -> SoleContent:
    return SoleContent(NAME, state.name, StreamFilters(state.name, state.ifindex))


def _extent(table: FilterTable) -> str:
    if not table:
        return "none"
    ports = counted(len(table.ports), "port")
    return f"{counted(len(table.filters), 'filter')} at {ports}"


def _difference(kernel: FilterTable, desired: FilterTable) -> str:
    """The first differences, by port and frames."""
    wanted, present = dict(_entries(desired)), dict(_entries(kernel))
    differences = [
        *(
            f"{_words(frames)} at {port} are not filtered by stream filter {each.id} as configured"
            for (port, frames), each in wanted.items()
            if present.get((port, frames)) != each
        ),
        *(
            f"{_words(frames)} at {port} are filtered by stream filter {each.id}, which is not "
            "configured"
            for (port, frames), each in present.items()
            if (port, frames) not in wanted
        ),
    ]
    return first_few(differences, "more difference")


def _entries(table: FilterTable) -> Iterable[tuple[tuple[str, Frames], StreamFilter]]:
    for port, entries in table.ports.items():
        for frames, each in entries.items():
            yield (port, frames), each


def _words(frames: Frames) -> str:
    which = "other frames"
    if frames.mac is not None:
        which = f"frames to {frames.mac} in VLAN {frames.vlan_id}"
    return which if frames.priority is None else f"{which} of priority {frames.priority}"
