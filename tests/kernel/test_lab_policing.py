"""A lab whose first switches police: who sends otherwise than planned harms nobody else.

t1, t2 ── s1 ── s2 ── s3 ── l1, l2        and l3 at s2
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.mechanisms.stream_filters.counts import refused_counts
from cnc.mechanisms.stream_filters.model import FilteredStream, StreamFilters
from cnc.mechanisms.stream_filters.watched import FilteredFrames
from cnc.model import NS_PER_S, BridgeForwarding, Plan, PortRef, StreamAddress
from cnc.planner import plan as compute
from cnc.rollout import PortStatus, push, status
from cnc.switch.device import Device, Managed
from cnc.talker import tai_ns
from cnc.talker.clock import sleep_until
from cnc.testbed.lab import Lab, lab
from cnc.testbed.lab.namespaces import inside
from cnc.testbed.traffic.flows import flows
from cnc.testbed.traffic.measure import summarise
from cnc.testbed.traffic.recording import run
from tests.bridged_networks import line, stream
from tests.unit.asked import desired_ports

MS = 1_000_000
ETHERTYPE = 0x88B5  # IEEE 802: for local experiments
FAST, SLOW = 6, 5


@pytest.fixture(scope="module")
def policed() -> Iterator[tuple[Lab, Plan]]:
    """The lab, once its plan with `policing: drop` runs."""
    document = line(
        motion=stream("t1", "l1"),
        torque=stream("t1", "l1", "l3", octets=100, period="500us"),
        camera=stream("t2", "l2", octets=1400, period="2ms", **{"class": "slow"}),
    ).document
    intent = intents.from_document({**document, "policing": "drop"}, "policed")
    plan = compute(intent)
    with lab(intent, timed_wires=True) as running:
        report = push(plan, connect=running.connect)
        time.sleep(max(0, (report.base_time_ns or 0) + 10 * MS - tai_ns()) / NS_PER_S)
        yield running, plan


def refused(running: Lab, plan: Plan, switch: str = "s1") -> dict[tuple[str, int], int]:
    """The frames that filters of a switch have dropped, by stream, or port, and priority."""
    desired = desired_ports(plan, switch)["br0"][BridgeForwarding]
    node = Managed.of(plan.intent.network.bridges[switch], desired_ports(plan, switch))
    with Device(node, running.connect) as device:
        report = device.state(["br0"]).bridge("br0")
    names = {(a.destination_mac, a.vlan_id): name for name, a in plan.addresses.items()}
    found: dict[tuple[str, int], int] = {}
    for (place, _), count in refused_counts(desired, report).items():
        its = desired[StreamFilters].filters[place]
        whose = its.of.port
        if isinstance(its.of, FilteredStream):
            whose = names[its.of.destination_mac, its.of.vlan_id]
        found[whose, its.priority] = found.get((whose, its.priority), 0) + count
    return found


def more(
    after: dict[tuple[str, int], int], before: dict[tuple[str, int], int]
) -> dict[tuple[str, int], int]:
    return {key: count - before[key] for key, count in after.items() if count != before[key]}


def babble(
    running: Lab, station: str, to: StreamAddress, *, pcp: int, at: list[int], octets: int
) -> None:
    """Send frames of a stream's address from a station, each at its instant of TAI."""
    mac = bytes.fromhex(to.destination_mac.replace(":", ""))
    tag = struct.pack("!HHH", 0x8100, pcp << 13 | to.vlan_id, ETHERTYPE)
    frame = mac + bytes.fromhex("02000000beef") + tag + bytes(octets)

    def send() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as talker:
            talker.bind(("eth0", 0))
            for instant in at:
                sleep_until(instant)
                talker.send(frame)

    inside(running.namespace(station), send)


def instants(count: int, every_ns: int, phase_ns: int, after_ns: int) -> list[int]:
    """So many, from a multiple of 2 ms on."""
    start_ns = ((tai_ns() + after_ns) // (2 * MS) + 1) * 2 * MS
    return [start_ns + phase_ns + number * every_ns for number in range(count)]


@pytest.mark.virtual_time
def test_talkers_that_send_as_planned_lose_no_frame(policed: tuple[Lab, Plan], tmp_path: Path):
    running, plan = policed
    sent = [flow for flow in flows(plan) if flow.latency_bound_ns]
    before = refused(running, plan)
    with running.quiet():
        record = run(running, sent, NS_PER_S, tmp_path)
    found = summarise(plan, sent, record, timed_wires=True)
    assert [line for each in found for line in each.violations()] == []
    assert sum(each.sent for each in found) == 5_500
    # Each program sends one frame of each stream before those that are counted, at any time.
    assert sum(more(refused(running, plan), before).values()) <= len(sent)


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("stream", "pcp", "where"),
    [
        ("camera", SLOW, ("camera", SLOW)),  # ten times its rate, out of its window
        ("motion", FAST, ("t2", FAST)),  # the address of another talker's stream
        ("camera", FAST, ("t2", FAST)),  # a priority that is not that of its stream
    ],
)
def test_who_sends_otherwise_harms_no_other_stream(
    policed: tuple[Lab, Plan],
    tmp_path: Path,
    stream: str,
    pcp: int,
    where: tuple[str, int],
):
    running, plan = policed
    others = [flow for flow in flows(plan) if flow.latency_bound_ns and flow.stream != "camera"]
    (offset_ns,) = plan.streams["camera"].talker_offsets_ns
    out_of_window = instants(1_000, MS // 5, offset_ns + MS // 10, NS_PER_S)
    before = refused(running, plan)
    with running.quiet(), ThreadPoolExecutor(1) as thread:
        to, at = plan.addresses[stream], out_of_window
        babbling = thread.submit(babble, running, "t2", to, pcp=pcp, at=at, octets=1_400)
        record = run(running, others, NS_PER_S, tmp_path)
        babbling.result()
    found = summarise(plan, others, record, timed_wires=True)
    assert [line for each in found for line in each.violations()] == []
    assert record.strays == ()
    dropped = more(refused(running, plan), before)
    assert dropped[where] == len(out_of_window)


@pytest.mark.virtual_time
def test_status_tells_who_sends_otherwise_while_it_does_and_how_often_it_did(
    policed: tuple[Lab, Plan],
):
    running, plan = policed
    (offset_ns,) = plan.streams["camera"].talker_offsets_ns
    at = instants(4_000, MS, offset_ns + MS // 2, NS_PER_S // 2)
    before = seen(running, plan)
    with ThreadPoolExecutor(1) as thread:
        to = plan.addresses["camera"]
        babbling = thread.submit(babble, running, "t2", to, pcp=SLOW, at=at, octets=1_400)
        time.sleep(1)
        during = seen(running, plan)
        babbling.result()
    after = seen(running, plan)
    assert not during.agrees
    told = "frames of camera arrived at t2 outside their window or beyond their limit: dropped, "
    assert told in during.verdict
    assert after.agrees
    assert after.verdict.startswith("running; ")
    assert "just now" not in after.verdict
    assert camera(after).frames - camera(before).frames == 4_000
    # The thread that babbles may have to wait for this one, and then sends some in the window.
    assert 3_900 < camera(after).out_of_window - camera(before).out_of_window <= 4_000
    assert 0 < camera(during).lately < 4_000


def seen(running: Lab, plan: Plan) -> PortStatus:
    """The bridge of the first switch in `cnc status`."""
    ports = status(plan, connect=running.connect)
    return next(each for each in ports if each.port == PortRef("s1", "br0"))


def camera(port: PortStatus) -> FilteredFrames:
    return next(each for each in port.counts.of(FilteredFrames) if each.stream == "camera")
