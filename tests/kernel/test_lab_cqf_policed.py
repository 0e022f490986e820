"""Streams that are forwarded once each interval, policed where they come in: who sends too much
harms no other.

t1, t2 ══ s1 ══ s2 ══ s3 ══ l1, l2
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest

from cnc.mechanisms.stream_filters.model import CyclicGate, Policing, PolicingRules, StreamFilters
from cnc.mechanisms.stream_filters.watched import FilteredFrames
from cnc.model import NS_PER_S, BridgeForwarding, Plan, PortRef
from cnc.rollout import PortStatus, status
from cnc.testbed.lab import Lab
from cnc.testbed.traffic.flows import BridgedFlow, flows
from tests.kernel.injections import late_talkers
from tests.kernel.test_lab_bridged import sent_through, up
from tests.kernel.test_lab_policing import babble, instants, more, refused
from tests.unit.asked import desired_ports
from tests.unit.cyclic_networks import intent_of, stream

US, MS = 1_000, 1_000_000
EVEN, ODD = 5, 4
STREAMS = {
    "often1": stream("t1", period="3ms", payload="450B", frames=2),
    "often2": stream("t2", "l1", "l2", period="1700us", payload="300B", frames=2),
    "seldom2": stream("t2", period="7ms", payload="60B"),
}
MARGIN_NS = 20_000  # by which talkers may be late
ON_LINK = 42  # octets of a tagged frame beside its payload
# With `count` others are late: what a test of `drop` would look like without policing.
POLICING = os.environ.get("TSN_CQF_POLICING", "drop")

pytestmark = pytest.mark.virtual_time


@pytest.fixture(scope="module")
def policed() -> Iterator[tuple[Lab, Plan]]:
    shaping = {"by": "cqf", "cycle": "1ms", "share": "60%"}
    defaults = {"rate": "100Mbps"}
    intent = intent_of(streams=STREAMS, shaping=shaping, defaults=defaults, policing=POLICING)
    with up(intent) as found:
        yield found


def of_others(plan: Plan, *without: str) -> list[BridgedFlow]:
    return [
        each
        for each in flows(plan)
        if isinstance(each, BridgedFlow) and each.latency_bound_ns and each.stream not in without
    ]


def gate_of(plan: Plan, stream_name: str) -> CyclicGate:
    filters = desired_ports(plan, "s1")["br0"][BridgeForwarding][StreamFilters].filters
    address = plan.addresses[stream_name].destination_mac
    (gate,) = (its.gate for its in filters if its.address and its.of.destination_mac == address)
    assert isinstance(gate, CyclicGate)
    return gate


def often1(running: Lab, plan: Plan) -> tuple[PortStatus, FilteredFrames]:
    """The bridge of the first switch in `cnc status`, and what its filter has counted."""
    ports = status(plan, connect=running.connect)
    port = next(each for each in ports if each.port == PortRef("s1", "br0"))
    rows = port.counts.of(FilteredFrames)
    return port, next(each for each in rows if each.stream == "often1")


@pytest.mark.parametrize("late", [False, True], ids=["on time", "late"])
def test_talkers_that_send_what_they_state_lose_no_frame(
    policed: tuple[Lab, Plan], late: bool, tmp_path: Path
) -> None:
    running, plan = policed
    assert plan.intent[PolicingRules].network is Policing(POLICING)
    before = refused(running, plan)
    with late_talkers(MARGIN_NS, 1, tmp_path) if late else nullcontext():
        record, found = sent_through(running, plan, of_others(plan), NS_PER_S, tmp_path)
    assert sum(each.sent for each in found) > 2 * 333 + 2 * 2 * 588 + 140
    assert [line for each in found for line in each.violations()] == []
    assert record.strays == ()
    assert more(refused(running, plan), before) == {}
    assert all(each.agrees for each in status(plan, connect=running.connect))


@pytest.mark.parametrize(
    ("octets", "every_ns"), [(450, 50 * US), (46, 12 * US)], ids=["long", "short"]
)
def test_who_sends_more_than_its_stream_harms_no_other(
    policed: tuple[Lab, Plan], tmp_path: Path, octets: int, every_ns: int
) -> None:
    running, plan = policed
    lasts_ns = NS_PER_S // 2
    count = lasts_ns // every_ns
    before = refused(running, plan)
    with running.quiet(), ThreadPoolExecutor(1) as thread:
        to, at = plan.addresses["often1"], instants(count, every_ns, 0, NS_PER_S)
        babbling = thread.submit(babble, running, "t1", to, pcp=EVEN, at=at, octets=octets)
        record, found = sent_through(running, plan, of_others(plan, "often1"), NS_PER_S, tmp_path)
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
    assert {(its.node, its.pcp) for its in record.strays} == {("l1", EVEN)}
    assert dropped.keys() == {("often1", EVEN)}
    # What passes takes no more of the wire than the bounds of others count, however short it is.
    in_interval = (gate_of(plan, "often1").octets_max or 0) // (octets + ON_LINK)
    passed, intervals = count - dropped["often1", EVEN], lasts_ns // MS
    assert in_interval * (intervals - 1) <= passed <= in_interval * (intervals + 1)


def test_the_priorities_of_both_queues_are_its_streams(
    policed: tuple[Lab, Plan], tmp_path: Path
) -> None:
    running, plan = policed
    before = refused(running, plan)
    at = instants(1_000, 500 * US, 0, NS_PER_S)
    with running.quiet(), ThreadPoolExecutor(2) as threads:
        to = plan.addresses["often2"]
        babbling = [
            threads.submit(babble, running, "t1", to, pcp=pcp, at=at, octets=200)
            for pcp in (EVEN, ODD)
        ]
        _, found = sent_through(running, plan, of_others(plan), NS_PER_S, tmp_path)
        for each in babbling:
            each.result()
    assert [line for each in found for line in each.violations()] == []
    assert more(refused(running, plan), before) == {("t1", EVEN): 1_000, ("t1", ODD): 1_000}


def test_status_tells_who_sends_too_much(policed: tuple[Lab, Plan]) -> None:
    running, plan = policed
    to, at = plan.addresses["often1"], instants(1_000, 100 * US, 0, NS_PER_S // 2)
    before = often1(running, plan)[1]
    babble(running, "t1", to, pcp=EVEN, at=at, octets=450)
    port, counted = often1(running, plan)
    assert counted.out_of_window > before.out_of_window
    assert counted.beyond_rate == counted.too_long == 0
    words = " ".join([port.verdict, *port.counts.past])
    assert "frames of often1 arrived at t1 beyond what may come in an interval: dropped" in words
