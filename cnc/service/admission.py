"""The plan that is decided, and the one way to change it: place, judge, take or leave as it was.

Every other stream stays where it is. What has no place is refused with port and reason, and then
nothing has changed. Whatever is asked for comes here: streams of CUCs, and those that the intent
file has got since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from cnc.check import judge
from cnc.errors import InputError, Unschedulable
from cnc.intent.beside import Beside
from cnc.model import Intent, Plan
from cnc.planner import Changes, Live
from cnc.service.refused import CallRefused, Code

# 802.1Q-2022 table 46-15.
_INSUFFICIENT_BANDWIDTH = 1
_FEATURE_NOT_SUPPORTED = 25


Keys = Mapping[str, Mapping[str, Any]]  # by stream, as an intent file has them
Narrow = Callable[[Plan, int], Keys]


@dataclass(frozen=True, slots=True)
class Change:
    """The plan after a change, the one before it, and the streams and ports that may differ."""

    before: Plan
    plan: Plan
    touched: frozenset[Hashable]


class Admission:
    """The decided plan of a network, ready for changes. One thread at a time."""

    def __init__(self, plan: Plan) -> None:
        """Raises InputError for a plan that cannot be changed stream by stream."""
        self.plan = plan
        self._live = live(plan)
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
        has_moved = [False]
        try:
            change = self._changed(wanted, gone, source, narrow, has_moved)
            yield change
        except BaseException:
            # A removal gives room to what stays, so that to add again is no way back.
            if has_moved[0]:
                self._live = live(self.plan)
            raise
        self.plan = change.plan

    def _changed(
        self,
        wanted: Keys,
        gone: Collection[str],
        source: str,
        narrow: Narrow,
        has_moved: list[bool],
    ) -> Change:
        """The change; `has_moved` is set once the timetable is another one."""
        before = self.plan
        gone = [name for name in (*gone, *wanted) if name in before.intent.streams]
        intent = self._beside.without(before.intent, gone) if gone else before.intent
        intent = self._having(intent, wanted, source)
        if intent.parts != before.intent.parts:
            founded = replace(before.intent, parts=intent.parts)
            self._live, has_moved[0] = live(replace(before, intent=founded)), True
        changes = Changes({}, {})
        try:
            if gone:
                changes, has_moved[0] = self._live.remove(gone), True
            if wanted:
                added = self._live.add([intent.streams[name] for name in wanted])
                changes, has_moved[0] = _both(changes, added), True
            plan, tried = applied(before, intent, changes, gone), 1
            while narrower := narrow(plan, tried):
                intent = self._having(intent, narrower, source)
                changes = _both(changes, self._live.remove(narrower))
                added = self._live.add([intent.streams[name] for name in narrower])
                changes = _both(changes, added)
                plan, tried = applied(before, intent, changes, gone), tried + 1
        except Unschedulable as error:
            raise _no_place(error) from error
        if violations := judged(plan, changes):
            raise _refused_by_judge(violations)
        return Change(before, plan, frozenset((*wanted, *gone, *changes.gates)))

    def _having(self, intent: Intent, wanted: Keys, source: str) -> Intent:
        try:
            return self._beside.having(intent, wanted, source)
        except InputError as error:
            details = {"failure_code": _FEATURE_NOT_SUPPORTED}
            raise CallRefused(Code.INVALID, str(error), hint=error.hint, details=details) from error

    @contextmanager
    def beginning_with(self, plan: Plan) -> Iterator[None]:
        """Another plan for the same network, of which nothing is known yet: it is the decided one
        when the block ends. Raises InputError as `Admission`."""
        begun = Admission(plan)
        yield
        self.plan, self._live, self._beside = plan, begun._live, begun._beside


def live(plan: Plan) -> Live:
    """The timetable of a plan, ready for changes."""
    return Live(plan, without_recovery=True)


def taken(intent: Intent) -> Intent:
    """The intent as single changes can keep it: with no promise of recovery, which each would have
    to renew for all streams."""
    if intent.network.disturbance_ns is None:
        return intent
    defaults = {**intent.document.get("defaults", {}), "recovery": "none"}
    return replace(
        intent,
        network=replace(intent.network, disturbance_ns=None),
        document={**intent.document, "defaults": defaults},
    )


def judged(plan: Plan, _changes: Changes) -> list[str]:
    """What the judge finds in a plan after a change, a line each."""
    return [f"{each.where}: {each.text} ({each.code})" for each in judge(plan)]


def applied(before: Plan, intent: Intent, changes: Changes, gone: Collection[str]) -> Plan:
    """The plan for `intent` that these changes make of the plan before."""

    def without(table: Mapping[str, Any]) -> dict[str, Any]:
        left = dict(table)
        for name in gone:
            left.pop(name, None)
        return left

    gates = {**before.gates, **changes.gates}
    return replace(
        before,
        intent=intent,
        streams={**without(before.streams), **changes.streams},
        gates={port: its for port, its in gates.items() if its is not None},
        addresses={**without(before.addresses), **changes.addresses},
        jitter_ns={**without(before.jitter_ns), **changes.jitter_ns},
        refused=without(before.refused) if before.refused else before.refused,
    )


def _both(first: Changes, then: Changes) -> Changes:
    return Changes(
        {**first.streams, **then.streams},
        {**first.gates, **then.gates},
        {**first.addresses, **then.addresses},
        {**first.jitter_ns, **then.jitter_ns},
    )


def _no_place(error: Unschedulable) -> CallRefused:
    text = "; ".join(f"{name}: {why}" for name, why in error.reasons.items())
    return CallRefused(
        Code.CONFLICT,
        text,
        hint=error.hint or "ask for a longer period, a smaller frame or a longer max-latency",
        details={"failure_code": _INSUFFICIENT_BANDWIDTH, "reasons": error.reasons},
    )


def _refused_by_judge(violations: list[str]) -> CallRefused:
    return CallRefused(
        Code.CONFLICT,
        f"the judge refuses the plan with it: {violations[0]}",
        hint="this is a defect of the planner; please report it with the intent file",
        details={"failure_code": _INSUFFICIENT_BANDWIDTH},
    )
