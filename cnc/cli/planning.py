"""Planning as the commands do it: watched, open to Ctrl-C, and judged before the plan leaves."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

from cnc.cli import progress
from cnc.errors import PlanRejected
from cnc.model import Intent, Plan

if TYPE_CHECKING:
    from cnc.check import Violation

# The planner's own names and defaults, here so that --help need not load it.
ALGORITHMS = {
    "auto": "each of the next three where the one before leaves a stream out; exact if it is small",
    "no-wait": "one stream after the other where it first fits, never waiting in a bridge",
    "waiting": "the same, but a frame may wait at bridges, alone in its queue",
    "ejection": "whoever finds no place takes one, and those in its way move",
    "exact": "all rules at once for a solver (OR-Tools), small networks only; can prove refusals",
}
DEFAULT_ALGORITHM = "auto"
DEFAULT_EXECUTOR = "local"
DEFAULT_SEED = 1


@dataclass(frozen=True, slots=True)
class Request:
    """An intent, and how to plan it: the options of `cnc plan`."""

    intent: Intent
    algorithm: str = DEFAULT_ALGORITHM
    keep: Plan | None = None
    best_effort: bool = False
    executor: str = DEFAULT_EXECUTOR
    seed: int = DEFAULT_SEED


class Planned(NamedTuple):
    """A plan, and whether the operator ended the search for it early."""

    plan: Plan
    interrupted: bool


def unjudged(request: Request) -> Planned:
    """What the planner comes to; on a Ctrl-C its best plan so far, which may leave streams out."""
    from cnc.planner import Budget, Progress, plan  # noqa: PLC0415
    from cnc.planner.executors import open_executor  # noqa: PLC0415

    with (
        progress.live() as say,
        open_executor(request.executor) as executor,
        _noted_interrupt() as interrupt,
    ):

        def watch(now: Progress) -> None:
            say(f"{now.step}: {now.placed:,} of {now.wanted:,} placed")

        computed = plan(
            request.intent,
            algorithm=request.algorithm,
            keep=request.keep,
            best_effort=request.best_effort,
            seed=request.seed,
            executor=executor,
            budget=Budget(watch=watch),
        )
        return Planned(computed, interrupt.is_set())


def judged(request: Request) -> Planned:
    """Plan and judge; a plan the judge refuses is a defect of the planner and never leaves."""
    planned = unjudged(request)
    hint = "this is a defect of the planner; please report it with the intent file"
    if planned.interrupted:
        hint = "its search was interrupted before the plan was sound; let it finish"
    refuse_unsound("the plan", violations_of(planned.plan), hint)
    return planned


def refuse_unsound(what: str, violations: Sequence[Violation], hint: str) -> None:
    """Raise PlanRejected if there are violations."""
    if violations:
        found = "\n".join(f"  {v.code} {v.where}: {v.text}" for v in violations)
        raise PlanRejected(f"the judge refuses {what}:\n{found}", hint=hint)


def violations_of(plan: Plan) -> list[Violation]:
    from cnc.check import judge  # noqa: PLC0415

    return judge(plan)


@contextmanager
def _noted_interrupt() -> Iterator[Event]:
    """Set on Ctrl-C: whether a search was cut short does not show in a plan that is complete, or
    that was allowed to leave streams out."""
    noted = Event()
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):  # ignored: a shell does that for what runs in the background
        yield noted
        return

    def note(number: int, frame: FrameType | None) -> None:
        noted.set()
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)
