"""What every scheduling algorithm is given, and what it must return.

The model of a hop: a control frame that has just begun when the gate opens cannot be stopped, so a
frame planned for `o` starts in [o, o + blocking]. It lies in the next port's queue at the earliest
reception + propagation + least processing - clock error after `o`, at the latest blocking +
reception + propagation + greatest processing + clock error after `o`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from cnc.model import ClassRole, Hop, Intent, Link, Stream, transmission_ns
from cnc.planner.routing import egress_links, shortest_tree

_SHORTEST_FRAME_OCTETS = 60  # the kernel's taprio refuses an interval that cannot hold one


@dataclass(frozen=True, slots=True)
class Leg:
    """One link of a stream's tree with the times the stream needs there.

    `earliest_ns` and `latest_ns` count from the parent's planned start to the frame lying in this
    port's queue (0 on the talker's own port); `delivery_ns` from this leg's planned start to the
    last bit at its far end. All bounds include clock error and blocking.
    """

    link: Link
    parent: int | None  # index into the stream's legs
    window_ns: int
    earliest_ns: int
    latest_ns: int
    delivery_ns: int


@dataclass(frozen=True)
class Problem:
    """An intent with a route for every stream. `unreachable` maps a stream to lost listeners."""

    intent: Intent
    routes: Mapping[str, tuple[Leg, ...]]
    unreachable: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, intent: Intent) -> Problem:
        """Route every stream along its shortest tree."""
        egress = egress_links(intent.network)
        routes, unreachable = {}, {}
        for name, stream in intent.streams.items():
            tree, lost = shortest_tree(intent.network, egress, stream)
            if lost:
                unreachable[name] = lost
            else:
                routes[name] = legs(intent, stream, tree)
        return cls(intent, routes, unreachable)

    def latency_bound_ns(self, stream: str, hops: tuple[Hop, ...]) -> int:
        """From the planned start at the talker to the last bit at the last listener."""
        listeners = self.intent.streams[stream].listeners
        arrivals = [
            hop.offset_ns + leg.delivery_ns
            for hop, leg in zip(hops, self.routes[stream], strict=True)
            if leg.link.target.node in listeners
        ]
        return max(arrivals) - hops[0].offset_ns

    @cached_property
    def least_latency_ns(self) -> dict[str, int]:
        """The bound of each stream when its frames wait nowhere."""
        return {
            name: self.latency_bound_ns(name, self.hops_without_waiting(name, 0))
            for name in self.routes
        }

    def hops_without_waiting(self, stream: str, offset_ns: int) -> tuple[Hop, ...]:
        """The stream's hops when the talker starts at `offset_ns` and no frame ever waits."""
        number = self.intent.class_of(self.intent.streams[stream]).number
        hops: list[Hop] = []
        for leg in self.routes[stream]:
            start = offset_ns if leg.parent is None else hops[leg.parent].offset_ns + leg.latest_ns
            hops.append(Hop(leg.link.source, start, number))
        return tuple(hops)


@dataclass(frozen=True, slots=True)
class Result:
    """Hops of the streams placed, in the order of their legs; reasons for those refused."""

    hops: Mapping[str, tuple[Hop, ...]]
    refused: Mapping[str, str]


class Algorithm(Protocol):
    """A way to place streams. Deterministic; `budget` counts attempts, not seconds."""

    name: str

    def schedule(self, problem: Problem, budget: int) -> Result:
        """Place as many streams as possible; every stream ends up placed or refused."""


def legs(intent: Intent, stream: Stream, tree: tuple[Link, ...]) -> tuple[Leg, ...]:
    """The times a stream needs on each link of its tree (parents before children)."""
    network = intent.network
    inbound: dict[str, int] = {}
    out: list[Leg] = []
    for index, link in enumerate(tree):
        bridge = network.bridges.get(link.source.node)
        parent = inbound.get(link.source.node)
        blocking = blocking_ns(intent, link)
        window = blocking + network.occupation_ns(link, stream.payload_octets)
        earliest = latest = 0
        if bridge and parent is not None:
            window = max(window, interval_min_ns(link))
            before = out[parent]
            # Delivery counts blocking and clock error against the frame; the earliest does not.
            slack = blocking_ns(intent, before.link) + 2 * network.clock_error_ns
            earliest = before.delivery_ns - slack + bridge.processing_min_ns
            latest = before.delivery_ns + bridge.processing_max_ns
        delivery = (
            blocking
            + network.reception_ns(link, stream.payload_octets)
            + link.propagation_ns
            + network.clock_error_ns
        )
        out.append(Leg(link, parent, window, earliest, latest, delivery))
        inbound[link.target.node] = index
    return tuple(out)


def blocking_ns(intent: Intent, link: Link) -> int:
    """How long a control frame already under way can hold up a scheduled one."""
    return longest_frame_ns(intent, link, ClassRole.CONTROL)


def longest_frame_ns(intent: Intent, link: Link, role: ClassRole) -> int:
    """Wire time of the largest frame of the classes with `role`; 0 without such a class."""
    octets = max((c.max_frame_octets for c in intent.classes_with(role)), default=None)
    if octets is None:
        return 0
    return transmission_ns(octets + intent.network.overhead.physical_octets, link.rate_bps)


def interval_min_ns(link: Link) -> int:
    """The shortest gate interval the port and the kernel accept."""
    return max(link.gate_interval_min_ns, transmission_ns(_SHORTEST_FRAME_OCTETS, link.rate_bps))
