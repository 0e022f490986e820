"""Where the time of each frame goes in a lab whose switches bridge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.testbed.traffic.flows import flows
from cnc.testbed.traffic.trace.record import record
from tests.kernel.gate_waits import check, check_events
from tests.kernel.test_lab_bridged import up

BRIDGED5 = Path(__file__).parents[2] / "schedules" / "bridged5.yaml"
MS = 1_000_000


@pytest.mark.virtual_time
def test_each_frame_waits_at_closed_gates_as_the_lists_say_where_switches_bridge(
    tmp_path: Path,
) -> None:
    with up(intents.load(BRIDGED5)) as (running, plan):
        with running.quiet():
            traced = record(running, plan, flows(plan), 40 * MS, tmp_path, kernel=True)
        check(replace(traced, events=None), running)
    check_events(traced)
    copies = {each.row.kind for each in traced.accounts() if each.row.flow.name == "set-point-1"}
    assert copies == {"first", "second"}
