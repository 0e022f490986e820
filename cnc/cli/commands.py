"""check, plan, show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc import app
from cnc.cli import planning, render
from cnc.cli.options import (
    DOCUMENT,
    FILE,
    FORCE_MARGIN,
    JSON,
    connection,
    history_option,
    load,
    quantity,
)
from cnc.cli.terminal import echo
from cnc.errors import CncError, InputError, PlanRejected
from cnc.model import Intent, Plan, PortRef
from cnc.support import whole_file
from cnc.support.format import counted
from cnc.support.lazy import lazy_import

if TYPE_CHECKING:
    from cnc.check import Judgement
    from cnc.mechanisms import registry
    from cnc.switch import ConnectOptions
else:
    registry = lazy_import("cnc.mechanisms.registry")


@click.command()
@click.argument("file", type=DOCUMENT)
@history_option
@JSON
def check(file: Path, state_dir: Path, as_json: bool) -> None:
    """Validate FILE: an intent (YAML), or a plan (JSON), which is verified by a checker that shares
    no code with the planner."""
    loaded = load(file, state_dir)
    if isinstance(loaded, Intent):
        render.intent(loaded, as_json=as_json)
        if not as_json:
            warn_of(Plan(loaded, {}, {}, algorithm="none"), None, is_new=False)
        return
    judged = app.judgement(loaded)
    render.verdict(loaded, judged.violations, as_json=as_json)
    if not as_json:
        warn_of(loaded, judged, is_new=False)
    if judged.violations:
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
    default=app.DEFAULT_ALGORITHM,
    show_default=True,
    help="How to search; see below.",
)
@click.option(
    "--keep",
    "running_file",
    type=DOCUMENT,
    metavar="RUNNING.json",
    help="A plan that runs, or its rollout's number: streams that have not changed since do not "
    "move.",
)
@click.option(
    "--reoptimise",
    is_flag=True,
    help="Plan from scratch, and list the streams of --keep's plan that would move.",
)
@click.option("--best-effort", is_flag=True, help="Accept a plan that leaves streams out.")
@click.option(
    "--explain",
    metavar="STREAM",
    help="Show what the latency bound of STREAM is made of; if it has no place, with which changes "
    "it has one.",
)
@click.option(
    "--ask-switches",
    is_flag=True,
    help="Read the limits of each port from its switch, and how late its gates open; plan within "
    "them and those of FILE.",
)
@FORCE_MARGIN
@click.option(
    "--executor",
    default=app.DEFAULT_EXECUTOR,
    show_default=True,
    metavar="WHERE",
    help="Where long searches run: local, local:N (processes), dask://HOST:PORT.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=app.DEFAULT_SEED,
    show_default=True,
    help="Another one may lead a long search to another plan.",
)
@connection
@history_option
@JSON
def plan(  # noqa: PLR0917  one parameter an option
    file: Path,
    output: Path | None,
    algorithm: str,
    running_file: Path | None,
    reoptimise: bool,
    best_effort: bool,
    explain: str | None,
    ask_switches: bool,
    force_margin: bool,
    executor: str,
    seed: int,
    connect: ConnectOptions,
    state_dir: Path,
    as_json: bool,
) -> None:
    """Compute when every frame leaves every port of the intent FILE, and the gates for it.

    The plan is verified before it is written. Without -o a summary is printed; with --json the
    plan. Ctrl-C ends the search with the best plan so far: if it omits streams, the exit code is 1.
    """
    if reoptimise and not running_file:
        raise click.UsageError("--reoptimise needs --keep RUNNING.json to compare with")
    if force_margin and not ask_switches:
        raise click.UsageError("--force-margin needs --ask-switches: nothing else measures gates")
    if explain is not None and (as_json or output):
        raise click.UsageError("--explain is of one stream, without --json and -o")
    best_effort |= explain is not None
    intent = app.load_intent(file, best_effort=best_effort)
    _require_stream(intent, explain, file)
    running = _running(running_file, state_dir) if running_file else None
    if ask_switches:
        intent = app.limit(
            intent,
            connect=connect,
            running=None if reoptimise else running,
            force_margin=force_margin,
        )
        if not as_json:  # the plan has them
            render.limits(intent.stated_limits)
    with planning.shown_search() as listener:
        searched = app.search(
            intent,
            algorithm=algorithm,
            keep=None if reoptimise else running,
            best_effort=best_effort,
            executor=executor,
            seed=seed,
            listener=listener,
        )
    judged = app.sound(searched)
    computed = judged.plan
    if explain is not None:
        _explain(computed, explain)
        return
    text = app.dump_plan(computed, output)
    if as_json:
        echo(text, nl=False)
    else:
        render.plan(computed, output)
        if running:
            render.difference(running, computed, anew=reoptimise)
        warn_of(computed, judged)
    _require_end(searched)


def _require_stream(intent: Intent, name: str | None, file: Path) -> None:
    if name is not None and name not in intent.streams:
        raise InputError(f"{file}: no stream {name}", hint="`cnc plan FILE` lists all streams")


def _require_end(searched: app.Search) -> None:
    if searched.is_interrupted and (refused := searched.plan.refused):
        raise CncError(
            f"interrupted: the plan is INCOMPLETE, {len(refused)} of "
            f"{counted(len(searched.plan.intent.streams), 'stream')} without a place in it",
            hint="plan again and let it finish, or use it only if you can do without them",
        )


def _explain(computed: Plan, name: str) -> None:
    if name in computed.streams:
        render.bound(name, app.bound_of(computed, name))
        return
    render.no_place(computed, name, app.changes_for(computed, name))
    raise click.exceptions.Exit(CncError.exit_code)


def _running(file: Path, state_dir: Path) -> Plan:
    """The plan to keep streams of."""
    running = load(file, state_dir)
    if isinstance(running, Plan):
        return app.sound_running(running, f"the running plan {file}")
    raise InputError(f"{file} is an intent, and --keep takes a plan", hint="cnc plan -o PLAN.json")


def _port(text: str) -> PortRef:
    node, _, name = text.partition("/")
    if not name:
        raise click.UsageError(f"--port {text}: found no NODE/PORT, such as s1/s2")
    return PortRef(node, name)


@click.command()
@click.argument("file", type=DOCUMENT)
@click.option(
    "--svg", type=click.Path(dir_okay=False, path_type=Path), help="Draw the timeline into a file."
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a page to look around in: network, timeline, bounds. It needs no network.",
)
@click.option("--port", "ports", multiple=True, metavar="NODE/PORT", help="Of --svg: this port.")
@click.option(
    "--from",
    "from_ns",
    default="0ns",
    callback=quantity("DURATION"),
    help="Of --svg: from then on.",
)
@click.option("--to", "to_ns", callback=quantity("DURATION"), help="Of --svg: until then.")
@click.option("--no-title", is_flag=True, help="Of --svg: without title, figures and legend.")
@history_option
@JSON
def show(  # noqa: PLR0917  one parameter an option
    file: Path,
    svg: Path | None,
    html: Path | None,
    ports: tuple[str, ...],
    from_ns: int,
    to_ns: int | None,
    no_title: bool,
    state_dir: Path,
    as_json: bool,
) -> None:
    """Chart the gates of every port of FILE, a plan or an intent: in the terminal, as a picture,
    or as a page for a browser."""
    from cnc import chart, page  # noqa: PLC0415

    view = chart.View(tuple(map(_port, ports)), from_ns, to_ns, has_title=not no_title)
    if view != chart.View() and not svg:
        raise click.UsageError("--port, --from, --to and --no-title are of --svg")
    with planning.shown_search() as listener:
        shown = app.plan_of(load(file, state_dir), listener=listener)
    judged = app.judgement(shown) if html else judged_to_warn(shown, as_json=as_json)
    pictures: dict[Path | None, Callable[[], str]] = {
        svg: lambda: chart.svg(shown, view),
        html: lambda: page.html(shown, judged),
    }
    for target, draw in pictures.items():
        if target:
            whole_file.write(target, draw())
            echo(f"wrote {target}")
    if judged and not as_json:
        _warn_of_lateness(judged)
    if svg or html:
        return
    if as_json:
        echo(app.dump_plan(shown), nl=False)
    else:
        render.chart(shown)


def judged_to_warn(plan: Plan, *, as_json: bool) -> Judgement | None:
    """The judgement on a plan of whose streams there is something to say; None: there is not, or
    nothing is said of any plan."""
    from cnc.check import unbounded  # noqa: PLC0415

    return app.judgement(plan) if not as_json and unbounded.unbounded(plan) else None


def warn_of(plan: Plan, judged: Judgement | None, *, is_new: bool = True) -> None:
    """Warn of what a plan rests on and a network may not do, and of what a sound one does not
    promise, by the judgement on it; None: there is no such stream."""
    if judged:
        _warn_of_lateness(judged)
    for each in registry.MEASURED:
        for text, hint in each.warnings(plan, is_new):
            render.warning(text, hint)


def _warn_of_lateness(judged: Judgement) -> None:
    from cnc.check import unbounded  # noqa: PLC0415

    if text := unbounded.warning(judged):
        render.warning(text, unbounded.HINT)
