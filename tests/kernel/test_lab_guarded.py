"""`schedules/guarded.yaml` through a real push: a mad talker and a cut cable do no harm.

The camera sends ten times what it may, with the address of the loop and with priorities that are
not its own; or the cable between s2 and s3 is cut, which one copy of each frame of the loop takes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from agent.kernel.cls_flower import INGRESS
from cnc import intent as intents
from cnc.model import NS_PER_S, Plan, PortRef
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.talker import tai_ns
from cnc.testbed.lab import Lab
from cnc.testbed.lab.namespaces import inside
from cnc.testbed.traffic.flows import BridgedFlow, flows
from tests.kernel.test_lab_bridged import cut, sent_through, up
from tests.kernel.test_lab_policing import babble, instants, more, refused

SCHEDULE = Path(__file__).parents[2] / "schedules" / "guarded.yaml"
# In 14 seconds 112,000 frames beside those that babble.
SECONDS = int(os.environ.get("TSN_GUARDED_SECONDS", "1"))
MS = 1_000_000
MOTION, CYCLIC = 6, 5
BABBLED = 1_000 * SECONDS  # frames of each kind

pytestmark = pytest.mark.virtual_time


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[Lab, Plan]]:
    with up(intents.load(SCHEDULE)) as found:
        yield found


def flows_of_streams(plan: Plan, *without: str) -> list[BridgedFlow]:
    return [
        each
        for each in flows(plan)
        if isinstance(each, BridgedFlow) and each.latency_bound_ns and each.stream not in without
    ]


def test_a_station_that_babbles_takes_no_frame_of_others(
    guarded: tuple[Lab, Plan], tmp_path: Path
) -> None:
    running, plan = guarded
    (offset_ns,) = plan.streams["picture"].talker_offsets_ns
    own, loop = plan.addresses["picture"], plan.addresses["set-point"]
    every_ns = MS // 5
    kinds = [(own, CYCLIC), (loop, MOTION), (own, MOTION)]
    others = flows_of_streams(plan, "picture")
    before = refused(running, plan, "s4")
    with running.quiet(), ThreadPoolExecutor(len(kinds)) as threads:
        babbling = [
            threads.submit(babble, running, "camera", to, pcp=pcp, at=at, octets=600)
            for place, (to, pcp) in enumerate(kinds)
            # Between two frames of the picture, whose window is shut then.
            for at in [instants(BABBLED, every_ns, offset_ns + MS // 10 + place * 20_000, NS_PER_S)]
        ]
        record, found = sent_through(running, plan, others, SECONDS * NS_PER_S, tmp_path)
        for each in babbling:
            each.result()
    print(
        f"{sum(each.sent for each in found)} frames: {sum(each.lost for each in found)} lost, "
        f"{sum(each.late for each in found)} late, {len(record.strays)} astray, beside "
        f"{3 * BABBLED} of a station that babbles"
    )
    assert [line for each in found for line in each.violations()] == []
    assert {frame.copies for frame in record} == {1}
    assert record.strays == ()
    assert more(refused(running, plan, "s4"), before) == {
        ("picture", CYCLIC): BABBLED,
        ("camera", MOTION): 2 * BABBLED,
    }


def test_a_cut_cable_takes_no_frame_of_the_loop(guarded: tuple[Lab, Plan], tmp_path: Path) -> None:
    running, plan = guarded
    sent = flows_of_streams(plan)
    with cut(running, PortRef("s2", "s3"), PortRef("s3", "s2")):
        record, found = sent_through(running, plan, sent, SECONDS * NS_PER_S, tmp_path)
    assert sum(each.sent for each in found) >= 7_500 * SECONDS
    assert [line for each in found for line in each.violations()] == []
    assert {frame.copies for frame in record} == {1}


def test_a_plan_without_guards_leaves_nothing_of_them(guarded: tuple[Lab, Plan]) -> None:
    running, plan = guarded
    document = dict(plan.intent.document)
    plain = {**document, "policing": "off"}
    plain["defaults"] = {**document["defaults"], "elimination": "listener"}
    assert {kind for each in traces(running).values() for kind in each} == {"filter", "program"}
    report = push(compute(intents.from_document(plain, plan.intent.name)), connect=running.connect)
    # What streams with another address have had goes once they have it.
    time.sleep(max(0, (report.base_time_ns or 0) - tai_ns()) / NS_PER_S + 5)
    push(compute(intents.from_document(plain, plan.intent.name)), connect=running.connect)
    assert not any(traces(running).values()), traces(running)


def traces(running: Lab) -> dict[PortRef, list[str]]:
    """What ports of switches have of BPF: filters at their ingress, and programs of XDP."""

    def read_here() -> dict[str, list[str]]:
        found = {}
        with IPRoute() as ip:
            for link in ip.get_links():
                name, xdp = link.get("IFLA_IFNAME"), link.get("IFLA_XDP")
                filters = ip.get_filters(index=link["index"], parent=INGRESS)
                kinds = {each.get("TCA_KIND") for each in filters}
                found[name] = ["filter"] * ("bpf" in kinds)
                found[name] += ["program"] * bool(xdp and xdp.get("IFLA_XDP_ATTACHED"))
        return found

    return {
        PortRef(switch, name): its
        for switch in running.intent.network.bridges
        for name, its in inside(running.namespace(switch), read_here).items()
    }
