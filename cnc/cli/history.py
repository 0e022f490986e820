"""history, diff, talkers: the rollouts of this controller, and what plans say."""

from __future__ import annotations

from pathlib import Path

import click

from cnc import app
from cnc.cli import render
from cnc.cli.completion import Files
from cnc.cli.options import JSON, history_option, open_history
from cnc.model import Plan

PLAN = Files(".json")


@click.command()
@click.argument("which", metavar="[NETWORK|NUMBER]", required=False)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Show that many rollouts, the newest; and all that have not ended.",
)
@history_option
@JSON
def history(which: str | None, limit: int, state_dir: Path, as_json: bool) -> None:
    """List the rollouts of this controller or of NETWORK, or show one by its NUMBER."""
    with open_history(state_dir) as kept:
        if which is not None and which.isdecimal():
            render.rollout(kept.rollout(int(which)), as_json=as_json)
            return
        unfinished = [r for r in kept.unfinished() if which in {None, r.network}]
        render.rollouts(unfinished, kept.rollouts(which, limit=limit), as_json=as_json)


@click.command()
@click.argument("before", metavar="A", shell_complete=PLAN.shell_complete)
@click.argument("after", metavar="B", shell_complete=PLAN.shell_complete)
@history_option
@JSON
def diff(before: str, after: str, state_dir: Path, as_json: bool) -> None:
    """Show what changes from A to B, each a plan file or the number of a rollout.

    Lists streams that are added, removed, changed or moved, their bounds, and ports whose gate
    control lists differ.
    """
    from cnc.plandiff import difference  # noqa: PLC0415

    found = difference(_plan(before, state_dir), _plan(after, state_dir))
    render.plan_difference(found, as_json=as_json)


@click.command()
@click.argument("plan", shell_complete=PLAN.shell_complete)
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@history_option
@JSON
def talkers(plan: str, as_csv: bool, state_dir: Path, as_json: bool) -> None:
    """List when each talker of PLAN, a plan file or the number of a rollout, has to send.

    Offsets count from the multiples of the period on TAI. A talker marks its frames with a DSCP of
    their class, or with its priority in a VLAN tag.
    """
    from cnc.talkers import transmissions  # noqa: PLC0415

    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    render.talkers(transmissions(_plan(plan, state_dir)), as_csv=as_csv, as_json=as_json)


def _plan(which: str, state_dir: Path) -> Plan:
    if not which.isdecimal():
        return app.load_plan(Path(which))
    with open_history(state_dir) as history:
        return app.plan_of_rollout(history, int(which))
