"""What a search places: a member, the legs of its route, and where it puts them in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cnc.planner.graph import Tree


class Member(NamedTuple):
    """One of the paths that a stream is sent over: what a search places as a whole."""

    stream: str
    path: int


class Leg(NamedTuple):
    """One link of a route with the times the frames of a period need there, all in ns.

    `min_ns` counts from the planned start at `anchor`, the nearest leg upstream that holds the
    frame back, to the earliest moment in this port's queue; `max_ns` from the parent's planned
    start to the latest, less what the frame has to wait for its turn. `window_ns` is how long the
    link is reserved from the planned start on, of which the gate is shut for the last `seam_ns`:
    another class may come next, and a frame that was early may start so much after it was let
    through. `hold_ns` is how long the queue is reserved. The frame may come `late_ns` after the
    planned start, on which `max_ns` does not count: the clock error at a late hop, else 0.
    `delivery_ns` counts to the last bit at a listener and is None where none listens. `edge_min_ns`
    is how near to the end of the cycle a window may start or end, since a gate entry cut there must
    not become too short. If it `is_copied` later, the frame is the one that the stream's other path
    starts with, and takes no time of its own.
    `spread_ns` is how much later than the first the last frame of the period has its turn.
    To a listener of a stream that limits its jitter, the last bit of a frame comes `arrival_ns`
    after its turn from the planned start at `steady_leg` on, at the earliest, by the listener's
    clock: of this leg where its port holds the frame back, else of the anchor. Of `delivery_ns`
    then `by_talker_ns` are only there because the talker's clock may be further off than the
    listener's.
    """

    link: int
    parent: int | None
    anchor: int
    min_ns: int
    max_ns: int
    window_ns: int
    hold_ns: int
    delivery_ns: int | None
    edge_min_ns: int
    late_ns: int = 0
    seam_ns: int = 0
    is_copied: bool = False
    spread_ns: int = 0
    steady_leg: int = 0
    arrival_ns: int = 0
    by_talker_ns: int = 0

    @property
    def gate_ns(self) -> int:
        """How long the gate is open from the planned start on."""
        return self.window_ns - self.seam_ns


@dataclass(frozen=True, slots=True)
class Route:
    """The legs of a member, and where they lie in time when no frame waits: `offsets_ns` after
    the talker's start, with the latency bound that this gives. Unless it `is_held`, no port is
    relied on to hold its frames back, and they never wait."""

    member: Member
    period_ns: int
    legs: tuple[Leg, ...]
    offsets_ns: tuple[int, ...]
    least_latency_ns: int
    is_held: bool = True

    @property
    def tree(self) -> Tree:
        return tuple(leg.link for leg in self.legs)

    @property
    def is_late(self) -> bool:
        """Whether a frame may come to any hop after its planned start there."""
        return any(leg.late_ns for leg in self.legs)

    @property
    def hops_max(self) -> int:
        """How many bridges a frame crosses at most."""
        crossed: list[int] = []
        for leg in self.legs:
            crossed.append(0 if leg.parent is None else crossed[leg.parent] + 1)
        return max(crossed)

    def latency_ns(self, offsets_ns: Sequence[int]) -> int:
        """From the talker's start to the last bit at the last listener, at the latest."""
        return max(
            offset + leg.delivery_ns
            for offset, leg in zip(offsets_ns, self.legs, strict=True)
            if leg.delivery_ns is not None
        ) - self.start_ns(offsets_ns)

    def start_ns(self, offsets_ns: Sequence[int]) -> int:
        """When the talker starts: on the first of its links, if it has several."""
        return min(
            offset for offset, leg in zip(offsets_ns, self.legs, strict=True) if leg.parent is None
        )


class Placement(NamedTuple):
    """When a member leaves each port of its route, and in which class."""

    route: Route
    offsets_ns: tuple[int, ...]
    traffic_class: int
