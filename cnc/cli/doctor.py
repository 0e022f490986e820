"""`cnc doctor`: is everything there that a push needs?"""

from __future__ import annotations

from pathlib import Path

import click

from cnc.cli import progress, render
from cnc.cli.commands import is_plan, load_intent, load_plan, planned
from cnc.cli.options import FILE, JSON, connect_options, connection
from cnc.errors import CncError, Unschedulable
from cnc.format import counted
from cnc.model import Intent, Plan


@click.command()
@click.argument("file", type=FILE)
@connection
@JSON
def doctor(file: Path, identity: Path, known_hosts: Path, timeout_s: float, as_json: bool) -> None:
    """Ask every switch of FILE, a plan or an intent, whether a push would go through.

    Nothing is changed: each switch's configuration is locked for a moment and let go again. An
    intent is planned as a push would plan it; if that fails, its switches are looked at all the
    same. The exit code is 1 if a check failed; warnings do not count.
    """
    from cnc.rollout import doctor as room  # noqa: PLC0415
    from cnc.rollout.port_limits import stated  # noqa: PLC0415
    from cnc.rollout.preflight import Verdict  # noqa: PLC0415

    plan = load_plan(file) if is_plan(file) else None
    intent = plan.intent if plan else load_intent(file)
    with progress.steps() as say:
        say(f"asking {counted(len(intent.network.bridges), 'switch')}")
        visits = room.visit(intent, connect=connect_options(identity, known_hosts, timeout_s))
    no_plan = None
    if plan is None:
        limits = stated(intent.network, room.states(visits))
        plan, no_plan = _plan_if_possible(intent.within(limits))
    findings = room.diagnose(plan, visits)
    render.diagnosis(intent.name, findings, no_plan=no_plan, as_json=as_json)
    if any(finding.verdict is Verdict.FAILED for finding in findings):
        raise click.exceptions.Exit(CncError.exit_code)


def _plan_if_possible(intent: Intent) -> tuple[Plan, str | None]:
    """The intent's plan; or one without any list, and why there is no better one."""
    try:
        return planned(intent), None
    except Unschedulable as error:
        return Plan(intent, {}, {}, algorithm="none"), str(error)
