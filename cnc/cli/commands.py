"""check, plan, show, push, status. Heavy libraries load only in the command that needs them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnc.cli import render
from cnc.errors import CncError, PlanRejected
from cnc.model import Intent, Plan

if TYPE_CHECKING:
    from cnc.check import Violation
    from cnc.netconf import ConnectOptions

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
JSON = click.option("--json", "as_json", is_flag=True, help="Print data for programs.")


def connection(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how to reach the switches."""
    for option in (
        click.option(
            "--identity",
            type=click.Path(dir_okay=False, path_type=Path),
            default=Path("~/.ssh/id_ed25519"),
            envvar="CNC_IDENTITY",
            show_default=True,
            help="Private key that the switches accept.",
        ),
        click.option(
            "--known-hosts",
            type=click.Path(dir_okay=False, path_type=Path),
            default=Path("~/.ssh/known_hosts"),
            envvar="CNC_KNOWN_HOSTS",
            show_default=True,
            help="File of the switches' host keys; an unknown key is refused.",
        ),
        click.option(
            "--timeout",
            "timeout_s",
            type=click.FloatRange(min=0.1),
            default=30.0,
            envvar="CNC_TIMEOUT",
            show_default=True,
            help="Seconds to wait for a connection or a reply.",
        ),
    ):
        command = option(command)
    return command


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
    violations = judge(plan)
    render.verdict(plan, violations, as_json=as_json)
    if violations:
        raise click.exceptions.Exit(PlanRejected.exit_code)


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the plan here."
)
@click.option("--algorithm", default="auto", show_default=True, help="Which planner to use.")
@JSON
def plan(file: Path, output: Path | None, algorithm: str, as_json: bool) -> None:
    """Compute when every frame leaves every port of the intent FILE, and the gates for it.

    The plan is judged before it leaves. Without -o a summary is printed; with --json the plan.
    """
    from cnc import planfile  # noqa: PLC0415

    computed = verified_plan(load_intent(file), algorithm)
    text = planfile.dump(computed, output)
    if as_json:
        click.echo(text, nl=False)
    else:
        render.plan(computed, output)


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "--svg", type=click.Path(dir_okay=False, path_type=Path), help="Draw the timeline into a file."
)
@JSON
def show(file: Path, svg: Path | None, as_json: bool) -> None:
    """Chart the gates of every port of FILE, a plan or an intent, in the terminal or as SVG."""
    from cnc import chart, planfile  # noqa: PLC0415

    shown = load_plan(file)
    if svg:
        svg.write_text(chart.svg(shown), encoding="utf-8")
        click.echo(f"wrote {svg}")
    elif as_json:
        click.echo(planfile.dump(shown, None), nl=False)
    else:
        render.chart(shown)


@click.command()
@click.argument("file", type=FILE)
@click.option("--dry-run", is_flag=True, help="Show what would change per switch; send nothing.")
@connection
@JSON
def push(  # noqa: PLR0917  one parameter an option
    file: Path,
    dry_run: bool,
    identity: Path,
    known_hosts: Path,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Bring FILE, a plan or an intent, to all its switches as one change, or to none.

    Ports that already run their gate control list are not touched.
    """
    from cnc import netconf  # noqa: PLC0415

    wanted = load_plan(file)
    with render.progress() as progress:
        report = netconf.push(
            wanted,
            connect=connect_options(identity, known_hosts, timeout_s),
            dry_run=dry_run,
            progress=progress,
        )
    render.push(report, dry_run=dry_run, as_json=as_json)


@click.command()
@click.argument("file", type=FILE)
@connection
@JSON
def status(file: Path, identity: Path, known_hosts: Path, timeout_s: float, as_json: bool) -> None:
    """Show for every port of FILE what is intended, what runs and what is pending."""
    from cnc import netconf  # noqa: PLC0415

    wanted = load_plan(file)
    ports = netconf.status(wanted, connect=connect_options(identity, known_hosts, timeout_s))
    render.status(ports, as_json=as_json)
    if not all(port.agrees for port in ports):
        raise click.exceptions.Exit(CncError.exit_code)


def is_plan(file: Path) -> bool:
    return file.suffix == ".json"


def load_intent(file: Path) -> Intent:
    from cnc import intent  # noqa: PLC0415

    return intent.load(file)


def load_plan(file: Path) -> Plan:
    """A plan as it is, or the verified plan of an intent."""
    if is_plan(file):
        from cnc import planfile  # noqa: PLC0415

        return planfile.load(file)
    return verified_plan(load_intent(file))


def verified_plan(intent: Intent, algorithm: str = "auto") -> Plan:
    """Plan and judge; a plan the judge refuses is a defect of the planner and never leaves."""
    from cnc.planner import plan as compute  # noqa: PLC0415

    computed = compute(intent, algorithm=algorithm)
    if violations := judge(computed):
        raise PlanRejected(
            "the judge refuses the plan:\n"
            + "\n".join(f"  {v.code} {v.where}: {v.text}" for v in violations),
            hint="this is a defect of the planner; please report it with the intent file",
        )
    return computed


def judge(plan: Plan) -> list[Violation]:
    from cnc.check import judge as independent  # noqa: PLC0415

    return independent(plan)


def connect_options(identity: Path, known_hosts: Path, timeout_s: float) -> ConnectOptions:
    from cnc.netconf import ConnectOptions  # noqa: PLC0415

    return ConnectOptions(identity.expanduser(), known_hosts.expanduser(), timeout_s)
