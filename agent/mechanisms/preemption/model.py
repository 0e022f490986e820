"""Which frames of a port are interrupted by others."""

from __future__ import annotations

from dataclasses import dataclass

NAME = "preemption"


@dataclass(frozen=True, slots=True)
class Preemptable:
    """The traffic classes of a port whose frames are interrupted, and the priorities that lead to
    them, both sorted.

    Both what is asked of a port and what it does; made without arguments: nothing.
    """

    classes: tuple[int, ...] = ()
    priorities: tuple[int, ...] = ()
