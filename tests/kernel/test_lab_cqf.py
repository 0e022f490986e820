"""Streams that are forwarded once each interval, through bridges in a lab beside best effort.

talkers ══ s1 ══ s2 ══ s3 ══ s4 ══ listeners
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cnc.lab import Lab
from cnc.model import NS_PER_S, Plan, PortRef
from cnc.rollout import status
from cnc.traffic.flows import flows
from cnc.traffic.measure import summarise
from cnc.traffic.recording import run
from tests.kernel.test_lab_bridged import frames_by_class, up
from tests.unit.cyclic_networks import intent_of, stream

MS = 1_000_000
EVEN, ODD = 5, 4
# None is a multiple of the interval: frames come in all of its phases, in even and in odd ones.
PERIODS_US = (1_100, 1_300, 1_500, 2_100, 2_500, 3_300)


@pytest.fixture(scope="module")
def cyclic() -> Iterator[tuple[Lab, Plan]]:
    streams = {
        f"f{n}": stream(
            f"t{1 + n % 2}",
            *(["l1"], ["l2"], ["l1", "l2"])[n % 3],
            period=f"{period}us",
            payload=f"{100 + 60 * n}B",
            frames=1 + n % 2,
        )
        for n, period in enumerate(PERIODS_US)
    }
    shaping = {"by": "cqf", "cycle": "1ms"}
    with up(intent_of(switches=4, streams=streams, shaping=shaping)) as found:
        yield found


@pytest.mark.virtual_time
def test_every_frame_arrives_within_its_bound_in_order_by_both_queues(
    cyclic: tuple[Lab, Plan], tmp_path: Path
) -> None:
    running, plan = cyclic
    assert all(its.is_cyclic for its in plan.streams.values())
    sent = list(flows(plan))
    before = frames_by_class(running, PortRef("s4", "l1"))
    with running.quiet():
        record = run(running, sent, 2 * NS_PER_S, tmp_path)
    counted = [
        after - was
        for was, after in zip(before, frames_by_class(running, PortRef("s4", "l1")), strict=True)
    ]
    summaries = summarise(plan, sent, record, timed_wires=True)
    found = [each for each in summaries if each.flow.latency_bound_ns]
    for each in found:
        assert each.latency is not None
        least, most = each.latency.min_ns / MS, each.latency.max_ns / MS
        bound = (each.flow.latency_bound_ns or 0) / MS
        name = f"{each.flow.name}: {each.sent} frames"
        print(f"{name}, {least:.3f} to {most:.3f} T, bound {bound:.3f} T")
        assert least > 4 - 1
        assert most < 4 + 1
    assert [(each.lost, each.late, each.out_of_order) for each in found] == [(0, 0, 0)] * len(found)
    assert sum(each.sent for each in found) > 5_000
    assert record.strays == ()
    assert counted[EVEN] > 1_000
    assert counted[ODD] > 1_000
    assert all(each.agrees for each in status(plan, connect=running.connect))
