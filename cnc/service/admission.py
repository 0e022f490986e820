"""The plan that is decided, and the one way to change it: place, judge, take or leave as it was.

Every other stream stays where it is. What has no place is refused with port and reason, and then
nothing has changed. Whatever is asked for comes here: streams of CUCs, and those that the intent
file has got since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from cnc.check import Judgement, Violation, judgement
from cnc.check.change import Judged, Named
from cnc.errors import InputError, Unschedulable
from cnc.intent.beside import Beside
from cnc.model import Intent, Plan, PortRef
from cnc.planner import Live
from cnc.service.failures import Failure, of_problems, of_unschedulable
from cnc.service.refused import CallRefused, Code

_MS_NS = 1_000_000


Keys = Mapping[str, Mapping[str, Any]]  # by stream, as an intent file has them
Narrow = Callable[[Plan, int], Keys]


@dataclass(frozen=True, slots=True)
class Change:
    """The plan after a change, the one before it, and the streams and ports that may differ."""

    before: Plan
    plan: Plan
    touched: frozenset[Hashable]


class Admission:
    """The decided plan of a network, ready for changes. One thread at a time.

    `begun` is the judgement on the plan that it began with, as long as that is the decided one.
    """

    def __init__(self, plan: Plan, step_ns: int | None = None) -> None:
        """`step_ns` is that of recovery, by default the plan's. Raises InputError for a plan that
        cannot be changed stream by stream."""
        self.plan = plan
        self._step_ns = recovery_step_ns(plan) if step_ns is None else step_ns
        self._live = self._timetable(plan)
        self.begun: Judgement | None = judgement(plan)
        self._judged = Judged(plan, self.begun)
        self._beside = Beside(plan.intent)

    @contextmanager
    def changing(
        self,
        wanted: Keys,
        gone: Collection[str],
        source: str,
        narrow: Narrow = lambda _plan, _tried: {},
    ) -> Iterator[Change]:
        """The plan with the streams `wanted`, by name with their keys, and without those that are
        `gone`. It is the decided one when the block ends; if it raises, all is as before.

        `narrow` says of a plan, and how many there were, which of the streams have to be placed
        once more and with which keys: what an intent cannot say of their places.
        Raises CallRefused: INVALID for keys that are none, CONFLICT where there is no place.
        """
        placed = self._live.plan
        try:
            change = self._changed(wanted, gone, source, narrow)
            yield change
        except BaseException:
            # A removal gives room to what stays, so that to add again is no way back.
            if self._live.plan is not placed:
                self._live = self._timetable(self.plan)
            if self._judged.plan is not self.plan:
                self._judged.after(self.plan)
            raise
        self.plan, self.begun = change.plan, None

    def _changed(self, wanted: Keys, gone: Collection[str], source: str, narrow: Narrow) -> Change:
        """The change, which the timetable has made."""
        before = self.plan
        gone = [name for name in (*gone, *wanted) if name in before.intent.streams]
        intent = self._beside.without(before.intent, gone) if gone else before.intent
        intent = self._having(intent, wanted, source)
        if intent.parts != before.intent.parts:
            founded = replace(before.intent, parts=intent.parts)
            self._live = self._timetable(replace(before, intent=founded))
        touched: set[PortRef] = set()
        try:
            if gone:
                touched |= self._removed(gone)
            if wanted:
                touched |= self._added(intent, wanted)
            plan, tried = replace(self._live.plan, intent=intent), 1
            while narrower := narrow(plan, tried):
                intent = self._having(intent, narrower, source)
                touched |= self._removed(narrower) | self._added(intent, narrower)
                plan, tried = replace(self._live.plan, intent=intent), tried + 1
        except Unschedulable as error:
            raise _no_place(error) from error
        names = frozenset((*wanted, *gone))
        if violations := self._judged.after(plan, Named(names, touched)):
            raise _refused_by_judge(violations)
        return Change(before, plan, names | touched)

    def _removed(self, names: Collection[str]) -> AbstractSet[PortRef]:
        return self._live.remove(names).gates.keys()

    def _added(self, intent: Intent, names: Collection[str]) -> AbstractSet[PortRef]:
        return self._live.add([intent.streams[name] for name in names]).gates.keys()

    def _timetable(self, plan: Plan) -> Live:
        return Live(plan, recovery_step_ns=self._step_ns)

    def _having(self, intent: Intent, wanted: Keys, source: str) -> Intent:
        try:
            return self._beside.having(intent, wanted, source)
        except InputError as error:
            details = {"failure_code": of_problems(error)}
            raise CallRefused(Code.INVALID, str(error), hint=error.hint, details=details) from error

    def prepare(self) -> None:
        """As `Live.prepare`. From any thread."""
        self._live.prepare()

    def beside(self, plan: Plan) -> Admission:
        """Another one for a plan of the same network, in which to try what takes long: nothing of
        this one is held up. From any thread. Raises InputError as `Admission`."""
        return Admission(plan, self._step_ns)

    @contextmanager
    def becoming(self, other: Admission) -> Iterator[None]:
        """The plan of another one for the same network is the decided one when the block ends."""
        yield
        self.plan, self.begun = other.plan, other.begun
        self._live, self._judged, self._beside = other._live, other._judged, other._beside


def recovery_step_ns(plan: Plan) -> int:
    """Recovery is promised in multiples of the longest period, so that streams that come have
    room; `cnc plan` tells it in whole cycles, too."""
    return max((its.period_ns for its in plan.intent.streams.values()), default=_MS_NS)


def _no_place(error: Unschedulable) -> CallRefused:
    text = "; ".join(f"{name}: {why}" for name, why in error.reasons.items())
    codes = of_unschedulable(error)
    return CallRefused(
        Code.CONFLICT,
        text,
        hint=error.hint or "ask for a longer period, a smaller frame or a longer max-latency",
        details={
            "failure_code": next(iter(codes.values()), int(Failure.BANDWIDTH)),
            "failure_codes": codes,
            "reasons": error.reasons,
        },
    )


def _refused_by_judge(violations: Sequence[Violation]) -> CallRefused:
    first = violations[0]
    return CallRefused(
        Code.CONFLICT,
        f"the judge refuses the plan with it: {first.where}: {first.text} ({first.code})",
        hint="this is a defect of the planner; please report it with the intent file",
        details={"failure_code": int(Failure.BANDWIDTH)},
    )
