"""The priority of received frames: what a port is asked to do, and what its filters do."""

from __future__ import annotations

from dataclasses import dataclass

PRIORITIES = 8


@dataclass(frozen=True, slots=True)
class PriorityTable:
    """`regenerated[p]` is the priority of a frame with the code point p, `default` of one without
    a VLAN tag; `decoded[p]` is the priority that the code point stands for, before regeneration."""

    regenerated: tuple[int, ...] = tuple(range(PRIORITIES))
    default: int = 0
    decoded: tuple[int, ...] = tuple(range(PRIORITIES))


@dataclass(frozen=True, slots=True)
class ReceivedPriorityConfig:
    """The table to use while the port is a member of a bridge; None: the kernel's own way."""

    table: PriorityTable | None = None


@dataclass(frozen=True, slots=True)
class ReceivedPriorityState:
    """The table that is in force; None: every frame has priority 0."""

    table: PriorityTable | None = None
