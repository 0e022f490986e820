"""Filtering and policing of streams at the switch they come in by (802.1Q-2022 8.6.5.2, PSFP).

What an operator asks for, and what a switch is told: stream filters, each with a gate. Where the
filters of a plan come from is in `cnc.mechanisms.stream_filters.derive`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from cnc.model import Intent, PriorityAddress, StreamAddress, TrafficClass

DEFAULT_STREAM_FILTERS_MAX = 1_024


class Policing(StrEnum):
    """What a switch does with frames that are out of profile (outside their window, too long,
    too many) or unidentified, with the priority of a class that has streams."""

    OFF = "off"  # it does not look
    COUNT = "count"  # it counts them, and lets them pass
    DROP = "drop"  # it drops them, and counts them


DEFAULT_POLICING = Policing.COUNT


@dataclass(frozen=True, slots=True)
class PolicingRules:
    """What an operator asks for: of a network, of classes and of streams by name. The nearest
    holds: what is not stated of a stream is as its class has it, what is not stated of a class as
    the network has it.

    A `network` of which nothing is stated, None, counts, except at switches that do not hold the
    filters for that: see `stated`. A routed network has none of it.
    """

    network: Policing | None = Policing.OFF
    classes: Mapping[str, Policing] = field(default_factory=dict)
    streams: Mapping[str, Policing] = field(default_factory=dict)

    @property
    def is_off(self) -> bool:
        """Whether nothing is policed."""
        of_all = (self.of_network, *self.classes.values(), *self.streams.values())
        return all(each is Policing.OFF for each in of_all)

    @property
    def of_network(self) -> Policing:
        """What is done where nothing is stated of a class and its streams."""
        return self.network or DEFAULT_POLICING

    @property
    def stated(self) -> PolicingRules:
        """Without what nobody has asked for: the rules of a switch that holds too few filters."""
        return replace(self, network=self.network or Policing.OFF)

    def of_class(self, name: str) -> Policing:
        """What is done with frames that have the priority of a class and belong to no stream."""
        return self.classes.get(name, self.of_network)

    def of_stream(self, name: str, class_name: str) -> Policing:
        """What is done with frames of a stream that has a place in a class."""
        return self.streams.get(name, self.of_class(class_name))

    def may_drop(self, name: str, class_names: Iterable[str]) -> bool:
        """Whether frames of a stream are dropped in any of these classes."""
        if not self.classes and name not in self.streams:
            return self.of_network is Policing.DROP
        return any(self.of_stream(name, each) is Policing.DROP for each in class_names)


NO_POLICING = PolicingRules()


class PolicedClass(NamedTuple):
    """A class whose frames can be out of profile, and whose policing it has: its own, or that of
    the class whose second queue it is."""

    its: TrafficClass
    policed_as: str


def policed_classes(intent: Intent) -> list[PolicedClass]:
    """The classes whose frames come at planned times, or whose streams send no more than they
    state; and second queues, of which no frame is on a cable."""
    cyclic = [its for its in intent.classes.values() if its.cyclic]
    own = [*intent.planned_classes(), *intent.shaped_classes(), *cyclic]
    odd = (
        PolicedClass(intent.classes[its.cyclic.odd], its.name)
        for its in cyclic
        if its.cyclic and its.cyclic.odd in intent.classes
    )
    return [*(PolicedClass(its, its.name) for its in own), *odd]


class FixedGate(StrEnum):
    """A stream gate whose state does not change."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class WindowGate:
    """A stream gate that opens once a period.

    It is open for `open_ns` from `start_ns` after the beginning of each period of `period_ns`, and
    lets up to `octets_max` octets pass in that time, counted as those of `StreamFilter`. The start
    may lie before the period or after its end: it belongs to the frames that are planned for it.
    """

    period_ns: int
    start_ns: int
    open_ns: int
    octets_max: int


@dataclass(frozen=True, slots=True)
class CyclicGate:
    """A stream gate that is always open, and tells intervals apart (802.1Q-2022 annex T).

    Frames of intervals with an even number, counted on TAI from 1970, get the internal priority
    value `even`, those of the others `odd`. In each interval up to `octets_max` octets pass, None:
    any number; of a frame count those of `StreamFilter`, and `overhead_octets` more.
    """

    interval_ns: int
    even: int
    odd: int
    octets_max: int | None = None
    overhead_octets: int = 0

    @property
    def is_free(self) -> bool:
        """Whether it lets any number of frames pass."""
        return self.octets_max is None


StreamGate = FixedGate | WindowGate | CyclicGate


