"""check, plan, show. Heavy libraries load only in the command that needs them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc import margin
from cnc.cli import planning, render
from cnc.cli.options import FILE, JSON, connect_options, connection
from cnc.cli.terminal import echo
from cnc.errors import CncError, PlanRejected
from cnc.format import counted
from cnc.model import Intent, Plan

if TYPE_CHECKING:
    from cnc.switch import ConnectOptions


@click.command()
@click.argument("file", type=FILE)
@JSON
def check(file: Path, as_json: bool) -> None:
    """Is FILE sound? An intent (YAML) is read and its references followed; a plan (JSON) is judged
    by a checker that shares no code with the planner."""
    if not is_plan(file):
        render.intent(load_intent(file), as_json=as_json)
        return
    from cnc import planfile  # noqa: PLC0415

    plan = planfile.load(file)
    violations = planning.violations_of(plan)
    render.verdict(plan, violations, as_json=as_json)
    if violations:
        raise click.exceptions.Exit(PlanRejected.exit_code)


_ALGORITHM_LINES = "\n".join(f"  {name:9} {what}" for name, what in planning.ALGORITHMS.items())


@click.command(epilog=f"\b\nAlgorithms:\n{_ALGORITHM_LINES}")
@click.argument("file", type=FILE)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the plan here."
)
@click.option(
    "--algorithm",
    type=click.Choice(list(planning.ALGORITHMS)),
    default=planning.DEFAULT_ALGORITHM,
    show_default=True,
    help="How to search; see below.",
)
@click.option(
    "--keep",
    "running_file",
    type=FILE,
    metavar="RUNNING.json",
    help="A plan that runs: streams that have not changed since do not move.",
)
@click.option(
    "--reoptimise", is_flag=True, help="Place all anew, and say who of --keep's plan would move."
)
@click.option("--best-effort", is_flag=True, help="Accept a plan that leaves streams out.")
@click.option(
    "--ask-switches",
    is_flag=True,
    help="Read the limits of each port from its switch, and plan within them and those of FILE.",
)
@click.option(
    "--executor",
    default=planning.DEFAULT_EXECUTOR,
    show_default=True,
    metavar="WHERE",
    help="Where long searches run: local, local:N (processes), dask://HOST:PORT.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=planning.DEFAULT_SEED,
    show_default=True,
    help="Another one may lead a long search to another plan.",
)
@connection
@JSON
def plan(  # noqa: PLR0917  one parameter an option
    file: Path,
    output: Path | None,
    algorithm: str,
    running_file: Path | None,
    reoptimise: bool,
    best_effort: bool,
    ask_switches: bool,
    executor: str,
    seed: int,
    identity: Path,
    known_hosts: Path,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Compute when every frame leaves every port of the intent FILE, and the gates for it.

    The plan is judged before it leaves. Without -o a summary is printed; with --json the plan.
    Ctrl-C ends the search with the best plan so far: if streams are left out, the exit code is 1.
    """
    from cnc import planfile  # noqa: PLC0415

    if reoptimise and not running_file:
        raise click.UsageError("--reoptimise needs --keep RUNNING.json to compare with")
    intent = load_intent(file)
    if ask_switches:
        intent = within_limits(intent, connect_options(identity, known_hosts, timeout_s))
        if not as_json:  # the plan has them
            render.limits(intent.stated_limits)
    running = load_running(running_file) if running_file else None
    keep = None if reoptimise else running
    done = planning.judged(planning.Request(intent, algorithm, keep, best_effort, executor, seed))
    text = planfile.dump(done.plan, output)
    if as_json:
        echo(text, nl=False)
    else:
        render.plan(done.plan, output)
        if running:
            render.difference(running, done.plan, anew=reoptimise)
        warn_of_margin(done.plan)
    if done.interrupted and done.plan.refused:
        raise CncError(
            f"interrupted: the plan is INCOMPLETE, {len(done.plan.refused)} of "
            f"{counted(len(intent.streams), 'stream')} without a place in it",
            hint="plan again and let it finish, or use it only if you can do without them",
        )


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "--svg", type=click.Path(dir_okay=False, path_type=Path), help="Draw the timeline into a file."
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a page to look around in: network, timeline, bounds. It needs no network.",
)
@JSON
def show(file: Path, svg: Path | None, html: Path | None, as_json: bool) -> None:
    """Chart the gates of every port of FILE, a plan or an intent: in the terminal, as a picture,
    or as a page for a browser."""
    from cnc import chart, page, planfile, whole_file  # noqa: PLC0415

    shown = load_plan(file)
    for target, draw in ((svg, chart.svg), (html, page.html)):
        if target:
            whole_file.write(target, draw(shown))
            echo(f"wrote {target}")
    if svg or html:
        return
    if as_json:
        echo(planfile.dump(shown, None), nl=False)
    else:
        render.chart(shown)


def warn_of_margin(plan: Plan) -> None:
    """Tell of ports whose windows a late timer misses."""
    if text := margin.warning(plan):
        render.warning(text, margin.HINT)


def is_plan(file: Path) -> bool:
    return file.suffix == ".json"


def load_intent(file: Path) -> Intent:
    from cnc import intent  # noqa: PLC0415

    return intent.load(file)


def load_plan(file: Path) -> Plan:
    """A plan as it is; or that of an intent, as `planned`."""
    if is_plan(file):
        from cnc import planfile  # noqa: PLC0415

        return planfile.load(file)
    return planned(load_intent(file))


def planned(intent: Intent, *, judged: bool = True) -> Plan:
    """The plan of an intent with every stream and, if `judged`, sound."""
    request = planning.Request(intent)
    done = planning.judged(request) if judged else planning.unjudged(request)
    if done.interrupted:
        raise click.Abort  # who only wanted a plan may keep half of it, not who wanted more
    return done.plan


def plan_to_compare(file: Path, connect: ConnectOptions) -> Plan:
    """What the switches are to run: a plan as it is, an intent as a push of it would plan it.

    Whoever compares tells of a switch that does not answer with its ports: it is left out here.
    """
    if is_plan(file):
        return load_plan(file)
    return planned(within_limits(load_intent(file), connect, partial=True))


def within_limits(intent: Intent, connect: ConnectOptions, *, partial: bool = False) -> Intent:
    """The intent on ports as limited as their switches state; `partial`: those that answer."""
    from cnc import rollout  # noqa: PLC0415

    return intent.within(rollout.discover(intent.network, connect=connect, partial=partial))


def load_running(file: Path) -> Plan:
    """The plan to plan around. Nothing can be promised around one that is not sound."""
    from cnc import planfile  # noqa: PLC0415

    running = planfile.load(file)
    planning.refuse_unsound(
        f"the running plan {file}", planning.violations_of(running), hint="plan without --keep"
    )
    return running
