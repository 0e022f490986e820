"""Streams that share windows, through the gates of a lab beside best effort."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cnc.model import NS_PER_S, Plan
from cnc.testbed.lab import Lab
from cnc.testbed.traffic.flows import flows
from cnc.testbed.traffic.measure import summarise
from cnc.testbed.traffic.recording import run
from tests.bridged_networks import line, stream
from tests.kernel.test_lab_bridged import up

STREAMS = 12


@pytest.fixture(scope="module")
def sharing() -> Iterator[tuple[Lab, Plan]]:
    ends = [("t1", "l1"), ("t1", "l3"), ("t2", "l2"), ("t2", "l1")]
    streams = {
        f"s{n}": {
            **stream(*ends[n % 4], octets=100 + 50 * n, frames=1 + n % 2),
            "windows": "shared",
        }
        for n in range(STREAMS)
    }
    with up(line(**streams)) as found:
        yield found


@pytest.mark.virtual_time
def test_frames_that_share_windows_arrive_in_time(
    sharing: tuple[Lab, Plan], tmp_path: Path
) -> None:
    running, plan = sharing
    assert all(hop.is_shared for its in plan.streams.values() for hop in its.hops)
    sent = list(flows(plan))
    with running.quiet():
        record = run(running, sent, NS_PER_S, tmp_path)
    found = summarise(plan, sent, record, timed_wires=True)
    scheduled = [each for each in found if each.flow.latency_bound_ns]
    for each in scheduled:
        if each.latency:
            print(
                f"{each.flow.name}: {each.sent} frames, up to {each.latency.max_ns} ns, promised "
                f"{each.flow.latency_bound_ns} ns"
            )
    assert len(scheduled) == STREAMS
    assert [(each.lost, each.late) for each in scheduled] == [(0, 0)] * STREAMS
    assert all(each.sent >= 500 for each in scheduled)
