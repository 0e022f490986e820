"""The stream filters of bridges in the kernel: one BPF program at the ingress of each port.

Its maps are pinned: an agent that is killed leaves all as it is, and the next one goes on with it.
A port has a map of its own, which is filled before frames meet it and never changed: another
configuration is another map, and one update puts it in the place of the former.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from agent.composition import Change, Contribution, KernelObject
from agent.kernel import clsact
from agent.kernel.bpf import PinnedObject, program_id
from agent.kernel.bpf_map import MapShape
from agent.kernel.clock import now_ns
from agent.kernel.cls_bpf import BpfPlace, delete_program, programs, set_program
from agent.kernel.netlink_batch import NetlinkSocket, raise_first
from agent.kernel.refusal import reason, set_or_restore
from agent.mechanism import KernelAdapter, Node
from agent.mechanisms.stream_filters.layout import (
    COUNTERS,
    FRAMES,
    INSTANCE,
    LAYOUT,
    PORT,
    STREAM_OCTETS,
    Stream,
    change_met,
    counters_of,
    frames_of,
    packed_frames,
    packed_stream,
    stream_of,
)
from agent.mechanisms.stream_filters.model import (
    FilterTable,
    Frames,
    PortTable,
    RunningGate,
    StreamFilterConfig,
    StreamFilterState,
)
from agent.mechanisms.stream_filters.rules import StreamFilters, repair, running_gates
from agent.model import AgentError, Clock, PortConfig, PortState

_NAME = "stream_filters"
_PRIO = 0x7B00
# The second has the frames that stream identification has translated.
_CHAINS = (0, 1)
_GONE = frozenset({errno.ENOENT, errno.EINVAL, errno.ENODEV})
_INSTANCES = ("filters", "gates", "meters")
_ENTRY = MapShape(FRAMES.size, STREAM_OCTETS)

_Streams = Mapping[Frames, Stream]


def adapter(directory: Path) -> Callable[[IPRoute], KernelAdapter]:
    """Makes the adapter of an agent whose BPF objects are pinned in this directory."""
    return lambda _ipr: StreamFilterAdapter(directory)


class StreamFilterAdapter(KernelAdapter):
    """Needs CAP_NET_ADMIN and CAP_BPF. Not to be used by two threads at once."""

    def __init__(self, directory: Path) -> None:
        self._kernel = NetlinkSocket(socket.NETLINK_ROUTE)
        self._object = PinnedObject(directory, _NAME, LAYOUT)
        self.objects = {StreamFilters: self._replace}
        self._states: Mapping[str, PortState] = {}
        self._disturbed: dict[str, int] = {}
        # What maps of ports hold, by the number of the map; they never change.
        self._parsed: dict[int, _Streams] = {}

    def problems(self, config: PortConfig) -> Iterator[str]:
        if not config[StreamFilterConfig].filters:
            return
        state = self._states.get(config.name)
        for port in sorted(state.as_bridge.ports if state and state.as_bridge else ()):
            if port in self._states and self._states[port].switch_id:
                yield (
                    f"the hardware of the switch forwards the frames of {port}, and the BPF "
                    "program that filters streams would not see them: no driver takes it"
                )
        if why := self._object.problem():
            yield f"streams cannot be filtered: {why}"

    def capability(self) -> str | None:
        return self._object.capability()

    def leaves(self) -> Node:
        why = self.capability()
        return {"stream-filters-refused": why} if why else {}

    def close(self) -> None:
        self._kernel.close()

    def read(self, states: Mapping[str, PortState]) -> dict[str, PortState]:
        self._states = states
        found, self._disturbed = dict(states), {}
        if not self._object.is_pinned:
            return found
        program = self._object.program()
        if program is None:
            return found
        number = program_id(program)
        os.close(program)
        counters, changes = self._values("filters"), self._values("gates")
        for name, state in states.items():
            if state.as_bridge is None:
                continue
            streams = {
                port: entries
                for port in state.as_bridge.ports
                if port in states and (entries := self._in_force(states[port], number))
            }
            of_bridge = state.ifindex
            part = _part(streams, counters.get(of_bridge, {}), changes.get(of_bridge, {}))
            found[name] = state.with_part(part)
            if part.table and not self._object.is_current:
                self._disturbed[name] = state.ifindex
        bridges = {name: state.ifindex for name, state in states.items() if state.as_bridge}
        if bridges and self._strays(states):
            self._disturbed |= dict(list(bridges.items())[:1])
        return found

    def _strays(self, states: Mapping[str, PortState]) -> bool:
        """Whether a port that has left its bridge still filters."""
        bridged = {PORT.pack(each.ifindex) for each in states.values() if each.bridge}
        with closing(self._object.map("ports")) as ports:
            return bool(set(ports.keys()) - bridged)

    def repairs(self) -> Iterator[Change]:
        """A program of another version of the agent, which does the same until it is replaced, and
        what is left at a port that is in no bridge any more."""
        for bridge, ifindex in self._disturbed.items():
            yield repair(bridge, ifindex)

    def _in_force(self, port: PortState, program: int) -> _Streams:
        """What the port's map holds, if the program is in all of its places; else nothing."""
        ours = programs(self._kernel, port.ifindex, _PRIO)
        if any(ours.get(chain) != [program] for chain in _CHAINS):
            return {}
        with closing(self._object.map("ports")) as ports:
            number = ports.lookup(PORT.pack(port.ifindex))
        if number is None:
            return {}
        return self._streams(PORT.unpack(number)[0])

    def _streams(self, number: int) -> _Streams:
        if number not in self._parsed:
            try:
                table = self._object.map(_pin(number))
            except OSError:
                return {}
            with closing(table):
                self._parsed[number] = {
                    frames_of(key): stream_of(value) for key, value in table.items()
                }
        return self._parsed[number]

    def _values(self, name: str) -> dict[int, dict[int, bytes]]:
        """What frames have made of instances, by bridge and number."""
        found: dict[int, dict[int, bytes]] = {}
        with closing(self._object.map(name)) as instances:
            for key, value in instances.items():
                bridge, number = INSTANCE.unpack(key)
                found.setdefault(bridge, {})[number] = value
        return found

    def _replace(
        self, target: KernelObject, before: Sequence[Contribution], after: Sequence[Contribution]
    ) -> None:
        """Let the bridge have what `after` holds; if refused, `before` again and AgentError."""
        bridge, ifindex = target.port_and_ifindex()
        try:
            set_or_restore(
                lambda content: self._set(bridge, ifindex, content or FilterTable()), before, after
            )
        except (AgentError, NetlinkError, OSError) as refusal:
            raise AgentError(
                f"port {bridge}: the kernel refused stream filters: {reason(refusal)}"
            ) from refusal

    def _set(self, bridge: str, ifindex: int, wanted: FilterTable) -> None:
        """Counters are there before frames are counted, maps before the program looks for them; and
        both go after it."""
        known = self.read(self._states)[bridge][StreamFilterState]
        running = running_gates(known, wanted, now_ns(Clock.TAI))
        if wanted:
            program = self._object.load()
            try:
                self._add_instances(ifindex, wanted)
                for port, table in wanted.ports.items():
                    self._set_port(ifindex, self._states[port].ifindex, table, running, program)
            finally:
                os.close(program)
        elif not self._object.is_pinned:
            return
        for each in self._states.values():
            if each.name not in wanted.ports and each.bridge in {bridge, None}:
                self._remove_port(each.ifindex)
        self._remove_instances(ifindex, wanted)
        self._forget_maps()

    def _set_port(
        self,
        bridge: int,
        port: int,
        table: PortTable,
        running: Mapping[int, RunningGate],
        program: int,
    ) -> None:
        streams = {
            frames: Stream(each, replace(running[each.gate.id], has_changed=False))
            for frames, each in table.items()
        }
        if self._streams_of(port) != streams:
            self._put(bridge, port, streams)
        clsact.ensure(self._kernel, port)
        present, number = programs(self._kernel, port, _PRIO), program_id(program)
        for chain in _CHAINS:
            if present.get(chain) != [number]:
                place = BpfPlace(port, _PRIO, chain)
                raise_first(self._kernel.send([set_program(place, program, _NAME)]))

    def _streams_of(self, port: int) -> _Streams:
        with closing(self._object.map("ports")) as ports:
            number = ports.lookup(PORT.pack(port))
        return {} if number is None else self._streams(PORT.unpack(number)[0])

    def _put(self, bridge: int, port: int, streams: _Streams) -> None:
        """The update returns when no frame looks at the former map any more."""
        with (
            closing(self._object.new_map("table", _ENTRY, len(streams))) as table,
            closing(self._object.map("ports")) as ports,
        ):
            for frames, stream in streams.items():
                table.update(packed_frames(frames), packed_stream(bridge, stream))
            self._object.pin(table, _pin(table.id))
            ports.update(PORT.pack(port), PORT.pack(table.descriptor))

    def _remove_port(self, port: int) -> None:
        present = programs(self._kernel, port, _PRIO)
        for chain in present.keys() & set(_CHAINS):
            request = delete_program(BpfPlace(port, _PRIO, chain))
            raise_first(self._kernel.send([request]), _GONE)
        if present:
            clsact.remove_unused(self._kernel, port)
        with closing(self._object.map("ports")) as ports:
            ports.delete(PORT.pack(port))

    def _add_instances(self, bridge: int, wanted: FilterTable) -> None:
        for name, numbers in _instances(wanted):
            with closing(self._object.map(name)) as instances:
                wanted_keys = {INSTANCE.pack(bridge, number) for number in numbers}
                for key in wanted_keys.difference(instances.keys()):
                    instances.update(key, bytes(instances.value_octets))

    def _remove_instances(self, bridge: int, wanted: FilterTable) -> None:
        """Those that this bridge has no more, and those of bridges that are gone."""
        bridges = {each.ifindex for each in self._states.values() if each.as_bridge}
        for name, numbers in _instances(wanted):
            with closing(self._object.map(name)) as instances:
                for key in list(instances.keys()):
                    of_bridge, number = INSTANCE.unpack(key)
                    if of_bridge not in bridges or (of_bridge == bridge and number not in numbers):
                        instances.delete(key)

    def _forget_maps(self) -> None:
        """Unpin what is in no port's place, which an agent that was killed may have left; without
        any port all."""
        indexes = {PORT.pack(each.ifindex) for each in self._states.values()}
        with closing(self._object.map("ports")) as ports:
            for gone in set(ports.keys()) - indexes:
                ports.delete(gone)
            used = {PORT.unpack(value)[0] for _key, value in ports.items()}
        if not used:
            self._object.remove()
            self._parsed.clear()
            return
        for name in self._object.pinned("table-"):
            if name not in {_pin(number) for number in used}:
                self._object.unpin(name)
        self._parsed = {n: each for n, each in self._parsed.items() if n in used}


def _pin(number: int) -> str:
    return f"table-{number}"


def _instances(table: FilterTable) -> Iterable[tuple[str, set[int]]]:
    listed = (table.filters, table.gates, table.meters)
    return zip(_INSTANCES, ({each.id for each in every} for every in listed), strict=True)


def _part(
    streams: Mapping[str, _Streams], counters: Mapping[int, bytes], changes: Mapping[int, bytes]
) -> StreamFilterState:
    table = FilterTable(
        {
            port: {frames: stream.filter for frames, stream in entries.items()}
            for port, entries in streams.items()
        }
    )
    running: dict[int, RunningGate] = {}
    for entries in streams.values():
        for stream in entries.values():
            number, asked = stream.filter.gate.id, stream.running
            has_changed = number in changes and change_met(changes[number]) == asked.change_ns
            running[number] = replace(asked, has_changed=has_changed)
    none = bytes(COUNTERS.size)
    counted = {each.id: counters_of(counters.get(each.id, none)) for each in table.filters}
    return StreamFilterState(table, running, counted)
