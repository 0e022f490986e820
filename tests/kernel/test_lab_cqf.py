"""Streams that are forwarded once each interval, through bridges in a lab beside best effort.

    talkers ══ s1 ══ s2 ══ s3 ══ s4 ══ listeners

In virtual time no timer is late: for half of the tests gates open, and talkers send, as late as the
plan allows for, drawn from a seed (tests.kernel.late_gates).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from cnc.model import NS_PER_S, Plan, PortRef
from cnc.rollout import status
from cnc.testbed.lab import Lab
from cnc.testbed.traffic.flows import flows
from cnc.testbed.traffic.measure import summarise
from cnc.testbed.traffic.recording import run
from tests.kernel.injections import late_talkers
from tests.kernel.late_gates import late_gates
from tests.kernel.test_lab_bridged import frames_by_class, up
from tests.unit.cyclic_networks import intent_of, stream

MS = 1_000_000
EVEN, ODD = 5, 4
SWITCHES = 4
MARGIN_NS = 20_000
OWN_LATENESS_NS = 1_000  # as in tests.kernel.test_lab_late_gates
LAST = PortRef(f"s{SWITCHES}", "l1")
BACKGROUND_NS = 311_000  # of each flow of best effort
# None is a multiple of the interval: frames come in all of its phases, in even and in odd ones.
PERIODS_US = (1_100, 1_300, 1_500, 2_100, 2_500, 3_300)
# 6,400 frames a second come to listeners.
DURATION_NS = int(float(os.environ.get("TSN_CQF_SECONDS", "1")) * NS_PER_S)

pytestmark = pytest.mark.virtual_time


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
    with up(intent_of(switches=SWITCHES, streams=streams, shaping=shaping)) as found:
        yield found


@pytest.mark.parametrize("late", [False, True], ids=["on time", "late"])
def test_every_frame_arrives_within_its_bound_in_order_by_both_queues(
    cyclic: tuple[Lab, Plan], late: bool, tmp_path: Path
) -> None:
    running, plan = cyclic
    assert all(its.is_cyclic for its in plan.streams.values())
    sent = [
        each if each.latency_bound_ns else replace(each, period_ns=BACKGROUND_NS)
        for each in flows(plan)
    ]
    before = frames_by_class(running, LAST)
    with ExitStack() as stack:
        if late:
            stack.enter_context(late_gates(running, MARGIN_NS - OWN_LATENESS_NS, 1))
            stack.enter_context(late_talkers(MARGIN_NS, 1, tmp_path))
        stack.enter_context(running.quiet())
        record = run(running, sent, DURATION_NS, tmp_path)
        after = frames_by_class(running, LAST)
    summaries = summarise(plan, sent, record, timed_wires=True)
    found = [each for each in summaries if each.flow.latency_bound_ns]
    for each in found:
        assert each.latency is not None
        least, most = each.latency.min_ns / MS, each.latency.max_ns / MS
        bound = (each.flow.latency_bound_ns or 0) / MS
        name = f"{each.flow.name}: {each.sent} frames"
        print(f"{name}, {least:.3f} to {most:.3f} T, bound {bound:.3f} T")
        assert least > SWITCHES - 1
        assert most < SWITCHES + 1
    assert [(each.lost, each.late, each.out_of_order) for each in found] == [(0, 0, 0)] * len(found)
    seconds = DURATION_NS / NS_PER_S
    print(f"{sum(each.sent for each in found)} frames")
    assert sum(each.sent for each in found) > 6_000 * seconds
    assert record.strays == ()
    if not late:  # a list that takes the place of another counts from then on
        assert [line for each in found for line in each.violations()] == []
        assert after[EVEN] - before[EVEN] > 1_000 * seconds
        assert after[ODD] - before[ODD] > 1_000 * seconds
        assert all(each.agrees for each in status(plan, connect=running.connect))
