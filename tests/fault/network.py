"""Five switches in a line and two schedules that differ on every port."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from cnc import intent as intents
from cnc.model import Intent, Plan
from cnc.planner import plan

FILE = Path(__file__).with_name("line5.yaml")
# In the middle: of the others some come before it in every order, and some after it.
STRUCK = "s3"
LONGER_OCTETS = 700


def network() -> Intent:
    """The network with its streams as the file has them."""
    return intents.load(FILE)


@cache
def two_plans() -> tuple[Plan, Plan]:
    """The schedule of the file's streams, and that of the same streams with longer frames."""
    short = network()
    streams = {
        name: replace(stream, payload_octets=LONGER_OCTETS)
        for name, stream in short.streams.items()
    }
    return plan(short), plan(replace(short, streams=streams))
