"""What `cnc` does, as functions: load, limit, plan, judge, push, status, doctor.

The commands, services and notebooks call these. Nothing here parses a command line or prints, and
every refusal is a `CncError` with a hint. `import cnc` offers the names of docs/reference/api.md.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from cnc.errors import InputError, PlanRejected, Unschedulable
from cnc.mechanisms.exceeded import exceeded
from cnc.model import Intent, Plan
from cnc.support.format import counted, duration
from cnc.support.lazy import lazy_import

if TYPE_CHECKING:
    from cnc import check, planner, rollout
    from cnc import intent as intents
    from cnc.captures import planned, verdict
    from cnc.captures.verdict import Verification
    from cnc.check import Judgement, Violation
    from cnc.mechanism import Exceeded
    from cnc.mechanisms import registry
    from cnc.planner import Move, what_if
    from cnc.plans import file as planfile
    from cnc.plans import transition
    from cnc.rollout import Finding, History, Rollout
    from cnc.switch import ConnectOptions
else:
    check = lazy_import("cnc.check")
    intents = lazy_import("cnc.intent")
    planned = lazy_import("cnc.captures.planned")
    verdict = lazy_import("cnc.captures.verdict")
    planfile = lazy_import("cnc.plans.file")
    planner = lazy_import("cnc.planner")
    what_if = lazy_import("cnc.planner.what_if")
    registry = lazy_import("cnc.mechanisms.registry")
    rollout = lazy_import("cnc.rollout")
    transition = lazy_import("cnc.plans.transition")

SearchListener: TypeAlias = "Callable[[planner.Progress], None]"

DEFAULT_ALGORITHM = "auto"
DEFAULT_EXECUTOR = "local"
DEFAULT_SEED = 1


class Search(NamedTuple):
    """A plan, and whether Ctrl-C ended the search for it: then it is the best one so far."""

    plan: Plan
    is_interrupted: bool


class Diagnosis(NamedTuple):
    """What stands in the way of a push. `no_plan` is why the intent has no plan, None if it has."""

    findings: list[Finding]
    no_plan: str | None

    @property
    def has_failures(self) -> bool:
        """Whether a push would be refused."""
        return any(finding.verdict == "failed" for finding in self.findings)


# --- load ----------------------------------------------------------------------------------------


def intent_of(document: Plan | Intent) -> Intent:
    """The intent that a file is, or that its plan is for."""
    return document.intent if isinstance(document, Plan) else document


def is_plan(file: Path) -> bool:
    """Whether a file holds a plan (JSON), by its name; else it holds an intent (YAML)."""
    return file.suffix == ".json"


def load_intent(file: Path, *, best_effort: bool = False) -> Intent:
    """The intent file (YAML). Raises InputError with a line for each problem in it; with
    `best_effort`, as for `plan`, streams that the network cannot carry at all are none."""
    return intents.load(file, best_effort=best_effort)


def load_plan(file: Path) -> Plan:
    """The plan file (JSON), as it is: `judge` says whether it is sound. Raises InputError."""
    return planfile.load(file)


def dump_plan(plan: Plan, file: Path | None = None) -> str:
    """A plan as the text of a plan file, written to `file` where one is named."""
    return planfile.dump(plan, file)


def load(file: Path) -> Plan | Intent:
    """What a file holds, see `is_plan`. Raises InputError."""
    return load_plan(file) if is_plan(file) else load_intent(file)


def network_of(document: Plan | Intent) -> str:
    """The name of the network, by which the history knows it."""
    return document.intent.name if isinstance(document, Plan) else document.name


def load_running_plan(file: Path) -> Plan:
    """The plan of a file to plan around. Raises InputError, and what `sound_running` does."""
    return sound_running(load_plan(file), f"the running plan {file}")


def sound_running(running: Plan, what: str) -> Plan:
    """A plan to plan around. Raises PlanRejected: nothing can be promised around one that breaks
    its own promises."""
    check.require_sound(running, what, hint="plan without --keep")
    return running


def plan_of(document: Plan | Intent, *, listener: SearchListener | None = None) -> Plan:
    """A plan as it is; of an intent the plan with every stream. Raises what `plan` does."""
    return document if isinstance(document, Plan) else plan(document, listener=listener)


def plan_to_push(
    document: Plan | Intent,
    *,
    connect: ConnectOptions,
    running: Plan | None = None,
    addressed: Plan | None = None,
    force_margin: bool = False,
    listener: SearchListener | None = None,
) -> Plan:
    """A plan as it is; of an intent one within the limits that its switches report.

    The streams of `running` that have not changed stay where they are, unless nothing can be
    promised around it: it was made for another clock error, gate margin, frame overhead or control
    classes, or the judge refuses it. In a bridged network the streams of `addressed`, by default
    `running`, keep their addresses in any case. With `force_margin` a gate margin that the intent
    states holds whatever switches have measured. Not judged yet: `push` does. Raises RolloutError
    when a switch does not report its limits, Unschedulable when a stream has no place.
    """
    if isinstance(document, Plan):
        return document
    intent = limit(document, connect=connect, running=running, force_margin=force_margin)
    return _complete(_around(intent, running, listener, addressed=addressed))


def plan_to_compare(
    document: Plan | Intent,
    *,
    connect: ConnectOptions,
    running: Plan | None = None,
    listener: SearchListener | None = None,
) -> Plan:
    """What the switches are to run: a plan as it is; of an intent that was pushed the plan that
    runs, else one as a push would plan it.

    A switch that does not answer limits nothing here: the comparison reports it with its ports.
    Raises Unschedulable when a stream has no place, InputError when the clock error is to be
    measured and was not.
    """
    if isinstance(document, Plan):
        return document
    if running and is_pushed(document, running):
        return running
    intent = limit(document, connect=connect, running=running, partial=True)
    searched = _around(intent, running, listener)
    return _sound_and_complete(searched)


def pushed_or_planned(document: Plan | Intent, running: Plan | None) -> Plan:
    """A plan as it is; of an intent that was pushed the plan that runs, else one from scratch.
    Raises what `plan` does."""
    if isinstance(document, Intent) and running and is_pushed(document, running):
        return running
    return plan_of(document)


def other_than_deployed(history: History, document: Plan | Intent) -> Rollout | None:
    """The newest completed rollout of the network of a plan, where it deployed another one."""
    if isinstance(document, Intent):
        return None
    name, done = document.intent.name, rollout.Phase.DONE
    newest = history.rollouts(name, phase=done, with_plan=True, limit=1)
    return next((each for each in newest if history.plan_of(each.number) != document), None)


def plan_beside(document: Plan | Intent, running: Plan) -> Plan:
    """A plan as it is; of an intent the plan that a push would make in place of `running`, were the
    figures that switches state and measure those of then. Raises what `plan` does."""
    if isinstance(document, Plan):
        return document
    return _sound_and_complete(_around(with_figures_of(document, running.intent), running, None))


def with_figures_of(intent: Intent, then: Intent) -> Intent:
    """The intent with the figures that switches stated and measured for the one of `then`."""
    ports = intent.network.links
    limits = {port: its for port, its in then.stated_limits.items() if port in ports}
    intent = intent.within(limits)
    for each in registry.MEASURED:
        intent = each.kept(intent, then)
    return intent


def is_pushed(intent: Intent, running: Plan) -> bool:
    """Whether the plan that runs was made for this intent, whatever was measured since then."""
    return intent.document == running.intent.document


def exceeded_figures(
    document: Plan | Intent,
    running: Plan | None,
    *,
    connect: ConnectOptions,
    listener: SearchListener | None = None,
) -> list[Exceeded]:
    """The figures of the plan that runs which switches and talkers have exceeded since, and what a
    push would do about it; none where the document is not the intent that was pushed.

    A switch that does not answer has exceeded nothing.
    """
    if isinstance(document, Plan) or running is None or not is_pushed(document, running):
        return []
    stated = rollout.read_ports(document.network, connect=connect, partial=True)
    now = _with_measured(document, stated, running)
    found = list(exceeded(running.intent, now, stated))
    if not any(each.planned_ns for each in found):
        return found
    try:
        return _with_remedy(found, running, _sound_and_complete(_around(now, running, listener)))
    except (Unschedulable, InputError):
        return _with_remedy(found, running, None)


def _with_remedy(found: Iterable[Exceeded], running: Plan, pushed: Plan | None) -> list[Exceeded]:
    """Exceeded figures with what a push of the intent brings, which plans with what is measured;
    None: it has no plan."""

    def remedy(planned_ns: int) -> str:
        if pushed is None:
            return (
                f"`cnc push` would plan with {duration(planned_ns)} and is refused: `cnc doctor` "
                "says why"
            )
        moved = counted(len(moves(running, pushed)), "stream")
        return f"`cnc push` plans with {duration(planned_ns)}, which moves {moved}"

    return [
        each if each.planned_ns is None else each._replace(hint=remedy(each.planned_ns))
        for each in found
    ]


def _around(
    intent: Intent,
    running: Plan | None,
    listener: SearchListener | None,
    *,
    addressed: Plan | None = None,
) -> Search:
    addressed = addressed or running
    if running and (planner.other_foundation(intent, running) or judge(running)):
        running = None
    try:
        return search(intent, keep=running, addressed=addressed, listener=listener)
    except Unschedulable as error:
        if running is None:
            raise
        hint = (
            "change what the reasons name, remove a stream, or allow the streams that run to "
            "move: cnc push --reoptimise"
        )
        raise Unschedulable(
            error.reasons, hint=hint, summary=error.summary, lacks=error.lacks
        ) from None


# --- plan ----------------------------------------------------------------------------------------


def limit(
    intent: Intent,
    *,
    connect: ConnectOptions,
    running: Plan | None = None,
    partial: bool = False,
    force_margin: bool = False,
) -> Intent:
    """The intent on ports as limited as their switches report (802.1Q 12.29.1).

    Where it states no gate margin it gets the one that the switches measured, where it states no
    lateness of talkers what these measured, and where it leaves the clock error to the clocks what
    they did; those of the `running` plan stay while they are enough. Raises RolloutError when a
    switch, or an end station that is managed, does not answer, and InputError when the measurements
    refute what the intent states, or are missing; with `partial` neither, and with `force_margin`
    none for the gate margin.
    """
    stated = rollout.read_ports(intent.network, connect=connect, partial=partial)
    measured = _with_measured(intent, stated, running)
    if not partial:
        _refuse_refuted(measured, stated, {rollout.Check.MARGIN} if force_margin else set())
        _require_measured(intent, stated)
    return measured


def _with_measured(intent: Intent, stated: rollout.StatedPorts, running: Plan | None) -> Intent:
    found = intent.within(stated.limits)
    for each in registry.MEASURED:
        found = each.taken(found, stated, running)
    return found


def _refuse_refuted(
    intent: Intent, stated: rollout.StatedPorts, accepted: Collection[rollout.Check]
) -> None:
    for each in registry.MEASURED:
        if each.check not in accepted:
            each.refuse(intent, stated)


def _require_measured(intent: Intent, stated: rollout.StatedPorts | None) -> None:
    for each in registry.MEASURED:
        each.require(intent, stated)


def search(
    intent: Intent,
    *,
    algorithm: str = DEFAULT_ALGORITHM,
    keep: Plan | None = None,
    addressed: Plan | None = None,
    best_effort: bool = False,
    executor: str = DEFAULT_EXECUTOR,
    seed: int = DEFAULT_SEED,
    listener: SearchListener | None = None,
) -> Search:
    """A plan that no judge has seen; on Ctrl-C the best so far, which may leave streams out.

    The arguments are as in `plan`. In a bridged network the streams of the plan `addressed`, by
    default `keep`, keep their addresses. `listener` is called with how far the search has come.
    Raises InputError where the clock error is to be measured and was not.
    """
    _require_measured(intent, None)
    with planner.open_executor(executor) as opened, _noted_interrupt() as interrupt:
        found = planner.plan(
            intent,
            algorithm=algorithm,
            keep=keep,
            addressed=addressed,
            best_effort=best_effort,
            seed=seed,
            executor=opened,
            budget=planner.Budget(watch=listener or _ignore),
        )
        return Search(found, interrupt.is_set())


def plan(
    intent: Intent,
    *,
    algorithm: str = DEFAULT_ALGORITHM,
    keep: Plan | None = None,
    best_effort: bool = False,
    executor: str = DEFAULT_EXECUTOR,
    seed: int = DEFAULT_SEED,
    listener: SearchListener | None = None,
) -> Plan:
    """A sound plan for an intent; with every stream, unless `best_effort`.

    `algorithm` and `executor` are those of `cnc plan --help`. The streams of the plan `keep` that
    have not changed stay where they are. The same arguments give the same plan.

    Raises Unschedulable when a stream has no place, PlanRejected when the judge refuses the plan (a
    defect of the planner), KeyboardInterrupt when Ctrl-C ends the search.
    """
    searched = search(
        intent,
        algorithm=algorithm,
        keep=keep,
        best_effort=best_effort,
        executor=executor,
        seed=seed,
        listener=listener,
    )
    return _sound_and_complete(searched)


def sound(searched: Search) -> Judgement:
    """The judgement on the plan of a search. Raises PlanRejected when the judge refuses it."""
    hint = "this is a defect of the planner; please report it with the intent file"
    if searched.is_interrupted:
        hint = "the search was interrupted before the plan was sound; let it finish"
    return check.require_sound(searched.plan, hint=hint)


def bound_of(plan: Plan, stream: str) -> what_if.Bound:
    """What the latency bound of a stream with a place is made of."""
    return what_if.bound_of(plan, stream)


def changes_for(plan: Plan, stream: str) -> list[what_if.Change]:
    """With which single changes a stream that a plan refuses has a place beside the others, nearest
    to what is asked first; each was tried by the planner, which takes as long as so many plans."""

    def place(intent: Intent, keep: Plan | None) -> Plan:
        return planner.plan(intent, keep=keep, best_effort=True)

    return what_if.changes(plan, stream, place)


def judge(plan: Plan) -> list[Violation]:
    """Every promise that a plan breaks; an empty list is the verdict "sound"."""
    return check.judge(plan)


def judgement(plan: Plan) -> Judgement:
    """The same with what `cnc.check.unbounded` and a push of this plan need of it."""
    return check.judgement(plan)


def verification(plan: Plan, *, tolerance_ns: int = 0) -> Verification:
    """What frames of captures are verified by, one after the other. Raises PlanRejected."""
    judged = check.require_sound(plan, hint="plan again: `cnc plan`")
    return verdict.Verification(planned.Planned(plan, judged.transmissions), tolerance_ns)


def _sound_and_complete(searched: Search) -> Plan:
    _complete(searched)
    return sound(searched).plan


def _complete(searched: Search) -> Plan:
    if searched.is_interrupted:
        raise KeyboardInterrupt
    return searched.plan


def _ignore(_progress: planner.Progress) -> None:
    """The listener of a search that nothing watches."""


@contextmanager
def _noted_interrupt() -> Iterator[Event]:
    """Set on Ctrl-C: whether a search was cut short does not show in a plan that is complete, or
    that was allowed to leave streams out. Only the main thread can note it."""
    noted = Event()
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not callable(before):  # ignored: a shell does that for background jobs
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


# --- switches ------------------------------------------------------------------------------------


def open_history(state_dir: Path) -> History:
    """The history of rollouts in a directory; both are made if they are not there. Raises
    InputError for the directory of a service that has it in a database."""
    if (state_dir / rollout.DATABASE).exists():
        raise InputError(
            f"{state_dir}: the history of this service is in a database",
            hint="ask the service: `cnc --controller URL`, or `cnc.service.client`",
        )
    return rollout.History(state_dir / rollout.FILE_NAME)


def doctor(
    document: Plan | Intent,
    *,
    connect: ConnectOptions,
    running: Plan | None = None,
    listener: SearchListener | None = None,
) -> Diagnosis:
    """Ask every switch of a plan or an intent whether a push would go through; change nothing.

    An intent is planned as `plan_to_push` does. If that fails, which is a failed check, the
    switches are examined all the same.
    """
    if isinstance(document, Plan):
        visits = rollout.visit(document.intent, connect=connect)
        return Diagnosis([_judged(document), *rollout.diagnose(document, visits)], None)
    visits = rollout.visit(document, connect=connect)
    stated = rollout.stated(document.network, rollout.states(visits))
    intent = _with_measured(document, stated, running)
    plan, found = None, _finding(rollout.Verdict.OK, "every stream has a place")
    try:
        _require_measured(intent, stated)
        plan = _sound_and_complete(_around(intent, running, listener))
        # Of the gate margin each port has a finding of its own.
        _refuse_refuted(intent, stated, {rollout.Check.MARGIN})
    except (Unschedulable, InputError) as error:
        found = _finding(rollout.Verdict.FAILED, str(error), error.hint)
    grown: list[Exceeded] = []
    if running and is_pushed(document, running):
        measured = exceeded(running.intent, intent, stated)
        grown = _with_remedy((each for each in measured if each.planned_ns), running, plan)
    examined = plan or Plan(intent, {}, {}, algorithm="none")
    findings = [
        found,
        *(_finding(rollout.Verdict.WARNING, each.text, each.hint) for each in grown),
        *rollout.diagnose(examined, visits),
    ]
    return Diagnosis(findings, None if plan else found.text)


def _judged(plan: Plan) -> Finding:
    """Whether a push takes the plan of a file."""
    try:
        check.require_sound(plan, hint="plan the intent again with `cnc plan`")
    except PlanRejected as error:
        return _finding(rollout.Verdict.FAILED, str(error), error.hint)
    return _finding(rollout.Verdict.OK, "sound")


def _finding(verdict: rollout.Verdict, text: str, hint: str | None = None) -> Finding:
    """About the plan that a push would deploy."""
    return rollout.Finding(None, None, rollout.Check.PLAN, verdict, text, hint)


def running_plan(history: History, document: Plan | Intent) -> Plan | None:
    """The plan of the newest completed rollout of a network; None where the history has none."""
    return history.running_plan(network_of(document))


def newest_plan_with(history: History, stream: str) -> Plan:
    """The plan of the newest completed rollout that has a stream of this name.

    Raises InputError if none has.
    """
    for each in history.rollouts(phase=rollout.Phase.DONE):
        plan = history.plan_of(each.number)
        if plan and stream in plan.intent.streams:
            return plan
    raise InputError(
        f"no completed rollout has a stream {stream}",
        hint="name the plan or the intent that has it: cnc path STREAM FILE",
    )


def moves(running: Plan | None, plan: Plan) -> list[Move]:
    """The streams whose talkers have to learn another offset, way or class, and why."""
    return planner.moves(running, plan) if running else []


def exposed(running: Plan | None, plan: Plan) -> Mapping[str, str]:
    """The streams of a bridged network of which frames may be lost between the commit of a push and
    its base time, and why."""
    return transition.transition(running, plan).exposed


def former_rollout(history: History, number: int | None = None) -> Rollout:
    """The rollout with a number; without one, the last but one of the network changed last.

    Raises InputError when the history has none.
    """
    if number is not None:
        return history.rollout(number)
    done = rollout.Phase.DONE
    last = history.rollouts(phase=done, limit=1, with_plan=True)
    network = last[0].network if last else None
    of_network = history.rollouts(network, phase=done, limit=2, with_plan=True) if last else []
    if len(of_network) < 2:  # noqa: PLR2004  the last, and the one before
        raise InputError(
            "the history has no rollout before the last one", hint="`cnc history` lists them all"
        )
    return of_network[1]


def plan_of_rollout(history: History, number: int) -> Plan:
    """The plan that a rollout deployed. Raises InputError if it was made without one."""
    deployed = history.plan_of(number)
    if deployed is None:
        raise InputError(
            f"rollout {number} was made without a plan: {history.rollout(number).what}",
            hint="choose another one of `cnc history`",
        )
    return deployed
