"""push, rollback, status: the commands that speak to all switches of a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from cnc import app
from cnc.cli import logs, planning, progress, render
from cnc.cli.commands import judged_to_warn, warn_of
from cnc.cli.options import (
    DOCUMENT,
    FILE,
    FORCE_MARGIN,
    JSON,
    MESSAGE,
    TAKE_OVER,
    WITHOUT_DEADLINE,
    connection,
    history_option,
    load,
    open_history,
)
from cnc.cli.terminal import echo
from cnc.errors import CncError, InputError, PlanRejected, RolloutError, Unschedulable
from cnc.support.format import counted
from cnc.support.lazy import lazy_import

if TYPE_CHECKING:
    from cnc import rollout
    from cnc.model import Plan
    from cnc.planner import Move
    from cnc.plans import difference as plandiff
    from cnc.plans.difference import PlanDifference
    from cnc.rollout import Finding, Report
    from cnc.rollout.history import History, Rollout
    from cnc.switch import ConnectOptions
else:
    plandiff = lazy_import("cnc.plans.difference")
    rollout = lazy_import("cnc.rollout")

_REFUSAL_LINES = 40  # in the history


@click.command()
@click.argument("file", type=FILE, required=False)
@click.option("--dry-run", is_flag=True, help="Show what would change per switch; send nothing.")
@click.option(
    "--resume",
    is_flag=True,
    help="Complete a rollout that was not confirmed everywhere.",
)
@click.option(
    "--rollback", is_flag=True, help="Roll back a rollout that was not confirmed everywhere."
)
@click.option(
    "--reoptimise",
    is_flag=True,
    help="Plan an intent from scratch: every stream may move.",
)
@MESSAGE
@FORCE_MARGIN
@TAKE_OVER
@WITHOUT_DEADLINE
@connection
@history_option
@JSON
def push(  # noqa: PLR0917  one parameter an option
    file: Path | None,
    dry_run: bool,
    resume: bool,
    rollback: bool,
    reoptimise: bool,
    message: str | None,
    force_margin: bool,
    take_over: bool,
    without_deadline: bool,
    connect: ConnectOptions,
    state_dir: Path,
    as_json: bool,
) -> None:
    """Deploy FILE, a plan or an intent, to all its switches, or to none.

    Ports that already run their gate control list are not changed. Warnings of `cnc doctor` are
    printed before anything is sent. An intent is planned first, within the limits that the
    switches report; a plan beyond them is refused. Streams that the last rollout placed stay where
    they are if nothing they rest on has changed; those that move are listed, since their talkers
    need the new offset. Where streams of a bridged network are rerouted, this waits until their
    last frames on the previous paths have arrived, and removes these paths.

    A rollout that was interrupted while the switches confirmed it has to be resolved before the
    next: --resume or --rollback, of the network of FILE if one is given.
    """
    if resume or rollback:
        if (resume and rollback) or dry_run or reoptimise or force_margin or message:
            raise click.UsageError(
                "--resume and --rollback exclude each other, and --dry-run, --reoptimise, "
                "--force-margin and --message"
            )
        network = app.network_of(app.load(file)) if file else None
        with open_history(state_dir) as history, progress.steps() as say:
            resolve = rollout.resume if resume else rollout.roll_back
            report = resolve(
                network=network,
                connect=connect,
                history=history,
                take_over=take_over,
                without_deadline=without_deadline,
                listener=say,
            )
        render.push(report, [], dry_run=False, as_json=as_json)
        return
    if file is None:
        raise click.UsageError("FILE is missing: a plan or an intent")
    document = app.load(file)
    action = f"push {file.name}"
    with (
        open_history(state_dir) as history,
        _noting_refusal(history, app.network_of(document), action, message, dry_run=dry_run),
    ):
        running = app.running_plan(history, document)
        with planning.shown_search() as listener:
            plan = app.plan_to_push(
                document,
                connect=connect,
                running=None if reoptimise else running,
                addressed=running,
                force_margin=force_margin,
                listener=listener,
            )
        judged = judged_to_warn(plan, as_json=as_json)
        if not as_json:
            warn_of(plan, judged)
        ahead = _ahead(running, plan, dry_run=dry_run, as_json=as_json)
        warnings: list[Finding] = []
        with progress.steps() as say:
            report = rollout.push(
                plan,
                connect=connect,
                history=history,
                dry_run=dry_run,
                take_over=take_over,
                without_deadline=without_deadline,
                what=_what(action, plan, ahead.change, message),
                force_margin=force_margin,
                listener=say,
                warn=_noting(warnings, as_json=as_json),
                judged=judged,
            )
    _done(report, ahead, warnings, dry_run=dry_run, as_json=as_json)
    if not as_json:
        render.refused(plan)
    _report_left(report)


@click.command()
@click.argument("number", type=click.IntRange(min=1), required=False)
@click.option("--dry-run", is_flag=True, help="Show what would change per switch; send nothing.")
@MESSAGE
@FORCE_MARGIN
@TAKE_OVER
@WITHOUT_DEADLINE
@connection
@history_option
@JSON
def rollback(  # noqa: PLR0917  one parameter an option
    number: int | None,
    dry_run: bool,
    message: str | None,
    force_margin: bool,
    take_over: bool,
    without_deadline: bool,
    connect: ConnectOptions,
    state_dir: Path,
    as_json: bool,
) -> None:
    """Deploy the plan of rollout NUMBER of `cnc history` again.

    Without a number: the plan before the last one. This is an ordinary rollout with a new number.
    """
    warnings: list[Finding] = []
    with open_history(state_dir) as history, progress.steps() as say:
        chosen = app.former_rollout(history, number)
        plan = app.plan_of_rollout(history, chosen.number)
        running = app.running_plan(history, plan)
        if not as_json:
            echo(f"to rollout {chosen.number} of {chosen.network}: {chosen.what}")
        ahead = _ahead(running, plan, dry_run=dry_run, as_json=as_json)
        action = f"back to rollout {chosen.number}"
        with _noting_refusal(history, chosen.network, action, message, dry_run=dry_run):
            report = rollout.push(
                plan,
                connect=connect,
                history=history,
                dry_run=dry_run,
                take_over=take_over,
                without_deadline=without_deadline,
                what=_what(action, plan, ahead.change, message),
                force_margin=force_margin,
                has_run=chosen.phase is rollout.Phase.DONE,
                listener=say,
                warn=_noting(warnings, as_json=as_json),
            )
    _done(report, ahead, warnings, dry_run=dry_run, as_json=as_json)
    _report_left(report)


@click.command()
@click.argument("file", type=DOCUMENT)
@click.option("--problems", is_flag=True, help="Only the ports that are not as planned.")
@click.option("--ports", "all_ports", is_flag=True, help="Each port, also where there are many.")
@connection
@history_option
@JSON
def status(  # noqa: PLR0917  one parameter an option
    file: Path,
    problems: bool,
    all_ports: bool,
    connect: ConnectOptions,
    state_dir: Path,
    as_json: bool,
) -> None:
    """Show the intended, the running and the pending list of every port of FILE.

    Of more than 24 ports a row for each switch is shown, and the ports that are not as planned;
    --ports lists all. The ports of an intent that was pushed are compared with the plan that runs;
    another intent is planned first, as by a push, and without a plan nothing is compared. On the
    error stream: what was measured since the push beyond what the plan allows for, and a rollout
    that was not confirmed everywhere.
    """
    document = load(file, state_dir)
    intent = app.intent_of(document)
    with open_history(state_dir) as history:
        running = app.running_plan(history, document)
        unresolved = rollout.unresolved(intent.network.managed.values(), history)
        left = rollout.left_over(history, intent.name)
        other = app.other_than_deployed(history, document)
    if other:
        render.other_plan(other, file)
    no_plan = None
    with planning.shown_search() as listener:
        try:
            plan = app.plan_to_compare(
                document, connect=connect, running=running, listener=listener
            )
        except (Unschedulable, InputError) as error:
            no_plan = error
            ports = rollout.status_without_plan(intent, connect=connect)
        else:
            ports = rollout.status(plan, connect=connect, left=left)
        exceeded = app.exceeded_figures(document, running, connect=connect, listener=listener)
    render.status(
        ports,
        only_problems=problems,
        as_json=as_json,
        compared=no_plan is None,
        all_ports=all_ports,
    )
    for each in exceeded:
        render.warning(each.text, each.hint)
    _report(unresolved)
    if no_plan:
        raise no_plan
    if unresolved or not all(port.agrees for port in ports):
        raise click.exceptions.Exit(CncError.exit_code)


class _Ahead(NamedTuple):
    """What a push changes for streams; `change` is None where no plan runs."""

    moves: list[Move]
    exposed: Mapping[str, str]
    change: PlanDifference | None


def _ahead(running: Plan | None, plan: Plan, *, dry_run: bool, as_json: bool) -> _Ahead:
    """What is ahead for streams; for people it is shown before anything is sent."""
    change = plandiff.difference(running, plan) if running else None
    ahead = _Ahead(app.moves(running, plan), app.exposed(running, plan), change)
    if not as_json:
        if change:
            render.streams(change)
        render.moves(ahead.moves, dry_run=dry_run)
        render.exposed(ahead.exposed)
    return ahead


def _what(action: str, plan: Plan, change: PlanDifference | None, message: str | None) -> str:
    """What the history has of a rollout: the operator's words, and how many streams come, go and
    are wanted otherwise than in the plan that `change` compares with."""
    streams = change.streams_summary if change else f"+{counted(len(plan.streams), 'stream')}"
    parts = [message, f"({streams})"] if message and streams else [message or streams]
    return f"{action}: {' '.join(parts)}" if any(parts) else action


@contextmanager
def _noting_refusal(
    history: History, network: str, action: str, message: str | None, *, dry_run: bool
) -> Iterator[None]:
    """Have the history say why what was tried was refused before a rollout began."""
    newest = history.newest(network)
    try:
        yield
    except (Unschedulable, PlanRejected, RolloutError) as error:
        with suppress(CncError):  # the refusal is what the operator has to read
            if not dry_run and history.newest(network) == newest:
                history.note_refused(
                    network=network,
                    operator=rollout.this_controller(),
                    what=f"{action}: {message}" if message else action,
                    why=_shortened(str(error)),
                )
        raise


def _shortened(text: str) -> str:
    """Of a refusal of thousands of streams the first."""
    lines = text.splitlines()
    more = [f"  … and {len(lines) - _REFUSAL_LINES} lines more"]
    return "\n".join(lines[:_REFUSAL_LINES] + (more if len(lines) > _REFUSAL_LINES else []))


def _done(
    report: Report, ahead: _Ahead, warnings: Sequence[Finding], *, dry_run: bool, as_json: bool
) -> None:
    render.push(
        report,
        ahead.moves,
        dry_run=dry_run,
        as_json=as_json,
        exposed=ahead.exposed,
        warnings=warnings,
        change=ahead.change,
        all_ports=logs.is_verbose(),
    )


def _noting(warnings: list[Finding], *, as_json: bool) -> Callable[[Sequence[Finding]], None]:
    """Tells an operator at once what a rollout warns of; a program gets it with the result."""

    def warn(found: Sequence[Finding]) -> None:
        warnings.extend(found)
        if not as_json:
            render.findings(found)

    return warn


def _report_left(report: Report) -> None:
    """End with an error where the network runs the plan, and former ways of streams are left."""
    ways = report.former_ways
    if ways and ways.left:
        text = f"the previous paths of {counted(len(ways.streams), 'stream')} are left: {ways.left}"
        render.error(CncError(text, hint=rollout.NEXT_PUSH))
        raise click.exceptions.Exit(CncError.exit_code)


def _report(unresolved: Sequence[Rollout]) -> None:
    for each in unresolved:
        render.error(CncError(rollout.describe(each), hint=rollout.CHOICES))
