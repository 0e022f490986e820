"""What is asked of the frames of streams where they come in, and what the kernel does with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

# What the program of agent/bpf/stream_filters.bpf.c has room for.
INSTANCES_MAX, ENTRIES_MAX = 4096, 128
INTERVAL_MAX_NS = CYCLE_MAX_NS = 2**32 - 1
BURST_MAX_OCTETS = 1_000_000_000
PRIORITIES = range(8)


class Setting(NamedTuple):
    """A state of a stream gate, with the internal priority value; None: the frame's own."""

    is_open: bool = True
    ipv: int | None = None


class GateEntry(NamedTuple):
    """What a list sets, and for how long; `octets_max` None: any number passes. Of each frame count
    the octets of its service data unit, and `overhead_octets` more."""

    setting: Setting
    interval_ns: int
    octets_max: int | None = None
    overhead_octets: int = 0


@dataclass(frozen=True, slots=True)
class GateList:
    """Entries that repeat each cycle; the last one lasts until the cycle ends. Times are TAI."""

    base_ns: int
    cycle_ns: int
    entries: tuple[GateEntry, ...]

    def start_ns(self, now_ns: int) -> int:
        """The base time if it is still to come, else the next beginning of a cycle
        (ConfigChangeTime, IEEE Std 802.1Q-2022, 8.6.9.1.1)."""
        cycles = max(0, -(-(now_ns - self.base_ns) // self.cycle_ns))
        return self.base_ns + cycles * self.cycle_ns

    def at(self, now_ns: int) -> Setting:
        """What is set at this instant."""
        phase_ns = (now_ns - self.base_ns) % self.cycle_ns
        for entry in self.entries:
            phase_ns -= entry.interval_ns
            if phase_ns < 0:
                return entry.setting
        return self.entries[-1].setting


@dataclass(frozen=True, slots=True)
class Gate:
    """A stream gate: `initial` rules until the list starts; without one it rules for ever.

    `initial` None: the gate is not in operation, and frames pass it.
    """

    id: int
    initial: Setting | None = None
    list: GateList | None = None

    @property
    def rule(self) -> GateList | Setting:
        """What rules once the gate has taken over."""
        return self.list or self.first

    @property
    def first(self) -> Setting:
        """What rules until the list starts."""
        return self.initial or Setting()


@dataclass(frozen=True, slots=True)
class Meter:
    """A flow meter of one rate: octets from the destination address through the FCS, and for each
    frame so many more, which it takes on a cable."""

    id: int
    rate_bps: int
    burst_octets: int
    overhead_octets: int = 0


@dataclass(frozen=True, slots=True)
class StreamFilter:
    """A stream filter; `handle` or `priority` None: any. `only_counts`: it drops nothing."""

    id: int
    handle: int | None
    priority: int | None
    max_sdu_octets: int
    gate: Gate
    meter: Meter | None = None
    only_counts: bool = False


class Frames(NamedTuple):
    """Frames that one entry is about; `mac` None: those of no stream. `priority` None: any."""

    mac: str | None
    vlan_id: int
    priority: int | None = None


class Address(NamedTuple):
    """Frames to `mac` in this VLAN that come in by `port` are those of the stream `handle`."""

    port: str
    handle: int
    mac: str
    vlan_id: int


@dataclass(frozen=True, slots=True)
class StreamFilterConfig:
    """What a bridge is asked for; which frames that is about is known with its ports.

    `places` has the number of a stream filter with each port that it is restricted to; one that is
    not in it is at all ports.
    """

    filters: frozenset[StreamFilter] = frozenset()
    addresses: frozenset[Address] = frozenset()
    places: frozenset[tuple[int, str]] = frozenset()


PortTable = Mapping[Frames, StreamFilter]


@dataclass(frozen=True, slots=True)
class FilterTable:
    """What a bridge does, by port; a port without entries is not in it."""

    ports: Mapping[str, PortTable] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.ports)

    @property
    def filters(self) -> list[StreamFilter]:
        """The stream filters that are in force at some port, by number."""
        found = {each.id: each for table in self.ports.values() for each in table.values()}
        return [found[number] for number in sorted(found)]

    @property
    def ports_of_filters(self) -> Mapping[int, list[str]]:
        """Where each stream filter is in force, by its number; ports by their names."""
        found: dict[int, list[str]] = {}
        for port, table in sorted(self.ports.items()):
            for number in {each.id for each in table.values()}:
                found.setdefault(number, []).append(port)
        return found

    @property
    def gates(self) -> list[Gate]:
        found = {each.gate.id: each.gate for each in self.filters}
        return [found[number] for number in sorted(found)]

    @property
    def meters(self) -> list[Meter]:
        found = {each.meter.id: each.meter for each in self.filters if each.meter}
        return [found[number] for number in sorted(found)]


@dataclass(frozen=True, slots=True)
class RunningGate:
    """What a gate does until `change_ns`, when its own list takes over; a `Setting` is constant.

    `has_changed`: frames have met its own list, which stays whatever becomes of the clock.
    """

    before: GateList | Setting
    change_ns: int
    has_changed: bool = False

    def is_pending(self, now_ns: int) -> bool:
        """Whether its own list is still to come."""
        return not self.has_changed and now_ns < self.change_ns


class FilterCounters(NamedTuple):
    """What a stream filter has counted, as IEEE Std 802.1Q-2022, table 12-33 has it."""

    matching: int = 0
    passing_sdu: int = 0
    not_passing_sdu: int = 0
    passing: int = 0
    not_passing: int = 0
    red: int = 0


@dataclass(frozen=True, slots=True)
class StreamFilterState:
    """What the bridge does. `running` is by gate, `counters` by stream filter; counters begin with
    0 when a stream filter is made, and go on when it is changed."""

    table: FilterTable = field(default_factory=FilterTable)
    running: Mapping[int, RunningGate] = field(default_factory=dict)
    counters: Mapping[int, FilterCounters] = field(default_factory=dict)