@dataclass(frozen=True, slots=True)
class FlowMeter:
    """How much may pass (802.1Q-2022 8.6.5.5, MEF 10.3): a token bucket of one rate. Each frame
    counts from its destination address to its frame check sequence, and `overhead_octets` more."""

    rate_bps: int
    burst_octets: int
    overhead_octets: int


@dataclass(frozen=True, slots=True)
class FilteredStream:
    """Whose frames a stream filter takes: those of a stream that come in by `port`.

    `destination_mac` is six pairs of lower-case hexadecimal digits with colons.
    """

    destination_mac: str
    vlan_id: int
    port: str

    @property
    def address(self) -> StreamAddress:
        """What the frames of the stream are sent to."""
        return StreamAddress(self.destination_mac, self.vlan_id)


@dataclass(frozen=True, slots=True)
class Strangers:
    """Whose frames a stream filter takes: all that come in by `port`, and that no filter of a
    stream takes."""

    port: str


@dataclass(frozen=True, slots=True)
class StreamFilter:
    """Frames of a priority are looked at by the first filter that takes them.

    A frame passes if its MSDU, what is behind MAC addresses, VLAN tag and EtherType, has no more
    than `max_sdu_octets`, 0: of any length, if the gate is open, and if the meter has tokens for
    it; None: there is none. `priority` is the code point of the tag.
    """

    of: FilteredStream | Strangers
    priority: int
    max_sdu_octets: int
    gate: StreamGate
    policing: Policing
    meter: FlowMeter | None = None

    @property
    def address(self) -> PriorityAddress | None:
        """What the frames of its stream are sent to; None: it takes those of no stream."""
        if isinstance(self.of, Strangers):
            return None
        return PriorityAddress(self.of.destination_mac, self.of.vlan_id, self.priority)


def normal(its: StreamFilter) -> StreamFilter:
    """A filter as it is read back: which period its window begins in cannot be told from the base
    time of its gate, nor what becomes of frames out of order where none is."""
    if isinstance(its.gate, WindowGate):
        start_ns = its.gate.start_ns % its.gate.period_ns
        return replace(its, gate=replace(its.gate, start_ns=start_ns))
    is_open = its.gate is FixedGate.OPEN or (isinstance(its.gate, CyclicGate) and its.gate.is_free)
    if is_open and not its.max_sdu_octets and its.meter is None:
        return replace(its, policing=Policing.OFF)
    return its


@dataclass(frozen=True, slots=True)
class FilterCapacity:
    """How many stream filters the bridges of switches hold, where that is stated."""

    stated: Mapping[str, int] = field(default_factory=dict)

    def of(self, switch: str) -> int:
        """That of a switch, or the default."""
        return self.stated.get(switch, DEFAULT_STREAM_FILTERS_MAX)


@dataclass(frozen=True, slots=True)
class StreamFilters:
    """By what filters a switch looks at what end stations send, in the order in which they are
    asked."""

    filters: tuple[StreamFilter, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredFilter:
    """A stream filter of a bridge, with its number and those of its gate and its meter, None where
    it has no meter; `filter` is None where it is none that a rollout sets."""

    number: int
    gate: int
    filter: StreamFilter | None
    meter: int | None = None


@dataclass(frozen=True, slots=True)
class StoredFilters:
    """All stream filters that a bridge has."""

    entries: tuple[StoredFilter, ...] = ()


class Cause(StrEnum):
    """Why a frame does not pass a stream filter (802.1Q 12.31.2)."""

    GATE = "gate"  # it came out of its window, or one too many: one counter has both
    LENGTH = "length"  # it was too long
    RATE = "rate"  # its stream had sent more than it may


@dataclass(frozen=True, slots=True)
class FilterCounts:
    """Frames that a stream filter has taken, and those of them that did not pass: out of their
    window or too many in it, too long, and red, beyond the rate and burst of the meter
    (802.1Q 12.31.2). Where a filter counts only, they did.

    `is_pending`: the list of its gate has not begun, and talkers send by the plan before.
    """

    matching: int
    not_passing: int
    not_passing_sdu: int
    is_pending: bool = False
    red: int = 0

    @property
    def refused(self) -> dict[Cause, int]:
        """Those that did not come as planned, by what was wrong."""
        return {
            Cause.GATE: self.not_passing,
            Cause.LENGTH: self.not_passing_sdu,
            Cause.RATE: self.red,
        }


@dataclass(frozen=True, slots=True)
class CountedFrames:
    """What the stream filters of a bridge have counted."""

    by_filter: Mapping[StreamFilter, FilterCounts] = field(default_factory=dict)
