"""The rows of the matrix: as JSON for programs, and as a table for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, TypeVar

from cnc.model import NS_PER_S
from tests.fault.kernels import Side

R = TypeVar("R")


class Fault(StrEnum):
    """What is struck; all but the controller are those of one switch.

    Front and broker are processes of its NETCONF server. The front's end is that of the spawner and
    the session processes as well; without a broker the front ends by itself. A link that is cut
    loses what is sent; one that is late holds what the switch is sent, and delivers it after the
    base time.
    """

    CONTROLLER = "controller killed"
    AGENT = "agent killed"
    FRONT = "front killed"
    BROKER = "broker killed"
    LINK = "link cut"
    LATE = "link late"


class Recovery(StrEnum):
    """What the operator had to say before the network was on one schedule."""

    NONE = "none"
    RESUME = "resume"
    ROLLBACK = "rollback"
    PUSH = "push"  # of the plan that runs, which removes what was left of former ways


@dataclass(frozen=True, slots=True)
class Row:
    """One rollout, struck once.

    `number` counts through the whole matrix. `controller_exit` is the exit status of `cnc push`,
    negative for a signal. `mixed_ns` is how long gates of both schedules were in force.
    `attacks` is how many requests of its attacker each switch has answered meanwhile, or more; None
    if nobody was there to attack.
    `has_struck` is False if the rollout never came to the step. In a bridged network `forwarding`
    says by whose ways all bridges forward and all talkers send, and `strays` counts the filtering
    entries that any of them has had and neither schedule has. `guards` says whose stream filters
    and sequence functions all bridges have; of `frames_sent` in streams of bridges that both
    schedules have, `frames_lost` did not arrive and `frames_doubled` more than once.
    """

    number: int
    step: str
    fault: Fault
    ports_on_old: int
    ports_on_new: int
    ports_on_neither: int
    recovery: Recovery
    controller_exit: int
    mixed_ns: int
    attacks: int | None
    has_struck: bool = True
    forwarding: str | None = None
    strays: int = 0
    guards: str | None = None
    frames_sent: int = 0
    frames_lost: int = 0
    frames_doubled: int = 0

    @property
    def outcome(self) -> str:
        """ "old" or "new" if every port is, else "mixed"."""
        return outcome(self.ports_on_old, self.ports_on_new, self.ports_on_neither)

    @property
    def is_sound(self) -> bool:
        """Whether the step was struck, by all attackers there were, on one schedule all are, and no
        late commit has moved gates."""
        on_one_side = {self.forwarding, self.guards} <= {None, self.outcome} and not self.strays
        is_one = self.outcome != "mixed" and on_one_side
        came_once = not self.frames_lost and not self.frames_doubled
        return (
            self.has_struck
            and self.attacks != 0
            and is_one
            and came_once
            and not self.has_moved_late
        )

    @property
    def has_moved_late(self) -> bool:
        """Whether a commit that came after the base time moved gates, though nothing was left to an
        operator to decide."""
        is_decided = self.recovery is not Recovery.RESUME and self.recovery is not Recovery.ROLLBACK
        return self.fault is Fault.LATE and self.mixed_ns > 0 and is_decided


def outcome(ports_on_old: int, ports_on_new: int, ports_on_neither: int) -> str:
    """ "old" or "new" if every port is, else "mixed"."""
    if ports_on_neither or (ports_on_old and ports_on_new):
        return "mixed"
    return str(Side.NEW if ports_on_new else Side.OLD)


def to_json(rows: Iterable[Any]) -> str:
    """A list of objects, one a row, which is a dataclass with an `outcome`."""
    return json.dumps([{"outcome": row.outcome, **asdict(row)} for row in rows], indent=1) + "\n"


def from_json(text: str) -> list[Row]:
    """What `to_json` wrote."""
    return rows_in(text, Row, fault=Fault, recovery=Recovery)


def rows_in(text: str, kind: type[R], **enums: Callable[[str], StrEnum]) -> list[R]:
    """The rows of a kind that `to_json` wrote, with their fields that are `enums`."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # it is a dataclass
    return [
        kind(
            **{
                name: enums[name](found[name]) if name in enums else found[name]
                for name in names
                if name in found
            }
        )
        for found in json.loads(text)
    ]


def to_markdown(rows: Sequence[Row]) -> str:
    """A table with a line for each step and a column for each fault."""
    cells = {(row.step, row.fault): _cell(row) for row in rows}
    steps = list(dict.fromkeys(row.step for row in rows))
    faults = [fault for fault in Fault if any(row.fault is fault for row in rows)]
    lines = [
        f"| step | {' | '.join(faults)} |",
        f"|---|{'---|' * len(faults)}",
        *(
            f"| {step} | {' | '.join(cells.get((step, fault), '') for fault in faults)} |"
            for step in steps
        ),
    ]
    return "\n".join(lines) + "\n"


def of_bridges(row: Row) -> list[str]:
    """What is said of a row in a bridged network beside its gates."""
    if row.forwarding is None:
        return []
    said = [f"forwarding {row.forwarding}", f"{row.strays} entries of neither"]
    if row.frames_sent:
        said += [
            f"guards {row.guards}",
            f"of {row.frames_sent} frames {row.frames_lost} lost, {row.frames_doubled} doubled",
        ]
    return said


def _cell(row: Row) -> str:
    if not row.has_struck:
        return "**not reached**"
    if row.attacks == 0:
        return "**not attacked**"
    if row.outcome == "mixed":
        return f"**MIXED: {row.ports_on_old} old, {row.ports_on_new} new**"
    if not row.is_sound and not row.has_moved_late:
        return f"**{row.outcome}, {', '.join(of_bridges(row))}**"
    notes = []
    if row.recovery is not Recovery.NONE:
        notes.append(f"`--{row.recovery}`")
    if row.mixed_ns:
        notes.append(f"mixed for {row.mixed_ns / NS_PER_S:.1f} s")
    said = ", ".join([row.outcome, *notes])
    return f"**{said}**" if row.has_moved_late else said
