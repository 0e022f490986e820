"""Each step with each fault: a rollout for every pair, struck once, and where the network ends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from typing import Self

from agent.kernel import clock
from agent.model import Clock
from cnc.model import Forwarding, Plan
from cnc.testbed.lab.switch import AGENT
from tests.fault import guards, ways
from tests.fault.bench import bench
from tests.fault.kernels import Side, Sides
from tests.fault.network import STRUCK, Subject, two_plans
from tests.fault.table import Fault, Recovery, Row


class Unusable(Exception):
    """The network does not take a rollout that nobody disturbs."""


@dataclass(frozen=True, slots=True)
class Case:
    """A pair of the matrix; `choice` is what the operator says if there is something to choose."""

    number: int
    step: str
    fault: Fault
    choice: Recovery


def cases(steps: Iterable[str]) -> list[Case]:
    """Every step with every fault, half of them with one choice and half with the other."""
    pairs = product(enumerate(steps), enumerate(Fault))
    choices = (Recovery.RESUME, Recovery.ROLLBACK)
    return [
        Case(number, step, fault, choices[(row + column) % len(choices)])
        for number, ((row, step), (column, fault)) in enumerate(pairs, start=1)
    ]


def distinct(steps: Sequence[str]) -> list[str]:
    """Steps in their order, without those that differ from the one before in nothing but time.

    Where an agent only asks its kernel, or has changed something and is about to change something
    else, nothing has happened since the step before that outlives a process, and all others are
    where they were: a fault at this step is a fault at that one. Only steps that follow each other
    directly are taken for one; in between, other processes may have gone on. Of each kind of step
    the first one is there all the same.
    """
    found: list[str] = []
    kinds: set[str] = set()
    before = ""
    for step in steps:
        kind = _VISIT.sub("", step)
        is_same = (_asks(step) and _asks(before)) or (_begins(step) and _has_changed(before))
        if not (is_same and kind in kinds):
            found.append(step)
        kinds.add(kind)
        before = step
    return found


_VISIT = re.compile(r" \(\d+\)$")
_AGENT = f"{AGENT}: "
_ASKS = re.compile(rf"{_AGENT}before netlink (RTM_GET|RTM_NEWACTION|generic|nftables)")


def _asks(step: str) -> bool:
    return bool(_ASKS.match(step))


def _begins(step: str) -> bool:
    """Whether the agent is about to change something."""
    return step.startswith(f"{_AGENT}before ") and not _asks(step)


def _has_changed(step: str) -> bool:
    return step.startswith(f"{_AGENT}after ")


class Walk:
    """Goes through cases on one lab, from `with` to its end; a new lab after a row not sound."""

    def __init__(
        self, subject: Subject = Subject.LINE, *, is_attacked: bool = True, struck: str = STRUCK
    ) -> None:
        self._stack = ExitStack()
        self._subject = subject
        self._is_attacked = is_attacked
        self._struck = struck
        self._sides = Sides(*two_plans(subject))

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def steps(self) -> list[str]:
        """The places that a rollout passes, from either schedule to the other, undisturbed."""
        there = self._undisturbed(self._sides.new)
        back = self._undisturbed(self._sides.old)
        return [step for step in there if step in back]

    def row(self, case: Case) -> Row:
        """Strike a rollout of the schedule that does not run; see what comes of it."""
        self._bench.recorder.begin()
        self._bench.copies.begin()
        before = self._bench.attackers.answers()
        pushed = self._bench.push(self._sides.new, fault=case.fault, step=case.step)
        recovery = self._bench.recover(case.fault, case.choice)
        self._bench.await_rest()
        snapshots = self._bench.recorder.snapshots()
        after = self._bench.attackers.answers()
        ports = list(self._sides.at_rest(snapshots[-1]).values())
        forwarding, guarding = self._sides_of_bridges()
        frames = self._bench.copies.tally()
        return Row(
            number=case.number,
            step=case.step,
            fault=case.fault,
            ports_on_old=ports.count(Side.OLD),
            ports_on_new=ports.count(Side.NEW),
            ports_on_neither=ports.count(Side.NEITHER),
            recovery=recovery,
            controller_exit=pushed.exit_status,
            mixed_ns=self._sides.mixed_ns(snapshots, clock.now_ns(Clock.TAI)),
            attacks=min((after[switch] - before[switch] for switch in before), default=None),
            has_struck=pushed.has_struck,
            forwarding=forwarding,
            strays=len(self._bench.entries.strays(self._sides.old, self._sides.new)),
            guards=guarding,
            frames_sent=frames.sent,
            frames_lost=frames.lost,
            frames_doubled=frames.doubled,
        )

    def _sides_of_bridges(self) -> tuple[Side | None, Side | None]:
        """By whose ways bridges forward, and by whose guards they let frames in and pass on once;
        None in a routed network."""
        old, new = self._sides.old, self._sides.new
        if old.intent.network.forwarding is Forwarding.ROUTED:
            return None, None
        found = ways.states(self._bench.lab)
        return ways.side(self._bench.lab, found, old, new), guards.side(found, old, new)

    def go_on_after(self, row: Row) -> None:
        """Make ready for the next row. What is not sound cannot be gone on from."""
        if not row.is_sound:
            self._stack.close()
            self._begin()
        elif row.outcome == Side.NEW:
            self._sides = Sides(self._sides.new, self._sides.old)

    def logs(self) -> str:
        """What the controllers and the struck switch's programs have said on this lab."""
        return self._bench.logs()

    def _begin(self) -> None:
        self._bench = self._stack.enter_context(
            bench(self._subject, is_attacked=self._is_attacked, struck=self._struck)
        )
        self._sides = Sides(*two_plans(self._subject))
        self._undisturbed(self._sides.old)

    def _undisturbed(self, plan: Plan) -> tuple[str, ...]:
        pushed = self._bench.push(plan)
        if pushed.exit_status != 0:
            raise Unusable(f"a push that nobody disturbed failed:\n{self._bench.logs()}")
        self._bench.await_rest()
        return pushed.steps
