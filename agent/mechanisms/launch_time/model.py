"""Which frames of a port leave at a time of transmission that their program states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agent.root_qdisc import ChildQdisc
from agent.traffic_classes import PRIORITIES, TrafficClasses

NAME = "launch-time"
ETF = "etf"


class LaunchMode(StrEnum):
    """What keeps to the time of transmission; the names are those of `tsn-end-station.yang`."""

    SOFTWARE = "software"  # the kernel's timer
    HARDWARE = "hardware"  # the device


@dataclass(frozen=True, slots=True)
class LaunchTime:
    """The etf qdiscs of a port, by queue, and the traffic classes that lead to the queues.

    Both what is asked of a port and what it does; made without arguments: nothing.
    """

    classes: TrafficClasses | None = None
    queues: tuple[ChildQdisc, ...] = ()

    @property
    def by_priority(self) -> dict[int, ChildQdisc]:
        """The etf of each priority of 802.1Q; of several queues that of the first."""
        if self.classes is None:
            return {}
        etf = {each.queue: each for each in self.queues}
        first = {p: self.classes.queues_of(p).start for p in range(PRIORITIES)}
        return {p: etf[queue] for p, queue in first.items() if queue in etf}


@dataclass(frozen=True, slots=True)
class Discarded:
    """How many frames each queue's etf has discarded: refused, or too late to be sent."""

    frames: Mapping[int, int] = field(default_factory=dict)
