"""`cnc doctor`: is everything there that a push needs?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc import app
from cnc.cli import planning, progress, render
from cnc.cli.options import (
    DOCUMENT,
    JSON,
    connection,
    history_option,
    load,
    open_history,
)
from cnc.errors import CncError
from cnc.model import Plan
from cnc.support.format import nodes

if TYPE_CHECKING:
    from cnc.switch import ConnectOptions


@click.command()
@click.argument("file", type=DOCUMENT)
@connection
@history_option
@JSON
def doctor(
    file: Path,
    connect: ConnectOptions,
    state_dir: Path,
    as_json: bool,
) -> None:
    """Run the checks of a push on every switch of FILE, a plan or an intent.

    Nothing is changed: each switch's configuration is locked for a moment and unlocked again. An
    intent is planned as by a push; if that fails, which is a failed check, its switches are checked
    nevertheless. The exit code is 1 if a check failed; warnings do not affect it.
    """
    document = load(file, state_dir)
    intent = document.intent if isinstance(document, Plan) else document
    with open_history(state_dir) as history:
        running = app.running_plan(history, document)
    with progress.steps() as say, planning.shown_search() as listener:
        switches, managed = len(intent.network.bridges), len(intent.network.managed)
        say(f"asking {nodes(switches, managed - switches)}")
        found = app.doctor(document, connect=connect, running=running, listener=listener)
    render.diagnosis(intent.name, found.findings, no_plan=found.no_plan, as_json=as_json)
    if found.has_failures:
        raise click.exceptions.Exit(CncError.exit_code)
