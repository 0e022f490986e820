"""The root qdisc of a port and the qdiscs below it: one kernel object of several mechanisms.

A child that is grafted below a running software taprio stops its schedule: taprio_graft() takes
the device down and up again, and taprio_reset() cancels the timer that moves the gates. The timer
starts again when the root is set once more, so the children always come with their root.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agent.composition import Contribution, KernelObject, Stage

ROOT = 0  # the place of the root's own contribution
NO_QDISC = "noqueue"  # what the kernel shows where there is none


@dataclass(frozen=True, slots=True)
class ChildQdisc:
    """The qdisc of one transmit queue; `options` are the arguments of pyroute2's plugin `kind`.

    Rates and octets are those of the link, emulated or not.
    """

    queue: int
    kind: str
    options: tuple[tuple[str, int], ...] = ()

    @property
    def place(self) -> int:
        return ROOT + 1 + self.queue


@dataclass(frozen=True, slots=True)
class RootQdisc(KernelObject):
    """One contribution at the place ROOT, `ChildQdisc`s behind it."""

    removed_in: ClassVar[Stage] = Stage.OPEN_GATES
    set_in: ClassVar[Stage] = Stage.CLOSE_GATES

    def problems(self, contributions: Sequence[Contribution]) -> Iterator[str]:
        if any(each.place == ROOT for each in contributions):
            return
        for each in contributions:
            yield (
                f"port {self.port}: {each.owner} needs gates on this port: a {each.content.kind} "
                f"qdisc on transmit queue {each.content.queue} has no root qdisc to belong to"
            )
