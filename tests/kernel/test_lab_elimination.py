"""A lab whose switches take out second copies: one of each frame comes, whichever path is cut.

Best effort floods the ordinary VLAN beside the streams.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from cnc.lab import Lab, lab
from cnc.model import NS_PER_S, Plan, PortRef
from cnc.planner import plan as compute
from cnc.rollout import follow, push
from cnc.talker import tai_ns
from cnc.traffic.flows import BridgedFlow, flows
from cnc.traffic.measure import Summary, summarise
from cnc.traffic.recording import Recording, run
from tests.bridged_networks import ring, stream

MS = 1_000_000


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Lab, Plan]]:
    """A ring of five switches, which take out second copies of one stream and not of another."""
    once = stream("t1", "l4", paths=2, elimination="switch")
    plan = compute(ring(once=once, twice=stream("t2", "l5", paths=2)))
    with lab(plan.intent, timed_wires=True) as started:
        report = push(plan, connect=started.connect)
        time.sleep(max(0, (report.base_time_ns or 0) - tai_ns()) / NS_PER_S)
        yield started, plan


def sent_through(
    started: Lab, plan: Plan, sent: list[BridgedFlow], duration_ns: int, directory: Path
) -> tuple[Recording, list[Summary]]:
    with started.quiet():
        record = run(started, sent, duration_ns, directory)
    return record, summarise(plan, sent, record, timed_wires=True)


@contextmanager
def cut(started: Lab, *ends: PortRef) -> Iterator[None]:
    """The cable between two switches is cut for the time of a `with` block."""

    def set_links(state: str) -> None:
        for end in ends:
            with IPRoute(netns=started.namespace(end.node)) as ip:
                ip.link("set", index=ip.link_lookup(ifname=end.port)[0], state=state)

    set_links("down")
    try:
        yield
    finally:
        set_links("up")


@pytest.mark.virtual_time
def test_the_last_switch_passes_one_copy_of_each_frame(running: tuple[Lab, Plan], tmp_path: Path):
    started, plan = running
    assert follow(plan, "once", connect=started.connect).deviations == ()
    record, found = sent_through(started, plan, flows(plan), NS_PER_S, tmp_path)
    assert [line for each in found for line in each.violations()] == []
    of_streams = {(each.flow, each.copies) for each in record if each.flow in plan.streams}
    assert of_streams == {("once", 1), ("twice", 2)}
    assert sum(each.sent for each in found if each.flow.name == "once") == 1_000
    assert record.strays == ()


@pytest.mark.virtual_time
@pytest.mark.parametrize("path", [0, 1])
def test_a_cut_path_costs_no_frame(running: tuple[Lab, Plan], path: int, tmp_path: Path):
    started, plan = running
    sent = [flow for flow in flows(plan) if flow.name == "once"]
    links = plan.intent.network.links
    hop = plan.streams["once"].paths[path][1].egress  # of the first switch
    with cut(started, hop, links[hop].target):
        record, found = sent_through(started, plan, sent, 100 * MS, tmp_path)
    assert [line for each in found for line in each.violations()] == []
    assert [frame.copies for frame in record] == [1] * 100
    time.sleep(1)  # for the ports to forward again
