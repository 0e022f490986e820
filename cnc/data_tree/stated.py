"""What nodes state of their ports and clocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cnc.model import ClocksApart, GateLimits, PortRef, WakeUps


@dataclass(frozen=True, slots=True)
class StatedPorts:
    """What switches state of their ports; `wake_ups` only of those whose gates wait for timers.
    `lateness` is that of end stations whose talkers say how late they are, by port the latest.
    `clocks` has the two nodes whose clocks are furthest apart, by what `cnc.mechanisms.clock.error`
    counts of each offset, None where no two can be compared;
    `compared` all whose clocks follow the one that most follow."""

    limits: Mapping[PortRef, GateLimits]
    wake_ups: Mapping[PortRef, WakeUps]
    lateness: Mapping[PortRef, WakeUps]
    clocks: ClocksApart | None = None
    compared: frozenset[str] = frozenset()
