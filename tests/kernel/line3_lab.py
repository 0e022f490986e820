"""The lab of line3 for all tests of a module, before a push and after it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.model import NS_PER_S, Plan
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.talker import tai_ns
from cnc.testbed.lab import Lab, lab

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"


@pytest.fixture(scope="module")
def unscheduled() -> Iterator[Lab]:
    """The lab of line3, to which no test before those of `scheduled` has pushed anything."""
    with lab(intents.load(LINE3), timed_wires=True) as running:
        yield running


@pytest.fixture(scope="module")
def scheduled(unscheduled: Lab) -> tuple[Lab, Plan]:
    plan = compute(unscheduled.intent)
    report = push(plan, connect=unscheduled.connect)
    time.sleep(max(0, (report.base_time_ns or 0) - tai_ns()) / NS_PER_S)
    return unscheduled, plan
