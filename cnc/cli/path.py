"""path: where the frames of a stream really go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc import app
from cnc.cli import planning, render
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
from cnc.support.lazy import lazy_import

if TYPE_CHECKING:
    from cnc import rollout
    from cnc.rollout.history import History
    from cnc.switch import ConnectOptions
else:
    rollout = lazy_import("cnc.rollout")


@click.command()
@click.argument("stream")
@click.argument("file", type=DOCUMENT, required=False)
@connection
@history_option
@JSON
def path(
    stream: str,
    file: Path | None,
    connect: ConnectOptions,
    state_dir: Path,
    as_json: bool,
) -> None:
    """Follow the frames of STREAM through what the switches really have, hop by hop.

    FILE is a plan or an intent, which is planned first, as by a push; without it the plan of the
    newest rollout that has the stream. At each switch that frames reach, their filtering entry and
    the members of their VLAN are read from the kernel. The exit code is 1 if they leave the plan
    anywhere. Only for networks with `forwarding: bridged`.
    """
    with open_history(state_dir) as history:
        plan = _plan(file, stream, history, connect, state_dir)
    found = rollout.follow(plan, stream, connect=connect)
    render.path(found, as_json=as_json)
    if found.deviations:
        raise click.exceptions.Exit(CncError.exit_code)


def _plan(
    file: Path | None, stream: str, history: History, connect: ConnectOptions, state_dir: Path
) -> Plan:
    if file is None:
        return app.newest_plan_with(history, stream)
    document = load(file, state_dir)
    rollout.require_bridged(document.intent if isinstance(document, Plan) else document)
    with planning.shown_search() as listener:
        return app.plan_to_compare(
            document,
            connect=connect,
            running=app.running_plan(history, document),
            listener=listener,
        )
