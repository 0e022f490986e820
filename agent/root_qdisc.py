"""The root qdisc of a port and the qdiscs below it: one kernel object of several mechanisms.

A child that is grafted below a running software taprio stops its schedule: taprio_graft() takes
the device down and up again, and taprio_reset() cancels the timer that moves the gates. The timer
starts again when the root is set once more, so the children always come with their root.

The root is the taprio of the gates; children of a port without gates have a mqprio above them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from agent.composition import Change, Contribution, KernelObject, Stage
from agent.model import PortState

HANDLE = 0x7A0_0000  # 7a0:, by which the agent knows its own root
# That of a child, with its queue added: with the handle that is there the kernel changes a qdisc in
# place, with another one it grafts.
CHILD_MAJOR = 0x7A1

ROOT = 0  # the place of the root's own contribution
# That of the traffic classes by which a port without gates gives frames to the children's queues.
CLASSES = -1
# That of the classes whose frames a port with gates is to have interrupted by others.
PREEMPTABLE = -2
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
class PreemptableClasses:
    """The numbers of these classes, and the priorities that lead to them, both sorted."""

    numbers: tuple[int, ...] = ()
    priorities: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RootQdisc(KernelObject):
    """A root at the place ROOT, or `TrafficClasses` at CLASSES, and `ChildQdisc`s behind it.

    Where both are contributed the one at ROOT is set, with `PreemptableClasses`, if any.
    """

    removed_in: ClassVar[Stage] = Stage.OPEN_GATES
    set_in: ClassVar[Stage] = Stage.CLOSE_GATES

    def problems(self, contributions: Sequence[Contribution]) -> Iterator[str]:
        places = {each.place for each in contributions}
        if PREEMPTABLE in places and ROOT not in places:
            yield (
                f"port {self.port}: preemption needs gates on this port: the kernel hands the "
                "preemptable classes to it with them"
            )
        if places & {ROOT, CLASSES}:
            return
        for each in contributions:
            if each.place == PREEMPTABLE:
                continue
            yield (
                f"port {self.port}: {each.owner} needs gates on this port: a {each.content.kind} "
                f"qdisc on transmit queue {each.content.queue} has no root qdisc to belong to"
            )


class Below(NamedTuple):
    """What a mechanism has below the root of a port, and that in words."""

    contributions: tuple[Contribution, ...]
    words: str


def root_of(state: PortState) -> RootQdisc:
    """The root qdisc of a port, with what is below it."""
    return RootQdisc(state.name, state.ifindex)


def change_below(state: PortState, what: str, before: Below, after: Below) -> Change:
    """From what a mechanism has below the root of a port to what it is to have there."""
    return Change(
        port=state.name,
        target=root_of(state),
        before=before.contributions,
        after=after.contributions,
        description=f"port {state.name}: {what}: {after.words}",
        difference=f"{what}: {before.words}, configured is {after.words}",
    )


def foreign_root(port: str, qdisc: str) -> str:
    """Why a port with the root qdisc of another program is refused, and what to do."""
    return (
        f"its root qdisc {qdisc} was not set by this agent and is left alone; "
        f"remove it first (tc qdisc del dev {port} root)"
    )
