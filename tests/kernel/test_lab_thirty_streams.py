"""All that a bridged network carries, at once: `schedules/bridged30.yaml` through a real push.

Thirty streams on five switches: for one listener and for three, by two ways around the ring, plain
UDP that switches translate, jumbo frames, three frames in a period; beside best effort that floods.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.lab import Lab
from cnc.model import NS_PER_S, Plan, PortRef
from cnc.traffic.flows import flows
from tests.kernel.test_lab_bridged import frames_by_class, sent_through, up

SCHEDULE = Path(__file__).parents[2] / "schedules" / "bridged30.yaml"
# In four seconds 108,000 frames.
SECONDS = int(os.environ.get("TSN_THIRTY_STREAMS_SECONDS", "1"))
BETWEEN = (PortRef("s1", "s2"), PortRef("s5", "s4"))

pytestmark = pytest.mark.virtual_time


def frames_of_streams(plan: Plan) -> dict[str, int]:
    """How many frames the talker of each stream sends."""
    return {
        name: SECONDS * NS_PER_S // its.period_ns * its.frames
        for name, its in plan.intent.streams.items()
    }


def planned_by_class(plan: Plan, port: PortRef) -> Counter[int]:
    """The frames of streams that leave by a port, by traffic class; each talker's program sends one
    of each stream before those that are counted."""
    sent = frames_of_streams(plan)
    return Counter(
        {
            number: sum(sent[name] + 1 for name in names)
            for number in {hop.traffic_class for its in plan.streams.values() for hop in its.hops}
            if (
                names := [
                    name
                    for name, its in plan.streams.items()
                    if any(hop.egress == port and hop.traffic_class == number for hop in its.hops)
                ]
            )
        }
    )


def left_by_class(running: Lab, port: PortRef, before: list[int]) -> Counter[int]:
    after = frames_by_class(running, port)
    return Counter({number: now - before[number] for number, now in enumerate(after) if number})


def test_no_frame_of_thirty_streams_of_all_kinds_is_lost_late_or_astray(tmp_path: Path) -> None:
    with up(intents.load(SCHEDULE)) as (running, plan):
        before = {port: frames_by_class(running, port) for port in BETWEEN}
        sent = flows(plan)
        record, found = sent_through(running, plan, sent, SECONDS * NS_PER_S, tmp_path)
        left = {port: left_by_class(running, port, before[port]) for port in BETWEEN}
    of_streams = [each for each in found if each.flow.latency_bound_ns]
    print(
        f"{sum(frames_of_streams(plan).values())} frames of {len(plan.streams)} streams, "
        f"{sum(each.sent for each in of_streams)} at listeners: "
        f"{sum(each.lost for each in of_streams)} lost, {sum(each.late for each in of_streams)} "
        f"late, {len(record.strays)} astray"
    )
    assert sum(frames_of_streams(plan).values()) >= 25_000 * SECONDS
    assert [line for each in found for line in each.violations()] == []
    assert record.strays == ()
    copies = {flow.name: flow.copies for flow in sent if flow.latency_bound_ns}
    assert all(frame.copies == copies.get(frame.flow, 1) for frame in record)
    assert {port: +its for port, its in left.items()} == {
        port: planned_by_class(plan, port) for port in BETWEEN
    }
