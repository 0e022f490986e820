"""What a network must carry, and what was measured of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from cnc.model.network import (
    CONTROL_BURST_FRAMES,
    CONTROL_SHARE,
    ClassRole,
    GateLimits,
    Link,
    Network,
    PortRef,
    Shaper,
    TrafficClass,
)
from cnc.model.parts import NO_PARTS, Parts
from cnc.model.streams import DEFAULT_ADDRESS_RANGE, DEFAULT_INDIVIDUAL_RANGE, AddressRange, Stream

_Part = TypeVar("_Part")
_PRIORITIES = 8  # of 802.1Q


@dataclass(frozen=True, slots=True)
class WakeUps:
    """How late the timers of a switch have opened gates in the last 24 hours, as it measured, or
    talkers of an end station have sent, as they did.

    `quantile_ns` is what all but one in 100,000 keep to; None where fewer were measured, which is
    not enough to tell.
    """

    count: int
    maximum_ns: int
    quantile_ns: int | None = None


@dataclass(frozen=True, slots=True)
class MeasuredMargin:
    """The gate margin that a network needs, or the lateness of a talker: the latest of `count`
    wake-ups at `port`, the worst of its ports, was `maximum_ns` late; `value_ns` is that, rounded
    up."""

    value_ns: int
    port: PortRef
    maximum_ns: int
    count: int


@dataclass(frozen=True, slots=True)
class ClocksApart:
    """Two clocks, by their nodes, and how far they are apart at most; `links` counts the clocks on
    the way between them that have measured an offset."""

    first: str
    second: str
    apart_ns: int
    links: int


@dataclass(frozen=True, slots=True)
class MeasuredClockError:
    """The clock error that a network needs: twice what its two clocks that are furthest apart may
    differ (`cnc.mechanisms.clock.error`), rounded up."""

    value_ns: int
    apart: ClocksApart


@dataclass(frozen=True, slots=True)
class Intent:
    """What the network must carry. `document` is the operator's text as plain data, verbatim.

    `stated_limits` are what switches said of their ports; the links of `network` keep them.
    `measured_margin` is where the network's gate margin comes from if neither the operator stated
    it nor the constant holds; `measured_lateness` is where the lateness of talkers comes from, by
    end station, if the operator stated none and the gate margin does not hold;
    `measured_clock_error` is where the clock error comes from, if the operator wants it measured.
    Of `assignable` the streams of a bridged network get what the operator does not state of their
    addresses, of `individual` those with an `identification`. `parts` are what is asked beside: of
    mechanisms (`cnc.mechanisms`), of control loops and of a lab.
    """

    name: str
    network: Network
    classes: Mapping[str, TrafficClass]
    streams: Mapping[str, Stream]
    document: Mapping[str, Any] = field(compare=False, repr=False)
    stated_limits: Mapping[PortRef, GateLimits] = field(default_factory=dict)
    measured_margin: MeasuredMargin | None = None
    measured_lateness: Mapping[str, MeasuredMargin] = field(default_factory=dict)
    measured_clock_error: MeasuredClockError | None = None
    assignable: AddressRange = DEFAULT_ADDRESS_RANGE
    individual: AddressRange = DEFAULT_INDIVIDUAL_RANGE
    parts: Parts = NO_PARTS

    def __getitem__(self, kind: type[_Part]) -> _Part:
        """The part of this type; what asks for nothing where there is none."""
        return self.parts[kind]

    def having(self, *parts: object) -> Intent:
        """The same with these parts in place of those of their types."""
        return replace(self, parts=self.parts.having(*parts))

    @property
    def states_gate_margin(self) -> bool:
        """Whether the operator stated the gate margin."""
        return "gate-margin" in self.document.get("defaults", {})

    def with_gate_margin(self, value_ns: int, measured: MeasuredMargin | None = None) -> Intent:
        """The same to carry, through gates that open up to `value_ns` late."""
        network = replace(self.network, gate_margin_ns=value_ns)
        return replace(self, network=network, measured_margin=measured)

    @property
    def wants_measured_clock_error(self) -> bool:
        """Whether the operator leaves the clock error to what the clocks measure."""
        stated = self.document.get("defaults", {}).get("clock-error")
        if isinstance(stated, Mapping):
            stated = stated.get("network")
        return bool(stated == "measured")

    def with_clock_error(self, measured: MeasuredClockError) -> Intent:
        """The same to carry, by clocks that differ by no more than this."""
        network = replace(self.network, clock_error_ns=measured.value_ns)
        return replace(self, network=network, measured_clock_error=measured)

    def states_lateness(self, station: str) -> bool:
        """Whether the operator stated how late the talkers of an end station may be."""
        is_known = self.network.end_stations[station].lateness_ns is not None
        return is_known and station not in self.measured_lateness

    def with_lateness(self, measured: Mapping[str, MeasuredMargin]) -> Intent:
        """The same to carry, from talkers of these end stations that were so late."""
        stations = {
            name: replace(station, lateness_ns=measured[name].value_ns)
            if name in measured
            else station
            for name, station in self.network.end_stations.items()
        }
        network = replace(self.network, end_stations=stations)
        return replace(self, network=network, measured_lateness=measured)

    def within(self, limits: Mapping[PortRef, GateLimits]) -> Intent:
        """The same to carry, on ports as limited as their switches state."""
        return replace(self, network=self.network.within(limits), stated_limits=limits)

    def classes_of(self, stream: Stream) -> list[TrafficClass]:
        """The classes a plan may choose from for the stream."""
        return [self.classes[name] for name in stream.traffic_classes]

    def classes_with(self, role: ClassRole) -> list[TrafficClass]:
        return [c for c in self.classes.values() if c.role is role]

    def is_cyclic(self, stream: Stream) -> bool:
        """Whether its frames are forwarded once each interval, at no planned instant."""
        return any(its.cyclic for its in map(self.classes.get, stream.traffic_classes) if its)

    def queues_of(self, traffic_class: int) -> list[int]:
        """The traffic classes whose queues frames of a class leave by: in turn, if it is cyclic."""
        odd = [
            self.classes[its.cyclic.odd].number
            for its in self.classes.values()
            if its.cyclic and its.number == traffic_class
        ]
        return [traffic_class, *odd]

    def shaper_of(self, stream: Stream) -> Shaper | None:
        """What decides when its frames leave, of a class that has neither instants nor intervals;
        None: its class has them."""
        found = (self.classes.get(name) for name in stream.traffic_classes)
        return next((its.shaper for its in found if its and its.shaper), None)

    def has_instants(self, stream: Stream) -> bool:
        """Whether its frames leave at planned instants, or in windows that are planned for them."""
        return not self.is_cyclic(stream) and self.shaper_of(stream) is None

    def shaped_classes(self) -> list[TrafficClass]:
        """Those with a shaper, the highest priority first."""
        shaped = [its for its in self.classes.values() if its.shaper]
        return sorted(shaped, key=lambda its: -its.number)

    def classes_without_instants(self) -> list[TrafficClass]:
        """Those with streams whose talkers send at any time, the highest priority first."""
        found = [its for its in self.classes.values() if its.cyclic or its.shaper]
        return sorted(found, key=lambda its: -its.number)

    def unreserved_classes(self) -> list[TrafficClass]:
        """Those of best effort that have no bound, and take frames that no other class names."""
        return [its for its in self.classes_with(ClassRole.BEST_EFFORT) if its.shaper is None]

    def preemptable_classes(self, link: Link) -> list[TrafficClass]:
        """Those whose frames give way on a link to frames of all others, which are express."""
        return self.unreserved_classes() if link.preemption else []

    def planned_classes(self) -> list[TrafficClass]:
        """Those whose frames have planned times."""
        return [c for c in self.classes_with(ClassRole.SCHEDULED) if not c.windows_are_given]

    def priority_map(self) -> tuple[int, ...]:
        """The traffic class of each priority; one that no class names is best effort's."""
        by_priority = {c.priority: c.number for c in self.classes.values()}
        fallback = self.unreserved_classes()[0].number
        return tuple(by_priority.get(priority, fallback) for priority in range(_PRIORITIES))

    def unplanned_classes(self) -> list[TrafficClass]:
        """Those, beside control, whose frames come at any time: they fill what their gates leave
        them."""
        return [
            c
            for c in self.classes.values()
            if c.role is ClassRole.BEST_EFFORT or c.windows_are_given
        ]

    def control_burst_octets(self) -> int:
        """The most octets on the wire of the control frames that come to a port at once."""
        physical = self.network.overhead.physical_octets
        return sum(
            (CONTROL_BURST_FRAMES if c.burst_frames is None else c.burst_frames)
            * (c.max_frame_octets + physical)
            for c in self.classes_with(ClassRole.CONTROL)
        )

    def control_rate_bps(self, link: Link) -> int:
        """The most that comes of control frames on average, in bits a second on the wire.

        A class that states no rate may take a tenth of each link.
        """
        return sum(
            link.rate_bps // CONTROL_SHARE if c.rate_bps is None else c.rate_bps
            for c in self.classes_with(ClassRole.CONTROL)
        )

    def hyperperiod_ns(self) -> int:
        return math.lcm(1, *(s.period_ns for s in self.streams.values()))
