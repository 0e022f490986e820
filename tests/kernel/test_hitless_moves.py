"""Streams of a bridged ring get other ways while they are sent, and no frame of them is missed."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.model import NS_PER_S, Intent, Plan, PortRef
from cnc.planner import plan as compute
from cnc.rollout import Report, left_over, push, status
from cnc.rollout.history import History
from cnc.talker import tai_ns
from cnc.testbed.lab import Lab, lab
from cnc.testbed.lab.namespaces import inside
from cnc.testbed.traffic.ethernet import ETH_P_ALL, ETHERTYPE, VLAN_ETHERTYPE
from cnc.testbed.traffic.flows import BridgedFlow, flows
from cnc.testbed.traffic.measure import is_late
from cnc.testbed.traffic.recording import Recording, run
from cnc.testbed.traffic.sockets import PROBE, widen
from tests.bridged_networks import ring, stream

MS = 1_000_000
DURATION_NS = 16 * NS_PER_S  # two pushes, and some time before, between and after them
MANAGED = ("t1", "t2", "t4")
SLOW = {"period": "8ms", "max-latency": "500us"}
# Ten streams by the cable between s1 and s2, in both directions, and two that do not need it.
STREAMS = {
    **{f"right{n}": stream("t1", "l2", octets=100 + 50 * n, **SLOW) for n in range(3)},
    "right-two": stream("t1", "l2", "l3", **SLOW),
    "right-far": stream("t1", "l3", octets=600, **SLOW),
    **{f"left{n}": stream("t2", "l1", octets=100 + 50 * n, **SLOW) for n in range(3)},
    "left-two": stream("t2", "l1", "l5", **SLOW),
    "left-far": stream("t2", "l5", octets=600, **SLOW),
    "kept": stream("t4", "l5", **SLOW),
    "kept-near": stream("t1", "l1", **SLOW),
}
KEPT = {"kept", "kept-near"}
Crossed = Mapping[tuple[int, int], set[PortRef]]
PACKET_OUTGOING = 4  # linux/if_packet.h

pytestmark = pytest.mark.virtual_time


@contextmanager
def captured(running: Lab, ports: set[PortRef]) -> Iterator[Crossed]:
    """By flow and sequence number the ports by which each probe leaves, while the block runs."""
    crossed: defaultdict[tuple[int, int], set[PortRef]] = defaultdict(set)
    ended, end = socket.socketpair()
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for port in ports:

            def opened(name: str = port.port) -> socket.socket:
                taken = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
                widen(taken)
                taken.bind((name, ETH_P_ALL))
                return taken

            taken = inside(running.namespace(port.node), opened)
            stack.enter_context(closing(taken))
            selector.register(taken, selectors.EVENT_READ, port)
        selector.register(ended, selectors.EVENT_READ)

        def take() -> None:
            while True:
                for key, _ in selector.select():
                    if key.data is None:
                        return
                    assert isinstance(key.fileobj, socket.socket)
                    octets, address = key.fileobj.recvfrom(64)
                    if address[2] == PACKET_OUTGOING and (probe := probe_in(octets)):
                        crossed[probe].add(key.data)

        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield crossed
        finally:
            end.close()
            thread.join()
            ended.close()


def probe_in(octets: bytes) -> tuple[int, int] | None:
    """Flow and sequence number of a probe, with or without a VLAN tag before its EtherType."""
    at = 12
    if struct.unpack_from("!H", octets, at) == (VLAN_ETHERTYPE,):
        at += 4
    if struct.unpack_from("!H", octets, at) != (ETHERTYPE,):
        return None
    number, seq = PROBE.unpack_from(octets, at + 2)
    return number, seq


def between_switches(plan: Plan) -> set[PortRef]:
    bridges = plan.intent.network.bridges
    return {
        port
        for port, link in plan.intent.network.links.items()
        if port.node in bridges and link.target.node in bridges
    }


def disagreeing(running: Lab, plan: Plan) -> list[str]:
    """The ports that are not as planned, and how."""
    ports = status(plan, connect=running.connect)
    return [f"{each.port}: {each.verdict}" for each in ports if not each.agrees]


def wait_until(instant_ns: int) -> None:
    time.sleep(max(0, instant_ns - tai_ns()) / NS_PER_S)


def managed_ring(without: str = "") -> Intent:
    """With a margin for gates: agents and servers work beside the frames, and the processor that
    they share with gates reads its clock in 256 ns each time, in virtual time, too."""
    document = dict(ring(*MANAGED, without=without, **STREAMS).document)
    document["defaults"] = {**document["defaults"], "gate-margin": "20us"}
    return intents.from_document(document, document["name"])


@pytest.fixture(scope="module")
def running() -> Iterator[Lab]:
    with lab(managed_ring(), timed_wires=True) as found:
        yield found


def test_ten_streams_move_and_move_back_without_a_lost_late_or_astray_frame(
    running: Lab, tmp_path: Path
):
    former = compute(running.intent)
    new = compute(managed_ring(without="s1-s2"), keep=former)
    moved = {name for name in STREAMS if former.addresses[name] != new.addresses[name]}
    assert moved == STREAMS.keys() - KEPT
    assert len(moved) == 10
    sent = [flow for flow in flows(former) if flow.latency_bound_ns]
    ports = between_switches(former)
    with History(None) as history, ThreadPoolExecutor(max_workers=1) as pool:
        first = push(former, connect=running.connect, history=history)
        wait_until((first.base_time_ns or 0) + MS)
        with captured(running, ports) as crossed:
            grid_ns = running.intent.hyperperiod_ns()
            traffic = pool.submit(run, running, sent, DURATION_NS, tmp_path, grid_ns=grid_ns)
            time.sleep(2)
            there = push(new, connect=running.connect, history=history)
            assert disagreeing(running, new) == []
            back = push(former, connect=running.connect, history=history)
            assert disagreeing(running, former) == []
            record = traffic.result()
        assert left_over(history, former.intent.name) is None
    for report in (there, back):
        assert report.former_ways
        assert set(report.former_ways.streams) == moved
        assert report.former_ways.left is None
    assert record.strays == ()
    judge(record, sent, Plans(former, new, there, back), crossed)


class Plans:
    """Which plan is in force when."""

    def __init__(self, former: Plan, new: Plan, there: Report, back: Report) -> None:
        self.former = former
        self.new = new
        self.from_ns = there.base_time_ns or 0
        self.until_ns = back.base_time_ns or 0

    def at(self, planned_ns: int, period_ns: int) -> Plan:
        """The plan by which a frame is sent."""
        begin_ns = planned_ns // period_ns * period_ns
        return self.new if self.from_ns <= begin_ns < self.until_ns else self.former


def judge(record: Recording, sent: list[BridgedFlow], plans: Plans, crossed: Crossed) -> None:
    """Every frame once, in the bound of the plan that it was sent by, and by the way of that."""
    by_name = {flow.name: (number, flow) for number, flow in enumerate(sent)}
    first_of = {flow.stream: number for number, flow in reversed([*enumerate(sent)])}
    seen = defaultdict(set)
    for frame in record:
        _, flow = by_name[frame.flow]
        in_force = plans.at(frame.planned_ns, flow.period_ns)
        planned = in_force.streams[flow.stream]
        seen[flow.stream].add(in_force is plans.new)
        assert frame.copies == 1, frame
        assert not is_late(frame, planned.latency_bound_ns), frame
        way = {hop.egress for hop in planned.hops} & between_switches(plans.former)
        assert crossed.get((first_of[flow.stream], frame.seq), set()) == way, frame
    assert all(seen[flow.stream] == {False, True} for flow in sent)
    counts = {name: sum(1 for frame in record if frame.flow == name) for name in by_name}
    assert set(counts.values()) == {DURATION_NS // (8 * MS)}
