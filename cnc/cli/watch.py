"""`cnc watch`: says what goes wrong in a network, when it does and when it is over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc import app
from cnc.cli import planning, render
from cnc.cli.options import (
    DOCUMENT,
    JSON,
    WITHOUT_DEADLINE,
    address_and_port,
    connection,
    history_option,
    load,
    open_history,
)
from cnc.cli.render.output import print_json
from cnc.cli.signals import until_signal
from cnc.cli.terminal import echo
from cnc.support.format import duration, nodes

if TYPE_CHECKING:
    from datetime import datetime

    from cnc.switch import ConnectOptions
    from cnc.watch import Event, Watcher


@click.command()
@click.argument("file", type=DOCUMENT)
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.1),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Look at each switch this often, whatever it reports by itself.",
)
@click.option(
    "--metrics",
    callback=address_and_port,
    metavar="ADDRESS:PORT",
    help="Serve Prometheus metrics there, at /metrics.",
)
@click.option("--heal", is_flag=True, help="Restore ports that drifted, by pushing the plan again.")
@WITHOUT_DEADLINE
@connection
@history_option
@JSON
def watch(  # noqa: PLR0917  one parameter an option
    file: Path,
    interval_s: float,
    metrics: tuple[str, int] | None,
    heal: bool,
    without_deadline: bool,
    connect: ConnectOptions,
    state_dir: Path,
    as_json: bool,
) -> None:
    """Watch the switches of FILE, a plan or an intent, until Ctrl-C or SIGTERM.

    Each condition is reported once when it begins and once when it ends, one line each (--json: one
    object a line). An intent is planned first, as by a push; give a service the plan that was
    pushed.
    """
    if without_deadline and not heal:
        raise click.UsageError("--without-deadline has no effect without --heal")
    from cnc import rollout  # noqa: PLC0415
    from cnc.watch import Watcher, service_manager  # noqa: PLC0415

    document = load(file, state_dir)
    with open_history(state_dir) as history, planning.shown_search() as listener:
        running = app.running_plan(history, document)
        if other := app.other_than_deployed(history, document):
            render.other_plan(other, file)
        plan = app.plan_to_compare(document, connect=connect, running=running, listener=listener)
    name, network = plan.intent.name, plan.intent.network
    watched = nodes(len(network.bridges), len(network.managed) - len(network.bridges))
    watchdog = service_manager.Watchdog()

    def ready() -> None:
        echo(f"watching {name}: {watched}", err=True)
        service_manager.notify("READY=1")

    with open_history(state_dir) as history:
        watcher = Watcher(
            plan,
            connect=connect,
            history=history,
            interval_s=interval_s,
            tell=_print_json if as_json else _print_line,
            heal=(
                lambda: rollout.push(
                    plan,
                    connect=connect,
                    history=history,
                    what="restored by watch",
                    force_margin=True,
                    has_run=plan == running,
                    without_deadline=without_deadline,
                )
            )
            if heal
            else None,
        )
        with until_signal(watcher.stop), _metrics(metrics, watcher):
            watcher.run(on_first_round=ready, on_turn=watchdog.alive)
        service_manager.notify("STOPPING=1")


@contextmanager
def _metrics(listen: tuple[str, int] | None, watcher: Watcher) -> Iterator[None]:
    if listen is None:
        yield
        return
    from cnc.watch.metrics import serve  # noqa: PLC0415

    close = serve(*listen, watcher.snapshot)
    try:
        yield
    finally:
        close()


def _print_line(event: Event) -> None:
    where = f"{event.switch}/{event.port}" if event.port else event.switch or "network"
    what = f"{event.kind} {event.what}" if event.since or event.what == "began" else event.kind
    lasted = ""
    if event.since:
        lasted_s = (event.at - event.since).total_seconds()
        lasted = f" (after {duration(round(lasted_s * 1000) * 1_000_000)})"
    # A refused push has a reason for each switch, in lines of their own.
    text = "; ".join(event.text.splitlines())
    echo(f"{_clock(event.at)}  {where}  {what}: {text}{lasted}")


def _clock(at: datetime) -> str:
    return at.astimezone().isoformat(timespec="milliseconds")


def _print_json(event: Event) -> None:
    from cnc.json_output.watch import Event as Document  # noqa: PLC0415

    print_json(Document.model_validate(event), indent=None)
