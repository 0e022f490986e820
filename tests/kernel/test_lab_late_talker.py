"""A talker that is late, in virtual time: where it is counted others pay for it, where its frames
are dropped nobody.

t1, t2 ── s1 ── s2 ── s3 ── l1, l2
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.model import NS_PER_S, Plan
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.talker import tai_ns
from cnc.testbed.lab import Lab, lab
from cnc.testbed.traffic.flows import flows
from cnc.testbed.traffic.measure import is_late
from cnc.testbed.traffic.recording import Recording, run
from tests.bridged_networks import line, stream
from tests.kernel.test_lab_policing import FAST, babble

MS, US = 1_000_000, 1_000
EVERY_NS = 20 * MS
PICTURES, FRAMES = 20, 12
BEFORE_NS = 60 * US


@contextmanager
def running(policing: str) -> Iterator[tuple[Lab, Plan]]:
    """The lab, once its plan runs: short frames of one talker, pictures of another."""
    document = line(
        motion=stream("t1", "l1", octets=100),
        torque=stream("t1", "l1", octets=100),
        picture=stream(
            "t2", "l2", octets=1400, frames=FRAMES, period="4ms", **{"max-latency": "2ms"}
        ),
    ).document
    document |= {"policing": policing, "name": f"late-{policing}"}
    plan = compute(intents.from_document(document, document["name"]))
    with lab(plan.intent, timed_wires=True) as found:
        report = push(plan, connect=found.connect)
        time.sleep(max(0, (report.base_time_ns or 0) + 10 * MS - tai_ns()) / NS_PER_S)
        yield found, plan


def late_pictures(plan: Plan) -> list[int]:
    """When t2 sends pictures that were due at another time: right before `motion` is sent."""
    (motion_ns,) = plan.streams["motion"].talker_offsets_ns
    start_ns = (tai_ns() + 5 * NS_PER_S // 2) // EVERY_NS * EVERY_NS + 3 * MS
    return [start_ns + number * EVERY_NS + motion_ns - BEFORE_NS for number in range(PICTURES)]


def disturbed(found: Lab, plan: Plan, pictures: list[int], directory: Path) -> Recording:
    """What becomes of the frames of t1 beside the late pictures of t2."""
    of_t1 = [flow for flow in flows(plan) if flow.stream in ("motion", "torque")]
    at = [begin + 100 * number for begin in pictures for number in range(FRAMES)]
    with found.quiet(), ThreadPoolExecutor(1) as thread:
        to = plan.addresses["picture"]
        sending = thread.submit(babble, found, "t2", to, pcp=FAST, at=at, octets=1_400)
        record = run(found, of_t1, 2 * NS_PER_S, directory)
        sending.result()
    assert record.start_ns < pictures[0]
    assert pictures[-1] + EVERY_NS < record.start_ns + 2 * NS_PER_S
    return record


def late_after_ns(record: Recording, plan: Plan, pictures: list[int]) -> list[tuple[str, int]]:
    """The frames that were late or lost, and how long after a late picture they were to be sent."""
    bounds = {name: planned.latency_bound_ns for name, planned in plan.streams.items()}
    return [
        (frame.flow, (frame.planned_ns - pictures[0]) % EVERY_NS)
        for frame in record
        if is_late(frame, bounds[frame.flow])
    ]


@pytest.mark.virtual_time
@pytest.mark.parametrize("policing", ["count", "drop"])
def test_late_pictures_make_others_late_unless_they_are_dropped(policing: str, tmp_path: Path):
    with running(policing) as (found, plan):
        pictures = late_pictures(plan)
        late = late_after_ns(disturbed(found, plan, pictures, tmp_path), plan, pictures)
    if policing == "drop":
        assert late == []
    else:
        assert len(late) >= PICTURES
        assert [each for each in late if each[1] > plan.recovery_ns[each[0]]] == []
