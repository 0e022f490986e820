"""The rows of late delivery, and how they are shown to people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cnc.model import NS_PER_S
from tests.fault.kernels import Side
from tests.fault.link import Way
from tests.fault.moments import Moment
from tests.fault.table import Recovery, outcome, rows_in

_IDS_AFTER_A_DECISION = 2


@dataclass(frozen=True, slots=True)
class Case:
    """One RPC of a push to one switch, how it is held, when it is delivered, and what the operator
    says if there is something to choose."""

    number: int
    step: str
    way: Way
    moment: Moment
    choice: Recovery


@dataclass(frozen=True, slots=True)
class LateRow:
    """One rollout of which one RPC to one switch was held, and delivered later.

    `has_held`: the RPC was on its way and did not pass. `is_in_time`: it was delivered when the
    case says; a machine that is too slow misses that. `delivered_ns` is the delivery after the base
    time, negative before it; None where none was chosen by then. `has_committed`: the controller
    sent commits. `struck_took_it`: the struck switch had the new lists in its kernel;
    `struck_refused_it`: its agent said that the commit came too late. Neither is so where no commit
    came to it, or only when the switch had ended the session.
    `is_at_rest`: at the end nothing waited, nothing was locked and each kernel ran what its switch
    has stored. `rollout_ids` counts the different ids that the switches have stored. `mixed_ns` is
    how long gates of both schedules were in force.
    """

    number: int
    step: str
    way: Way
    moment: Moment
    has_held: bool
    is_in_time: bool
    delivered_ns: int | None
    has_committed: bool
    struck_took_it: bool
    struck_refused_it: bool
    controller_exit: int
    recovery: Recovery
    is_at_rest: bool
    ports_on_old: int
    ports_on_new: int
    ports_on_neither: int
    rollout_ids: int
    mixed_ns: int

    @property
    def outcome(self) -> str:
        """ "old" or "new" if every port is, else "mixed"."""
        return outcome(self.ports_on_old, self.ports_on_new, self.ports_on_neither)

    @property
    def is_counted(self) -> bool:
        """Whether the case was met."""
        return self.has_held and self.is_in_time

    @property
    def is_one(self) -> bool:
        """Whether the network ended as one, and had both schedules in force for no other reason
        than that it waited for an operator's decision.

        The rollout that carries out such a decision changes the switches that differ: the others
        keep the id of the rollout by which they have what was chosen.
        """
        has_ended = self.is_at_rest and self.outcome != "mixed"
        if self.recovery is Recovery.NONE:
            return has_ended and self.rollout_ids == 1 and not self.mixed_ns
        return has_ended and self.rollout_ids <= _IDS_AFTER_A_DECISION

    @property
    def is_sound(self) -> bool:
        return self.is_counted and self.is_one

    def __str__(self) -> str:
        delivered = (
            "no base time yet"
            if self.delivered_ns is None
            else f"{self.delivered_ns / NS_PER_S:+.3f} s from the base time"
        )
        return (
            f"{self.number:4} {'' if self.is_sound else '** '}{self.step} | {self.way} | "
            f"{self.moment} ({delivered}): {cell(self)}, push exit {self.controller_exit}"
            f"{'' if self.has_committed else ', no commit sent'}"
            f"{', struck switch took it' if self.struck_took_it else ''}"
            f"{', struck switch refused it as too late' if self.struck_refused_it else ''}"
        )


def from_json(text: str) -> list[LateRow]:
    """What `to_json` wrote."""
    return rows_in(text, LateRow, way=Way, moment=Moment, recovery=Recovery)


def summary(rows: Sequence[LateRow]) -> str:
    """How many rows there are of each kind."""
    counted = [row for row in rows if row.is_counted]
    sound = [row for row in counted if row.is_sound]
    chosen = [row for row in sound if row.recovery is not Recovery.NONE]
    apart = [row for row in counted if row.mixed_ns and row.recovery is Recovery.NONE]
    longest_s = max((row.mixed_ns for row in chosen), default=0) / NS_PER_S
    apart_s = max((row.mixed_ns for row in apart), default=0) / NS_PER_S
    of_them = f", for {apart_s:.1f} s at most" if apart else ""
    return (
        f"{len(rows)} rows, {len(rows) - len(counted)} of them not counted: the RPC was not "
        f"reached, or the machine too slow. In {sum(row.has_committed for row in counted)} the "
        f"rollout reached the commit; in {sum(row.struck_took_it for row in counted)} the struck "
        f"switch took it, in {sum(row.struck_refused_it for row in counted)} it refused it as too "
        f"late. {sum(row.outcome == Side.OLD for row in sound)} ended on the old "
        f"schedule, {sum(row.outcome == Side.NEW for row in sound)} on the new one, "
        f"{len(counted) - len(sound)} are not sound. Without an operator's decision to wait for, "
        f"gates of both were in force in {len(apart)}{of_them}. In {len(chosen)} an operator had "
        f"to choose; until then gates of both were in force in "
        f"{sum(row.mixed_ns > 0 for row in chosen)}, for {longest_s:.1f} s at most."
    )


def to_markdown(rows: Sequence[LateRow]) -> str:
    """A table with a line for each RPC and way, and a column for each moment."""
    cells = {(row.step, row.way, row.moment): cell(row) for row in rows}
    lines = [f"| RPC | held | {' | '.join(Moment)} |", f"|---|---|{'---|' * len(Moment)}"]
    for step, way in dict.fromkeys((row.step, row.way) for row in rows):
        found = " | ".join(cells.get((step, way, moment), "") for moment in Moment)
        lines.append(f"| {step.removeprefix('cnc: before ')} | {way} | {found} |")
    return "\n".join(lines) + "\n"


def cell(row: LateRow) -> str:
    """What came of it."""
    if not row.has_held:
        return "**not reached**"
    if not row.is_in_time:
        return "**too slow**"
    notes = [] if row.recovery is Recovery.NONE else [f"`--{row.recovery}`"]
    if row.mixed_ns:
        notes.append(f"mixed for {row.mixed_ns / NS_PER_S:.1f} s")
    if not row.is_at_rest:
        notes.append("not at rest")
    if row.rollout_ids != 1 and not row.is_one:
        notes.append(f"{row.rollout_ids} rollout ids")
    ended = row.outcome
    if ended == "mixed":
        ended = f"MIXED: {row.ports_on_old} old, {row.ports_on_new} new"
    said = ", ".join([ended, *notes])
    return said if row.is_one else f"**{said}**"
