"""What commands that send through the lab share: how long, by which plan, and what they say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc.cli import planning
from cnc.cli.options import open_history
from cnc.cli.terminal import echo
from cnc.model import NS_PER_S, Intent, Plan
from cnc.testbed.app import sending

if TYPE_CHECKING:
    from cnc.testbed.lab import Lab


def length_ns(intent: Intent, duration_ns: int | None, cycles: int | None) -> int:
    """How long to send: one second, if neither option says."""
    if duration_ns is not None and cycles is not None:
        raise click.UsageError("--duration and --cycles exclude each other")
    return cycles * intent.hyperperiod_ns() if cycles else duration_ns or NS_PER_S


def plan_to_send(lab: Lab, document: Plan | Intent, state_dir: Path) -> Plan:
    """As `sending.plan_to_send`, with the search shown."""
    with open_history(state_dir) as history, planning.shown_search() as listener:
        return sending.plan_to_send(lab, document, history, listener)


def say(text: str) -> None:
    """On the error stream, beside what is printed."""
    echo(text, err=True)
