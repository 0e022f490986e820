"""What several mechanisms contribute to one kernel object, put together and changed as a whole.

A port's root qdisc with its children, or a filter with its chain of actions, is one object for the
kernel: replacing one part disturbs the others. So a mechanism does not touch the object. It states
its contributions, and a `Step` takes the object from all contributions before to all after.

Pure functions and values; `agent.switch` decides with them and executes the steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Any, ClassVar


class Stage(IntEnum):
    """The order in which kernel objects change; undo runs through it backwards.

    What steers the clock comes first: schedules count on it.
    Frames are in their classes before gates begin to close, and until gates that are to go are
    open: no frame meets a gate that was meant for another class. Nor is a frame forwarded before
    it has its class, nor given the address of a stream before that address leads somewhere. What
    local programs are told comes last, when nothing can be refused any more that they were told of.
    """

    SYNCHRONISE = auto()
    OPEN_GATES = auto()
    CLASSIFY = auto()
    FORWARD = auto()
    IDENTIFY = auto()
    CLOSE_GATES = auto()
    PUBLISH = auto()


@dataclass(frozen=True, slots=True)
class KernelObject:
    """One thing in the kernel that is replaced as a whole; a subclass for each kind.

    `port` and `ifindex` are None where the object is the whole network namespace's.
    """

    port: str | None = None
    ifindex: int | None = None

    removed_in: ClassVar[Stage]
    set_in: ClassVar[Stage]

    def problems(
        self,
        contributions: Sequence[Contribution],  # noqa: ARG002
    ) -> Iterator[str]:
        """Why these contributions do not make an object, one line each."""
        yield from ()

    def port_and_ifindex(self) -> tuple[str, int]:
        """Of an object of one port; TypeError where it is the whole network namespace's."""
        if self.port is None or self.ifindex is None:
            raise TypeError(f"{self} belongs to no port")
        return self.port, self.ifindex


@dataclass(frozen=True, slots=True)
class Contribution:
    """What the mechanism `owner` adds to an object for one port.

    `place` is where in the object it stands, lowest first; two mechanisms cannot have one place.
    """

    owner: str
    port: str
    place: int
    content: Any

    @property
    def position(self) -> tuple[int, str]:
        return self.place, self.port


@dataclass(frozen=True, slots=True)
class Change:
    """What one mechanism changes in an object for one port; None: what belongs to no port.

    `description` is what is done, `difference` how the kernel differs from the configuration.
    """

    port: str | None
    target: KernelObject
    before: tuple[Contribution, ...]
    after: tuple[Contribution, ...]
    description: str
    difference: str


@dataclass(frozen=True, slots=True)
class SoleContent:
    """What the mechanism `owner` contributes to an object for one port: one content, or nothing
    where that is empty."""

    owner: str
    port: str
    target: KernelObject

    def contributions(self, content: Any) -> Iterator[tuple[KernelObject, Contribution]]:
        for each in self._contributed(content):
            yield self.target, each

    def change(self, before: Any, after: Any, *, description: str, difference: str) -> Change:
        """From one content to another; `description` is told without the name of the port."""
        return Change(
            port=self.port,
            target=self.target,
            before=self._contributed(before),
            after=self._contributed(after),
            description=f"port {self.port}: {description}",
            difference=difference,
        )

    def _contributed(self, content: Any) -> tuple[Contribution, ...]:
        return (Contribution(self.owner, self.port, 0, content),) if content else ()


def repair(target: KernelObject, description: str, difference: str) -> Change:
    """Set an object again to what it has: the state of a port does not show what is wrong in it."""
    return Change(None, target, (), (), description, difference)


@dataclass(frozen=True, slots=True)
class Step:
    """One replacement of one kernel object, with all that its mechanisms change in it."""

    target: KernelObject
    before: tuple[Contribution, ...]
    after: tuple[Contribution, ...]
    changes: tuple[Change, ...] = ()

    @property
    def stage(self) -> Stage:
        return self.target.set_in if self.after else self.target.removed_in

    @property
    def undo(self) -> Step:
        """The step back: the object as it was."""
        return Step(self.target, self.after, self.before)

    def problems(self) -> Iterator[str]:
        """Why the object cannot be what the step makes of it, one line each."""
        positions = Counter(each.position for each in self.after)
        for (place, port), count in positions.items():
            if count > 1:
                owners = [each.owner for each in self.after if each.position == (place, port)]
                yield f"port {port}: {' and '.join(owners)} ask for one place in {self.target}"
        yield from self.target.problems(self.after)


def compose(
    present: Mapping[KernelObject, Sequence[Contribution]], changes: Iterable[Change]
) -> list[Step]:
    """One step for each object that changes, in the order of their stages.

    `present` is what all mechanisms contribute now; what no change takes away stays in its object.
    """
    by_target: dict[KernelObject, list[Change]] = {}
    for change in changes:
        by_target.setdefault(change.target, []).append(change)
    steps = [_step(target, present.get(target, ()), own) for target, own in by_target.items()]
    return sorted(steps, key=lambda step: step.stage)


def _step(target: KernelObject, before: Sequence[Contribution], changes: Sequence[Change]) -> Step:
    removed = {(each.owner, *each.position) for change in changes for each in change.before}
    kept = [each for each in before if (each.owner, *each.position) not in removed]
    after = [*kept, *(each for change in changes for each in change.after)]
    return Step(target, _in_order(before), _in_order(after), tuple(changes))


def _in_order(contributions: Iterable[Contribution]) -> tuple[Contribution, ...]:
    return tuple(sorted(contributions, key=lambda each: each.position))
