"""What a service begins with: the plan that is decided, and the intent file as it is now.

The file gives topology, classes and fixed streams; CUCs' streams are in the store. The stored plan
is loaded and not planned anew. Where the file has changed since, its streams come, go and change as
those of CUCs do, and what else has changed is taken where every stream can stay where it is; else
the service does not start, and says what stands in the way.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cnc import app
from cnc.check import require_sound
from cnc.errors import CncError, InputError
from cnc.intent import from_document
from cnc.model import Intent, Plan
from cnc.planner.live import with_room
from cnc.rollout import History
from cnc.service.admission import Admission, Change, recovery_step_ns
from cnc.service.calls import Role
from cnc.service.store import Asker, Decision, Store
from cnc.switch import ConnectOptions

LOG = logging.getLogger(__name__)

_NAMED_MAX = 8
DEFECT = "this is a defect of the planner; please report it with the intent file"


@dataclass(frozen=True, slots=True)
class FileChange:
    """How an intent file differs from what it was: streams by name, with their keys, and the other
    sections."""

    wanted: Mapping[str, Mapping[str, Any]]
    gone: frozenset[str]
    added: frozenset[str]
    sections: tuple[str, ...]

    @classmethod
    def between(cls, before: Mapping[str, Any], after: Mapping[str, Any]) -> FileChange:
        had, has = before["streams"], after["streams"]
        wanted = {name: keys for name, keys in has.items() if had.get(name) != keys}
        others = sorted((before.keys() | after.keys()) - {"streams"})
        return cls(
            wanted,
            frozenset(had.keys() - has.keys()),
            frozenset(wanted.keys() - had.keys()),
            tuple(key for key in others if before.get(key) != after.get(key)),
        )

    def __bool__(self) -> bool:
        return bool(self.wanted or self.gone or self.sections)

    def __str__(self) -> str:
        changed = self.wanted.keys() - self.added
        parts = [
            *([f"{', '.join(self.sections)} changed"] if self.sections else []),
            *([f"added {_named(self.added)}"] if self.added else []),
            *([f"changed {_named(changed)}"] if changed else []),
            *([f"removed {_named(self.gone)}"] if self.gone else []),
        ]
        return "; ".join(parts)


def begin(file: Path, store: Store, first_plan: Callable[[Intent], Plan]) -> Admission:
    """The decided plan of the network of an intent file, ready for changes.

    Raises CncError where the file cannot be read, belongs to another network than the store, or
    has changed so that a stream would have to move.
    """
    intent = app.load_intent(file)
    plan = store.plan()
    if plan is None:
        return _first(file, intent, store, first_plan(intent))
    if plan.intent.name != intent.name:
        raise InputError(
            f"{file}: the network {intent.name}, and the service in this directory owns "
            f"{plan.intent.name}",
            hint="name another directory with --state-dir",
        )
    admission = Admission(plan)
    if admission.begun and admission.begun.violations:
        first = admission.begun.violations[0]
        LOG.warning(
            "the judge finds wrong with the plan that is stored, so that it refuses what is asked "
            "for: %s: %s (%s)",
            first.where,
            first.text,
            first.code,
        )
    # A file that is as it was at the last start says nothing new, whatever was pushed since.
    if json.loads(store.noted("disk") or store.noted("file") or "{}") != intent.document:
        change = change_to(intent, store)
        if change:
            LOG.warning("%s has changed: %s", file, change)
        asker = _itself(file)
        with taking(
            str(file), intent, change, admission=admission, store=store, asker=asker
        ) as made:
            made.note("disk", json.dumps(intent.document))
    return admission


def former_intent(store: Store) -> str | None:
    """The document of the intent before the one that was taken last; None: there was no other."""
    return store.noted("former")


def change_to(intent: Intent, store: Store) -> FileChange:
    """How an intent differs from the one that was taken last."""
    return FileChange.between(json.loads(store.noted("file") or "{}"), intent.document)


class FirstPlan:
    """How the plan of a network is made that no service has owned before: as a push does it, around
    what runs by the history, within what the switches state."""

    def __init__(self, connect: ConnectOptions, history: History) -> None:
        self._connect, self._history = connect, history

    def __call__(self, intent: Intent) -> Plan:
        running = app.running_plan(self._history, intent)
        return app.plan_to_push(intent, connect=self._connect, running=running)


def _first(file: Path, intent: Intent, store: Store, plan: Plan) -> Admission:
    plan = with_room(plan, recovery_step_ns(plan))
    admission = Admission(plan)
    require_sound(plan, hint=DEFECT, judged=admission.begun)
    with store.deciding(_itself(file), "intent file", intent.name, "placed") as made:
        made.replace_plan(plan)
        made.note("network", intent.name)
        made.note("file", json.dumps(intent.document))
        made.note("disk", json.dumps(intent.document))
    return admission


@dataclass(frozen=True, slots=True)
class Tried:
    """What an intent makes of the plan `before`: an admission of its own, which has it; and the
    streams and ports that may differ, None: any."""

    before: Plan
    admission: Admission
    touched: frozenset[Hashable] | None


def tried(
    source: str, intent: Intent, change: FileChange, *, before: Plan, admission: Admission
) -> Tried:
    """Beside the plan that is decided, so from any thread. Raises CncError as `taking`."""
    _refuse_names(source, change, before)
    if change.sections:
        plan = _around(source, intent, change, before)
        return Tried(before, admission.beside(plan), None)
    beside = admission.beside(before)
    with _changing(source, change, beside) as its:
        return Tried(before, beside, its.touched)


@contextmanager
def taking(
    source: str,
    intent: Intent,
    change: FileChange,
    *,
    admission: Admission,
    store: Store,
    asker: Asker,
    call: str = "intent file",
    has_tried: Tried | None = None,
) -> Iterator[Decision]:
    """The decided plan has what the intent of `source` has got since, when the block ends. Raises
    CncError where that moves a stream, and then all is as before. `has_tried`: what was tried of
    the plan that is decided now."""
    before = admission.plan
    _refuse_names(source, change, before)
    if change.sections and has_tried is None:
        has_tried = tried(source, intent, change, before=before, admission=admission)
    with ExitStack() as stack:
        its = None
        if has_tried:
            stack.enter_context(admission.becoming(has_tried.admission))
            its = has_tried.admission.plan, has_tried.touched
        elif change:
            changed = stack.enter_context(_changing(source, change, admission))
            its = changed.plan, changed.touched
        made = stack.enter_context(store.deciding(asker, call, str(change), "placed"))
        if its:
            plan, touched = its
            if touched is None:
                made.replace_plan(plan)
            else:
                made.take_plan(before, plan, touched)
        if change and (former := store.noted("file")):
            made.note("former", former)
        made.note("file", json.dumps(intent.document))
        yield made


@contextmanager
def _changing(source: str, change: FileChange, admission: Admission) -> Iterator[Change]:
    with ExitStack() as stack:
        try:
            its = stack.enter_context(admission.changing(change.wanted, change.gone, source))
        except CncError as error:
            raise _refused(source, change, error) from error
        yield its


def _refuse_names(source: str, change: FileChange, before: Plan) -> None:
    if taken_names := change.added & before.intent.streams.keys():
        raise InputError(f"{source}: {_named(taken_names)}: a CUC has a stream of that name")


def _around(source: str, intent: Intent, change: FileChange, before: Plan) -> Plan:
    """A plan for the file as it is now, with the streams of CUCs, in which no stream moves."""
    of_file = intent.document["streams"]
    of_cucs = {
        name: keys
        for name, keys in before.intent.document["streams"].items()
        if name not in of_file and name not in change.gone
    }
    try:
        whole = from_document({**intent.document, "streams": {**of_file, **of_cucs}}, source)
        planned = app.plan(app.with_figures_of(whole, before.intent), keep=before)
        plan = with_room(planned, recovery_step_ns(planned))
    except CncError as error:
        raise _refused(source, change, error) from error
    if moves := app.moves(before, plan):
        what = "; ".join(f"{its.stream}: {its.reason}" for its in moves[:_NAMED_MAX])
        raise _refused(source, change, CncError(f"streams would have to move: {what}"))
    return plan


def _refused(source: str, change: FileChange, error: CncError) -> CncError:
    return InputError(
        f"{source}: {change}: the running network cannot take it as it is: {error}",
        hint="keep the intent that runs, or change this one so that every stream can stay where it "
        "is",
    )


def _itself(file: Path) -> Asker:
    return Asker("service", Role.ADMIN, None, str(file))


def _named(names: Iterable[str]) -> str:
    shown = sorted(names)
    more = len(shown) - _NAMED_MAX
    text = ", ".join(shown[:_NAMED_MAX])
    return f"{text} and {more} more" if more > 0 else text
