"""push, rollback, status: the commands that speak to all switches of a network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc.cli import progress, render
from cnc.cli.commands import (
    is_plan,
    load_intent,
    load_plan,
    plan_to_compare,
    planned,
    warn_of_margin,
    within_limits,
)
from cnc.cli.options import FILE, JSON, connect_options, connection, history_option, open_history
from cnc.errors import CncError, InputError
from cnc.model import Plan

if TYPE_CHECKING:
    from cnc.rollout.history import History, Rollout

TAKE_OVER = click.option(
    "--take-over", is_flag=True, help="Change also what another controller has brought."
)


@click.command()
@click.argument("file", type=FILE, required=False)
@click.option("--dry-run", is_flag=True, help="Show what would change per switch; send nothing.")
@click.option(
    "--resume",
    is_flag=True,
    help="Bring a rollout that was not confirmed everywhere to all its switches.",
)
@click.option(
    "--rollback", is_flag=True, help="Bring the switches of such a rollout back to what they had."
)
@TAKE_OVER
@connection
@history_option
@JSON
def push(  # noqa: PLR0917  one parameter an option
    file: Path | None,
    dry_run: bool,
    resume: bool,
    rollback: bool,
    take_over: bool,
    identity: Path,
    known_hosts: Path,
    timeout_s: float,
    state_dir: Path,
    as_json: bool,
) -> None:
    """Bring FILE, a plan or an intent, to all its switches as one change, or to none.

    Ports that already run their gate control list are not touched. An intent is planned first,
    within the limits that the switches state of their ports; a plan beyond them is refused.

    A rollout that was interrupted while the switches confirmed it has to be resolved before the
    next: --resume or --rollback, of the network of FILE if one is given.
    """
    from cnc import rollout  # noqa: PLC0415

    connect = connect_options(identity, known_hosts, timeout_s)
    if resume or rollback:
        if (resume and rollback) or dry_run:
            raise click.UsageError("--resume, --rollback and --dry-run exclude each other")
        network = _network_of(file) if file else None
        with open_history(state_dir) as history, progress.steps() as say:
            bring = rollout.resume if resume else rollout.roll_back
            report = bring(
                network=network,
                connect=connect,
                history=history,
                take_over=take_over,
                listener=say,
            )
        render.push(report, dry_run=False, as_json=as_json)
        return
    if file is None:
        raise click.UsageError("FILE is missing: a plan or an intent")
    if is_plan(file):
        wanted = load_plan(file)
    else:  # the rollout judges whatever it is given
        wanted = planned(within_limits(load_intent(file), connect), judged=False)
    if not as_json:
        warn_of_margin(wanted)
    with open_history(state_dir) as history, progress.steps() as say:
        report = rollout.push(
            wanted,
            connect=connect,
            history=history,
            dry_run=dry_run,
            take_over=take_over,
            what=f"push {file.name}",
            listener=say,
        )
    render.push(report, dry_run=dry_run, as_json=as_json)
    if not as_json:
        render.refused(wanted)


@click.command()
@click.argument("number", type=click.IntRange(min=1), required=False)
@click.option("--dry-run", is_flag=True, help="Show what would change per switch; send nothing.")
@TAKE_OVER
@connection
@history_option
@JSON
def rollback(  # noqa: PLR0917  one parameter an option
    number: int | None,
    dry_run: bool,
    take_over: bool,
    identity: Path,
    known_hosts: Path,
    timeout_s: float,
    state_dir: Path,
    as_json: bool,
) -> None:
    """Bring the plan of rollout NUMBER of `cnc history` to the switches again.

    Without a number: the plan before the last one. It is a rollout like any other, with a number of
    its own.
    """
    from cnc import rollout  # noqa: PLC0415

    connect = connect_options(identity, known_hosts, timeout_s)
    with open_history(state_dir) as history, progress.steps() as say:
        chosen = history.rollout(number) if number else _last_but_one(history)
        report = rollout.push(
            _plan_of(chosen, history),
            connect=connect,
            history=history,
            dry_run=dry_run,
            take_over=take_over,
            what=f"back to rollout {chosen.number}",
            listener=say,
        )
    render.push(report, dry_run=dry_run, as_json=as_json)


@click.command()
@click.argument("file", type=FILE)
@connection
@history_option
@JSON
def status(  # noqa: PLR0917  one parameter an option
    file: Path,
    identity: Path,
    known_hosts: Path,
    timeout_s: float,
    state_dir: Path,
    as_json: bool,
) -> None:
    """Show for every port of FILE what is intended, what runs and what is pending.

    An intent is planned first, as a push of it would plan it. A rollout that was not confirmed
    everywhere is told of on the error stream.
    """
    from cnc import rollout  # noqa: PLC0415

    connect = connect_options(identity, known_hosts, timeout_s)
    wanted = plan_to_compare(file, connect)
    with open_history(state_dir) as history:
        unresolved = rollout.unresolved(wanted.intent.network.bridges.values(), history)
    ports = rollout.status(wanted, connect=connect)
    render.status(ports, as_json=as_json)
    _tell(unresolved)
    if unresolved or not all(port.agrees for port in ports):
        raise click.exceptions.Exit(CncError.exit_code)


def _tell(unresolved: Sequence[Rollout]) -> None:
    from cnc.rollout.recovery import describe  # noqa: PLC0415
    from cnc.rollout.transaction import CHOICES  # noqa: PLC0415

    for rollout in unresolved:
        render.error(CncError(describe(rollout), hint=CHOICES))


def _network_of(file: Path) -> str:
    return load_plan(file).intent.name if is_plan(file) else load_intent(file).name


def _last_but_one(history: History) -> Rollout:
    """What the network of the last rollout had before it."""
    from cnc.rollout.history import Phase  # noqa: PLC0415

    last = history.rollouts(phase=Phase.DONE, limit=1)
    of_network = history.rollouts(last[0].network, phase=Phase.DONE, limit=2) if last else []
    if len(of_network) < 2:  # noqa: PLR2004  the last, and the one before
        raise InputError(
            "the history has no rollout before the last one", hint="`cnc history` lists them all"
        )
    return of_network[1]


def _plan_of(rollout: Rollout, history: History) -> Plan:
    plan = history.plan_of(rollout.number)
    if plan is None:
        raise InputError(
            f"rollout {rollout.number} brought no plan of its own: {rollout.what}",
            hint="choose another one of `cnc history`",
        )
    return plan
