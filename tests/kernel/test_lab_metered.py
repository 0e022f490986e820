"""Streams of classes with a shaper, policed where they come in: who sends too much harms no other.

t1, t2 ══ s1 ══ s2 ══ s3 ══ l1, l2        video by credit, alarm by strict priority
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.mechanisms.stream_filters.model import FlowMeter, StreamFilters
from cnc.mechanisms.stream_filters.watched import FilteredFrames
from cnc.model import NS_PER_S, BridgeForwarding, Plan, PortRef
from cnc.rollout import PortStatus, status
from cnc.testbed.lab import Lab
from cnc.testbed.traffic.flows import BridgedFlow, flows
from tests.kernel.test_lab_bridged import sent_through, up
from tests.kernel.test_lab_policing import babble, instants, more, refused
from tests.unit.asked import desired_ports
from tests.unit.shaped_networks import document, stream

US = 1_000
VIDEO, EVENTS = 5, 3
STREAMS = {
    "video1": stream("t1", frames=2),
    "video2": stream("t2", "l1", "l2", period="5ms"),
    "alarm": stream("t2", period="2ms", payload="200B", **{"class": "events"}),
}
WIRE_OCTETS = 18 + 4 + 20  # a tagged frame's, beside its payload

pytestmark = pytest.mark.virtual_time


@pytest.fixture(scope="module")
def metered() -> Iterator[tuple[Lab, Plan]]:
    stated = {**document(switches=3, streams=STREAMS), "policing": "drop"}
    with up(intents.from_document(stated, "metered")) as found:
        yield found


def of_others(plan: Plan, *without: str) -> list[BridgedFlow]:
    return [
        each
        for each in flows(plan)
        if isinstance(each, BridgedFlow) and each.latency_bound_ns and each.stream not in without
    ]


def meter_of(plan: Plan, stream_name: str) -> FlowMeter:
    filters = desired_ports(plan, "s1")["br0"][BridgeForwarding][StreamFilters].filters
    address = plan.addresses[stream_name].destination_mac
    (found,) = (
        its.meter for its in filters if its.address and its.address.destination_mac == address
    )
    assert found is not None
    return found


def video1(running: Lab, plan: Plan) -> tuple[PortStatus, FilteredFrames]:
    """The bridge of the first switch in `cnc status`, and what its filter has counted."""
    ports = status(plan, connect=running.connect)
    port = next(each for each in ports if each.port == PortRef("s1", "br0"))
    rows = port.counts.of(FilteredFrames)
    return port, next(each for each in rows if each.stream == "video1")


def test_talkers_that_send_what_they_state_lose_no_frame(
    metered: tuple[Lab, Plan], tmp_path: Path
) -> None:
    running, plan = metered
    before = refused(running, plan)
    record, found = sent_through(running, plan, of_others(plan), NS_PER_S, tmp_path)
    assert sum(each.sent for each in found) == 500 + 2 * 200 + 500
    assert [line for each in found for line in each.violations()] == []
    assert record.strays == ()
    assert more(refused(running, plan), before) == {}


@pytest.mark.parametrize(
    ("octets", "every_ns"), [(1_200, 110 * US), (46, 20 * US)], ids=["long", "short"]
)
def test_who_sends_more_than_its_stream_harms_no_other(
    metered: tuple[Lab, Plan], tmp_path: Path, octets: int, every_ns: int
) -> None:
    running, plan = metered
    count = NS_PER_S // every_ns
    before = refused(running, plan)
    with running.quiet(), ThreadPoolExecutor(1) as thread:
        to, at = plan.addresses["video1"], instants(count, every_ns, 0, NS_PER_S)
        babbling = thread.submit(babble, running, "t1", to, pcp=VIDEO, at=at, octets=octets)
        record, found = sent_through(running, plan, of_others(plan, "video1"), NS_PER_S, tmp_path)
        babbling.result()
    dropped = more(refused(running, plan), before)
    for each in found:
        assert each.latency is not None
        print(
            f"{each.flow.name}: {each.sent} frames, up to {each.latency.max_ns} of "
            f"{each.flow.latency_bound_ns} ns"
        )
    print(f"{dropped} of {count} with {octets} octets")
    assert {(each.lost, each.late, each.out_of_order) for each in found} == {(0, 0, 0)}
    # What passes of it goes where its stream goes.
    assert {(its.node, its.pcp) for its in record.strays} == {("l1", VIDEO)}
    assert dropped.keys() == {("video1", VIDEO)}
    passed = count - dropped["video1", VIDEO]
    # What passes takes no more of the wire than the bounds of others count, however short it is.
    meter = meter_of(plan, "video1")
    takes = octets + WIRE_OCTETS
    lasted_ns = at[-1] - at[0]
    most = (meter.burst_octets + meter.rate_bps * lasted_ns / NS_PER_S / 8) / takes
    assert most - 1 < passed <= most


def test_the_priority_of_a_class_is_its_streams(metered: tuple[Lab, Plan], tmp_path: Path) -> None:
    running, plan = metered
    before = refused(running, plan)
    at = instants(1_000, 500 * US, 0, NS_PER_S)
    with running.quiet(), ThreadPoolExecutor(2) as threads:
        to = plan.addresses["video2"]
        babbling = [
            threads.submit(babble, running, "t1", to, pcp=pcp, at=at, octets=200)
            for pcp in (VIDEO, EVENTS)
        ]
        _, found = sent_through(running, plan, of_others(plan), NS_PER_S, tmp_path)
        for each in babbling:
            each.result()
    assert [line for each in found for line in each.violations()] == []
    assert more(refused(running, plan), before) == {("t1", VIDEO): 1_000, ("t1", EVENTS): 1_000}


def test_status_tells_who_sends_too_much_while_it_does(metered: tuple[Lab, Plan]) -> None:
    running, plan = metered
    with ThreadPoolExecutor(1) as thread:
        to, at = plan.addresses["video1"], instants(20_000, 150 * US, 0, NS_PER_S // 2)
        babbling = thread.submit(babble, running, "t1", to, pcp=VIDEO, at=at, octets=1_200)
        time.sleep(1)
        during, counted = video1(running, plan)
        babbling.result()
    after, _ = video1(running, plan)
    assert not during.agrees
    assert "frames of video1 arrived at t1 beyond their rate and burst: dropped, " in during.verdict
    assert "its talker sends more than" in " ".join(during.hints)
    assert counted.beyond_rate > 0
    assert counted.out_of_window == counted.too_long == 0
    assert after.agrees
