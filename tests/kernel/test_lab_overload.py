"""A lab under more traffic than it carries: what waits, what is lost, and what is kept."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.model import NS_PER_S, Intent
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.testbed.lab import Lab, lab
from cnc.testbed.traffic.endpoint import tai_ns
from cnc.testbed.traffic.flows import Flow, cbr_period_ns, flows
from cnc.testbed.traffic.measure import Summary, is_late, summarise
from cnc.testbed.traffic.recording import Recording, run

pytestmark = pytest.mark.virtual_time

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
MS = 1_000_000
PACKET_OCTETS = 1_400
CONTROL_DSCP = 48


def with_bulk_senders() -> Intent:
    """line3 with two end stations more at s1, whose ports no stream uses."""
    document = intents.load(LINE3).document
    switches = {
        **document["switches"],
        "s1": {**document["switches"]["s1"], "ports": ["t1", "t2", "s2", "b1", "b2"]},
    }
    return intents.from_document(
        {
            **document,
            "name": "overload",
            # With spare room, frames that missed their window would be in time again.
            "defaults": {**document["defaults"], "recovery": "none"},
            "switches": switches,
            "end-stations": [*document["end-stations"], "b1", "b2"],
            "links": [*document["links"], ["b1/eth0", "s1/b1"], ["b2/eth0", "s1/b2"]],
        },
        "line3.yaml with two stations more",
    )


@pytest.fixture(scope="module")
def running() -> Iterator[Lab]:
    intent = with_bulk_senders()
    with lab(intent, timed_wires=True) as found:
        report = push(compute(intent), connect=found.connect)
        time.sleep(max(0, (report.base_time_ns or 0) - tai_ns()) / NS_PER_S)
        yield found


def streams(running: Lab) -> list[Flow]:
    """The planned ones, without the best effort that is usually sent beside them."""
    return [flow for flow in flows(compute(running.intent)) if flow.latency_bound_ns is not None]


def best_effort(talker: str, share_percent: int) -> Flow:
    """A constant bit rate of that share of a 1 Gb/s link, which meets every phase of the cycle."""
    rate_bps = share_percent * 10_000_000 * PACKET_OCTETS // (PACKET_OCTETS + 38)
    period_ns = cbr_period_ns(rate_bps, PACKET_OCTETS)
    return Flow(f"bulk {talker}", talker, "l1", 0, 4, 0, PACKET_OCTETS, period_ns, 0, None)


def sent(running: Lab, others: Sequence[Flow], duration_ns: int, directory: Path) -> Recording:
    with running.quiet():
        return run(running, [*streams(running), *others], duration_ns, directory)


def summaries(running: Lab, others: Sequence[Flow], record: Recording) -> dict[str, Summary]:
    plan, all_flows = compute(running.intent), [*streams(running), *others]
    found = summarise(plan, all_flows, record, timed_wires=True)
    return {each.flow.name: each for each in found}


def test_105_percent_of_best_effort_push_no_scheduled_frame_out(running: Lab, tmp_path: Path):
    bulk = [best_effort("b1", 53), best_effort("b2", 52)]
    found = summaries(running, bulk, sent(running, bulk, 400 * MS, tmp_path))
    for flow in streams(running):
        assert found[flow.name].sent >= 200
        assert (found[flow.name].lost, found[flow.name].late) == (0, 0), found[flow.name]
    offered = sum(found[flow.name].sent for flow in bulk)
    carried = sum(found[flow.name].received for flow in bulk)
    assert 0.5 * offered < carried < 0.97 * offered


def burst() -> list[Flow]:
    """60 control frames within 1.2 us, once in a second: 72 us of a link of 1 Gb/s."""
    starts_ns = range(200_017_000, 200_018_200, 20)
    return [
        Flow(f"control {at_ns}", "s1", "l1", 7, 6, CONTROL_DSCP, 106, NS_PER_S, at_ns, None)
        for at_ns in starts_ns
    ]


def test_a_lost_window_is_not_made_up_for_by_a_gate_that_passes_more_than_its_link(
    running: Lab, tmp_path: Path
):
    """What does not fit a window stays, as on a port of 1 Gb/s: every later frame is late."""
    record = sent(running, burst(), 1_000 * MS, tmp_path)
    bounds_ns = {flow.name: flow.latency_bound_ns for flow in streams(running)}
    disturbed_ns = record.start_ns + 200 * MS
    judged = [
        (frame.planned_ns, is_late(frame, bound_ns))
        for frame in record
        if (bound_ns := bounds_ns.get(frame.flow)) is not None
    ]
    assert not any(late for planned_ns, late in judged if planned_ns < disturbed_ns)
    after = [late for planned_ns, late in judged if planned_ns > disturbed_ns + 2 * MS]
    assert len(after) > 3_000
    assert all(after)
