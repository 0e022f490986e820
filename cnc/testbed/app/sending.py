"""By which plan the streams of a lab are sent, and from when on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from cnc import app
from cnc.model import NS_PER_S, Intent, Plan
from cnc.support.format import duration

if TYPE_CHECKING:
    from cnc.rollout.history import History
    from cnc.testbed.lab import Lab

Say: TypeAlias = Callable[[str], None]
"""Takes a line about what goes on."""


def plan_to_send(
    lab: Lab,
    document: Plan | Intent,
    history: History,
    listener: app.SearchListener | None = None,
) -> Plan:
    """The plan of a file; of an intent that was pushed the one that runs, else as `cnc push` plans
    it: on a real clock with the margins that switches measure, which grow while a plan runs."""
    running = app.running_plan(history, document)
    if running and isinstance(document, Intent) and app.is_pushed(document, running):
        return running
    return app.plan_to_push(document, connect=lab.connect, running=running, listener=listener)


def await_schedule(lab: Lab, say: Say) -> None:
    """Wait until the schedule that was pushed has begun, and say so."""
    if pending_ns := lab.pending_ns():
        say(f"waiting {duration(pending_ns)} for the schedule to begin")
        time.sleep(pending_ns / NS_PER_S)
