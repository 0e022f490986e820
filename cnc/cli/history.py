"""history, diff, talkers: the rollouts of this controller, and what plans say."""

from __future__ import annotations

from pathlib import Path

import click

from cnc import app
from cnc.cli import render
from cnc.cli.options import DOCUMENT, JSON, history_option, load, open_history
from cnc.cli.terminal import echo


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
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the plan that rollout NUMBER deployed here.",
)
@click.option(
    "--intent", is_flag=True, help="Print the intent that the plan of rollout NUMBER was made for."
)
@history_option
@JSON
def history(  # noqa: PLR0917  one parameter an option
    which: str | None,
    limit: int,
    output: Path | None,
    intent: bool,
    state_dir: Path,
    as_json: bool,
) -> None:
    """List the rollouts of this controller or of NETWORK, or show one by its NUMBER.

    Most commands take the number of a rollout in the place of its plan.
    """
    with open_history(state_dir) as kept:
        if output or intent:
            if which is None or not which.isdecimal():
                raise click.UsageError(
                    f"{'-o' if output else '--intent'} needs the NUMBER of a rollout"
                )
            plan = app.plan_of_rollout(kept, int(which))
            if output:
                app.dump_plan(plan, output)
                echo(f"wrote {output}", err=intent)
            if intent:
                from cnc.intent import source  # noqa: PLC0415

                echo(source.dump(dict(plan.intent.document)), nl=False)
            return
        if which is not None and which.isdecimal():
            render.rollout(kept.rollout(int(which)), as_json=as_json)
            return
        unfinished = [r for r in kept.unfinished() if which in {None, r.network}]
        render.rollouts(unfinished, kept.rollouts(which, limit=limit), as_json=as_json)


@click.command()
@click.argument("before", metavar="A", type=DOCUMENT)
@click.argument("after", metavar="B", type=DOCUMENT)
@history_option
@JSON
def diff(before: Path, after: Path, state_dir: Path, as_json: bool) -> None:
    """Show what changes from A to B, each a plan, an intent or the number of a rollout.

    An intent in place of B is planned as a push would plan it where A runs, and one in place of A
    from scratch. Lists streams that are added, removed, changed or moved, their bounds, and ports
    whose gate control lists differ.
    """
    from cnc.plans.difference import difference  # noqa: PLC0415

    one = app.plan_of(load(before, state_dir))
    found = difference(one, app.plan_beside(load(after, state_dir), one))
    render.plan_difference(found, as_json=as_json)


@click.command()
@click.argument("plan", type=DOCUMENT)
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@history_option
@JSON
def talkers(plan: Path, as_csv: bool, state_dir: Path, as_json: bool) -> None:
    """List when each talker of PLAN, a plan, an intent or the number of a rollout, has to send.

    Of an intent that was pushed that is what the plan that runs says.

    Offsets count from the multiples of the period on TAI. A talker marks its frames with a DSCP of
    their class, or with its priority in a VLAN tag.
    """
    from cnc.model.transmissions import transmissions  # noqa: PLC0415

    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    document = load(plan, state_dir)
    with open_history(state_dir) as history:
        planned = app.pushed_or_planned(document, app.running_plan(history, document))
    render.talkers(transmissions(planned), as_csv=as_csv, as_json=as_json)
