"""When each frame leaves each port, and the gate control lists for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import NamedTuple, TypeVar

from cnc.model.intent import Intent
from cnc.model.network import NS_PER_S, PortRef, Shaper, TrafficClass
from cnc.model.parts import NO_PARTS, Parts
from cnc.model.streams import StreamAddress

_Part = TypeVar("_Part")

# The longest wait of a push for an instant that all cycles share. The switches wait for their
# confirming commit until then, and so does a controller that finds an abandoned rollout. It is the
# default of <confirm-timeout> (RFC 6241 8.4), and keeps base times within the kernel's int64.
PHASE_WAIT_MAX_NS = 600 * NS_PER_S


@dataclass(frozen=True, slots=True)
class GateEntry:
    """`gate_states` bit i is set when traffic class i may send (802.1Q 8.6.8.4)."""

    gate_states: int
    interval_ns: int


@dataclass(frozen=True, slots=True)
class GateControlList:
    """A port's cycle. Its base time is a multiple of `cycle_ns` on the TAI clock."""

    cycle_ns: int
    entries: tuple[GateEntry, ...]


class GivenWindow(NamedTuple):
    """Windows that an operator gives to the class `number`: each `window_ns` long, the first
    `start_ns` after the start of a cycle, and one every `every_ns`."""

    number: int
    start_ns: int
    window_ns: int
    every_ns: int


@dataclass(frozen=True, slots=True)
class Hop:
    """A planned transmission: first preamble bit at `offset_ns` after the nominal period start.

    That is the first frame's; further ones of the period follow it back to back. The offset repeats
    every period and may exceed it; `traffic_class` is the queue used.

    With a `window_ns` the frames share a window with those of other streams, in no planned order:
    the gate of their class is open at `offset_ns`, and all of the period have left, with the gap
    behind them, `window_ns` later. On a talker's link `offset_ns` is when it starts to send.
    """

    egress: PortRef
    offset_ns: int
    traffic_class: int
    window_ns: int = 0

    @property
    def is_shared(self) -> bool:
        """Whether the frames leave in a window that frames of other streams may share."""
        return self.window_ns > 0

    @property
    def window_end_ns(self) -> int:
        """By when all frames of the period have left that share a window."""
        return self.offset_ns + self.window_ns


class Theory(StrEnum):
    """What the bound of a stream follows from, in words."""

    SCHEDULED = "scheduled"  # an instant for each frame
    SHARED = "shared window"  # all frames of a window
    CQF = "CQF"  # intervals (802.1Q-2022 annex T)
    CBS = "CBS"  # network calculus, with the credit-based shaper (8.6.8.2)
    STRICT = "strict"  # network calculus, with strict priority (8.6.8.1)


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The way of one stream, and the latency it is promised.

    Each of `paths` is a tree, parents before children; streams that are sent twice have two.
    `latency_bound_ns` runs from the talker's first start to the last bit of the last frame of the
    period at the last listener, by whichever path it comes.

    With an `interval_ns` its frames are forwarded once each interval (`CyclicQueuing`): no hop has
    an instant, and every offset is 0. So it is with a `shaper`, by which they leave each port. The
    bound of both runs from when the talker has the burst to send.
    """

    paths: tuple[tuple[Hop, ...], ...]
    latency_bound_ns: int
    interval_ns: int = 0
    shaper: Shaper | None = None

    @property
    def hops(self) -> tuple[Hop, ...]:
        """The hops of all paths, one path after the other."""
        return tuple(chain.from_iterable(self.paths))

    @property
    def talker_offsets_ns(self) -> tuple[int, ...]:
        """When the talker starts to send, from the start of each period: one for each path."""
        return tuple(path[0].offset_ns for path in self.paths)

    @property
    def is_cyclic(self) -> bool:
        """Whether its frames are forwarded once each interval, at no planned instant."""
        return self.interval_ns > 0

    @property
    def has_instants(self) -> bool:
        """Whether its frames leave at planned instants, or in windows that are planned for them."""
        return not self.is_cyclic and self.shaper is None

    @property
    def theory(self) -> Theory:
        """What its bound follows from."""
        if self.is_cyclic:
            return Theory.CQF
        if self.shaper is not None:
            return Theory.CBS if self.shaper is Shaper.CREDIT else Theory.STRICT
        return Theory.SHARED if self.is_shared else Theory.SCHEDULED

    @property
    def is_shared(self) -> bool:
        """Whether its frames leave in windows that frames of other streams may share: on all hops
        or on none."""
        return any(hop.is_shared for hop in self.hops)


@dataclass(frozen=True, slots=True)
class LoopDelay:
    """The most that passes from the planned instant of a sample until its command is at the plant.

    The latency bound of the sample, the controller's computation, the wait until the command's
    offset, and the latency bound of the command. The bounds hold by any two clocks of the network.
    """

    sensor_ns: int
    compute_ns: int
    wait_ns: int
    actuator_ns: int

    @property
    def total_ns(self) -> int:
        return self.sensor_ns + self.compute_ns + self.wait_ns + self.actuator_ns


@dataclass(frozen=True, slots=True)
class Plan:
    """Offsets for every stream and a gate control list for every bridge port they cross.

    `refused` holds the reason for each stream that has no place because its operator accepted a
    plan without it; it is empty unless that was asked for. `recovery_ns` is by stream how long
    after the end of a disturbance its frames may still be later than their bound, of those of which
    a bound is found; empty where the network need not recover. `addresses` has every planned stream
    of a bridged network; it is empty in a routed one. `jitter_ns` has every planned stream whose
    jitter the operator limits, and for each of its listeners the spread of arrivals that it is
    promised. `loops` has how long each control loop takes whose two streams are planned.
    `plan[Type]` is what a mechanism has decided beside all that.
    """

    intent: Intent
    streams: Mapping[str, StreamPlan]
    gates: Mapping[PortRef, GateControlList]
    algorithm: str
    refused: Mapping[str, str] = field(default_factory=dict)
    recovery_ns: Mapping[str, int] = field(default_factory=dict)
    addresses: Mapping[str, StreamAddress] = field(default_factory=dict)
    jitter_ns: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    loops: Mapping[str, LoopDelay] = field(default_factory=dict)
    parts: Parts = NO_PARTS

    def __getitem__(self, kind: type[_Part]) -> _Part:
        """What a mechanism has decided; what decides nothing where there is none."""
        return self.parts[kind]

    def streams_by_address(self) -> dict[StreamAddress, list[str]]:
        """The streams that have each address, in the order of `addresses`."""
        found: dict[StreamAddress, list[str]] = {}
        for name, address in self.addresses.items():
            found.setdefault(address, []).append(name)
        return found

    def class_of(self, stream: str) -> TrafficClass:
        """The class that all frames of a planned stream use."""
        number = self.streams[stream].paths[0][0].traffic_class
        return next(c for c in self.intent.classes.values() if c.number == number)
