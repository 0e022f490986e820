"""A disturbance ends: bursts of control frames at every hop, in virtual time.

The lab's gates reckon with the rates of its links, and its cables take as long as real ones. A
window of one frame then never makes up for a frame that missed it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.model import NS_PER_S, Intent, Plan
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.testbed.lab import Lab, lab
from cnc.testbed.lab.addressing import next_hops
from cnc.testbed.traffic.endpoint import tai_ns
from cnc.testbed.traffic.flows import Flow, flows
from cnc.testbed.traffic.measure import is_late
from cnc.testbed.traffic.recording import Recording, run

SCHEDULES = Path(__file__).parents[2] / "schedules"
MS = 1_000_000
FRAMES = 60
PAYLOAD_OCTETS = 106
BURST_NS = FRAMES * (PAYLOAD_OCTETS + 42) * 8  # on the wire at 1 Gb/s: 71 us
CALM_NS = 20 * MS  # between two bursts, and before the first


@contextmanager
def running(plan: Plan) -> Iterator[Lab]:
    """A lab in which the plan runs."""
    with lab(plan.intent, timed_wires=True) as found:
        report = push(plan, connect=found.connect)
        time.sleep(max(0, (report.base_time_ns or 0) - tai_ns()) / NS_PER_S)
        yield found


def without_recovery(intent: Intent) -> Intent:
    document = json.loads(json.dumps(intent.document))
    document["defaults"]["recovery"] = "none"
    return intents.from_document(document, intent.name)


def every_hop(plan: Plan) -> list[tuple[str, str]]:
    """For each port with gates, its switch and an end station that is reached by it."""
    network = plan.intent.network
    found = {}
    for station in sorted(network.end_stations):
        for node, link in next_hops(network, station).items():
            if link.source in plan.gates:
                found[link.source] = node, station
    return list(found.values())


def bursts(hops: Sequence[tuple[str, str]], period_ns: int) -> list[Flow]:
    """At each hop in turn as many control frames as fast as its switch can send them."""
    return [
        Flow(
            name=f"control {node} to {station} {frame}",
            talker=node,
            listener=station,
            traffic_class=7,
            ip_version=6,
            dscp=48,
            payload_octets=PAYLOAD_OCTETS,
            period_ns=period_ns,
            offset_ns=(number + 1) * CALM_NS + 17_000 + 20 * frame,
            latency_bound_ns=None,
        )
        for number, (node, station) in enumerate(hops)
        for frame in range(FRAMES)
    ]


def disturbed(
    found: Lab, plan: Plan, hops: Sequence[tuple[str, str]], directory: Path
) -> Recording:
    duration_ns = (len(hops) + 1) * CALM_NS
    sent = [*flows(plan), *bursts(hops, duration_ns)]
    with found.quiet():
        return run(found, sent, duration_ns, directory)


def late(record: Recording, plan: Plan) -> list[tuple[str, int]]:
    """The streams' frames that were late or lost, and when in the run they were planned."""
    bounds = {name: planned.latency_bound_ns for name, planned in plan.streams.items()}
    return [
        (frame.flow, frame.planned_ns - record.start_ns)
        for frame in record
        if frame.flow in bounds and is_late(frame, bounds[frame.flow])
    ]


@pytest.mark.virtual_time
def test_without_recovery_one_burst_makes_every_later_frame_late(tmp_path: Path):
    plan = compute(without_recovery(intents.load(SCHEDULES / "line3.yaml")))
    with running(plan) as found:
        record = disturbed(found, plan, [("s1", "l1")], tmp_path)
    after = [f for f in record if f.planned_ns - record.start_ns > CALM_NS + 10 * MS]
    of_streams = sum(f.flow in plan.streams for f in after)
    found_late = [name for name, at_ns in late(record, plan) if at_ns > CALM_NS + 10 * MS]
    assert len(found_late) == of_streams > 0


@pytest.mark.virtual_time
@pytest.mark.parametrize("network", ["line3", "line5"])
def test_after_a_burst_at_any_hop_frames_are_in_time_as_soon_as_the_plan_says(
    network: str, tmp_path: Path
):
    plan = compute(intents.load(SCHEDULES / f"{network}.yaml"))
    hops = every_hop(plan)
    with running(plan) as found:
        record = disturbed(found, plan, hops, tmp_path)
    too_late = []
    for name, at_ns in late(record, plan):
        over_ns = at_ns % CALM_NS - 17_000 - BURST_NS
        if at_ns < CALM_NS or over_ns > plan.recovery_ns[name]:
            too_late.append((name, at_ns))
    assert late(record, plan) != []
    assert too_late == []
