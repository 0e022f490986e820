"""Several frames in a period, and jumbo frames, through the gates of a lab: bridged and routed.

Best effort of jumbo frames loads the links beside the streams in all tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyroute2 import IPRoute

from cnc import intent as intents
from cnc.errors import RolloutError
from cnc.model import NS_PER_S, Intent, Plan
from cnc.rollout import push, status
from cnc.testbed.lab import Lab
from cnc.testbed.traffic.flows import AnyFlow, flows
from cnc.testbed.traffic.measure import Summary, summarise
from cnc.testbed.traffic.recording import run
from tests.bridged_networks import line, stream
from tests.kernel.test_lab_bridged import up

SCHEDULES = Path(__file__).parents[2] / "schedules"
JUMBO_OCTETS = 9_000
JUMBO_FRAME = "9022B"


def slowly(period: str) -> dict[str, str]:
    return {"period": period, "max-latency": "900us"}


def with_jumbo_frames(document: Mapping[str, Any], **streams: Mapping[str, Any]) -> Intent:
    """The network of an intent, with classes whose frames may be as long, and other streams."""
    changed = deepcopy(dict(document))
    for its in changed["classes"].values():
        if its["role"] != "control":
            its["max-frame"] = JUMBO_FRAME
    return intents.from_document({**changed, "streams": streams}, str(document["name"]))


@pytest.fixture(scope="module")
def bridged() -> Iterator[tuple[Lab, Plan]]:
    intent = with_jumbo_frames(
        line(any=stream("t1", "l1")).document,
        picture=stream("t1", "l1", "l3", octets=JUMBO_OCTETS, frames=3, **slowly("4ms")),
        triple=stream("t2", "l2", frames=3),
        single=stream("t2", "l1", octets=1_400, **{**slowly("2ms"), "class": "slow"}),
    )
    with up(intent) as found:
        yield found


@pytest.fixture(scope="module")
def routed() -> Iterator[tuple[Lab, Plan]]:
    line3 = intents.load(SCHEDULES / "line3.yaml")
    intent = with_jumbo_frames(
        line3.document,
        picture={
            **stream("t1", "l1", octets=JUMBO_OCTETS, frames=3, **slowly("4ms")),
            "class": "cyclic",
        },
        triple={**stream("t2", "l2", frames=3), "class": "cyclic"},
    )
    with up(intent) as found:
        yield found


def sent_through(running: Lab, plan: Plan, directory: Path) -> list[Summary]:
    """What became of the streams, and of best effort of jumbo frames, in a second."""
    sent: list[AnyFlow] = [
        flow if flow.latency_bound_ns else replace(flow, payload_octets=JUMBO_OCTETS)
        for flow in flows(plan)
    ]
    with running.quiet():
        record = run(running, sent, NS_PER_S, directory)
    found = summarise(plan, sent, record, timed_wires=True)
    for each in found:
        if each.latency and each.flow.latency_bound_ns:
            print(
                f"{plan.intent.name} {each.flow.name}: {each.sent} frames, {each.latency.min_ns} "
                f"to {each.latency.max_ns} ns, promised {each.flow.latency_bound_ns} ns"
            )
    return found


def counts(found: list[Summary]) -> dict[str, tuple[int, int, int]]:
    """Of each stream the frames that were sent, lost and late."""
    return {
        each.flow.name: (each.sent, each.lost, each.late)
        for each in found
        if each.flow.latency_bound_ns
    }


def best_effort(found: list[Summary]) -> list[Summary]:
    return [each for each in found if each.flow.latency_bound_ns is None]


@pytest.mark.virtual_time
def test_all_frames_of_a_period_arrive_in_time_through_bridges(
    bridged: tuple[Lab, Plan], tmp_path: Path
) -> None:
    running, plan = bridged
    found = sent_through(running, plan, tmp_path)
    assert counts(found) == {
        "picture to l1": (750, 0, 0),
        "picture to l3": (750, 0, 0),
        "triple": (3_000, 0, 0),
        "single": (500, 0, 0),
    }
    assert [line for each in found for line in each.violations()] == []
    assert all(each.received > each.sent * 0.9 for each in best_effort(found))


@pytest.mark.virtual_time
def test_all_frames_of_a_period_arrive_in_time_through_routers(
    routed: tuple[Lab, Plan], tmp_path: Path
) -> None:
    running, plan = routed
    found = sent_through(running, plan, tmp_path)
    assert counts(found) == {"picture": (750, 0, 0), "triple": (3_000, 0, 0)}
    assert [line for each in found for line in each.violations()] == []
    assert all(each.received > each.sent * 0.9 for each in best_effort(found))


def test_a_push_of_longer_packets_than_a_port_takes_is_refused_and_changes_nothing(
    bridged: tuple[Lab, Plan],
) -> None:
    running, plan = bridged
    before = status(plan, connect=running.connect)
    set_mtu(running, "s2", "s3", 1_500)
    try:
        with pytest.raises(RolloutError) as refused:
            push(plan, connect=running.connect)
        # The far end has a check of its own, and takes them.
        assert str(refused.value).startswith(
            "s2/s3: its MTU is 1500 octets, stream picture has packets of 9000"
        )
        assert "ip link set s3 mtu 9000" in (refused.value.hint or "")
    finally:
        set_mtu(running, "s2", "s3", JUMBO_OCTETS)
    assert status(plan, connect=running.connect) == before
    assert not push(plan, connect=running.connect).changes


def set_mtu(running: Lab, node: str, port: str, octets: int) -> None:
    with IPRoute(netns=running.namespace(node)) as ip:
        ip.link("set", index=ip.link_lookup(ifname=port)[0], mtu=octets)
