"""What commands that send through the lab share: how long, by which plan, and from when on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc import app
from cnc.cli import planning
from cnc.cli.options import open_history
from cnc.cli.terminal import echo
from cnc.model import NS_PER_S, Intent, Plan
from cnc.support.format import duration

if TYPE_CHECKING:
    from cnc.testbed.lab import Lab


def length_ns(intent: Intent, duration_ns: int | None, cycles: int | None) -> int:
    """How long to send: one second, if neither option says."""
    if duration_ns is not None and cycles is not None:
        raise click.UsageError("--duration and --cycles exclude each other")
    return cycles * intent.hyperperiod_ns() if cycles else duration_ns or NS_PER_S


def plan_to_send(lab: Lab, document: Plan | Intent, state_dir: Path) -> Plan:
    """The plan of a file; of an intent that was pushed the one that runs, else as `cnc push` plans
    it: on a real clock with the margins that switches measure, which grow while a plan runs."""
    with open_history(state_dir) as history, planning.shown_search() as listener:
        running = app.running_plan(history, document)
        if running and isinstance(document, Intent) and app.is_pushed(document, running):
            return running
        return app.plan_to_push(document, connect=lab.connect, running=running, listener=listener)


def await_schedule(lab: Lab) -> None:
    """Wait until the schedule that was pushed has begun, and say so."""
    if pending_ns := lab.pending_ns():
        echo(f"waiting {duration(pending_ns)} for the schedule to begin", err=True)
        time.sleep(pending_ns / NS_PER_S)
