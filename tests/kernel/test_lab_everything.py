"""`schedules/everything.yaml` through a real push: each promise of each theory is kept, beside a
station that babbles and best effort, and nothing is left of it behind the plan before."""

from __future__ import annotations

import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.lab import Lab, lab
from cnc.lab.namespaces import inside
from cnc.model import NS_PER_S, Plan, Theory
from cnc.planner import plan as compute
from cnc.rollout import push, status
from cnc.rollout.history import History
from cnc.talker import tai_ns
from cnc.traffic.flows import flows
from tests.kernel.test_lab_bridged import sent_through
from tests.kernel.test_lab_guarded import traces
from tests.kernel.test_lab_policing import babble, instants, more, refused

SCHEDULE = Path(__file__).parents[2] / "schedules" / "everything.yaml"
SECONDS = int(os.environ.get("TSN_EVERYTHING_SECONDS", "1"))
MS = 1_000_000
MOTION = 6
BABBLED = 1_000 * SECONDS  # frames of each kind
BACKGROUND_NS = int(os.environ.get("TSN_EVERYTHING_BACKGROUND_NS", "300000"))  # of each flow

pytestmark = pytest.mark.virtual_time


@pytest.fixture(scope="module")
def everything() -> Iterator[tuple[Lab, Plan, dict[str, str], History]]:
    """The lab with its plan, and what switches had with the plan before, which has no streams."""
    intent = intents.load(SCHEDULE)
    with lab(intent, timed_wires=True) as running, History(None) as history:
        bring(running, without_streams(), history)
        before = kernels(running)
        plan = compute(intent)
        bring(running, plan, history)
        yield running, plan, before, history


def without_streams() -> Plan:
    stated = intents.load(SCHEDULE).document
    defaults = {key: its for key, its in stated["defaults"].items() if key != "elimination"}
    document = {**stated, "defaults": defaults, "streams": {}, "loops": {}}
    return compute(intents.from_document(document, "everything"))


def bring(running: Lab, plan: Plan, history: History) -> None:
    report = push(plan, connect=running.connect, history=history)
    time.sleep(max(0, (report.base_time_ns or 0) - tai_ns()) / NS_PER_S)


def kernels(running: Lab) -> dict[str, str]:
    """By switch the qdiscs and filters of its ports, and its static entries, in the words of tc(8)
    and bridge(8)."""

    def read_here() -> str:
        shown = [["tc", "qdisc"], ["bridge", "mdb"], ["bridge", "fdb", "show", "brport", "br0"]]
        return "\n".join(
            subprocess.run(each, check=False, capture_output=True, text=True).stdout
            for each in shown
        )

    return {
        switch: inside(running.namespace(switch), read_here)
        for switch in running.intent.network.bridges
    }


def kinds(shown: str) -> list[str]:
    """The qdiscs of all ports, without their handles and what they count."""
    words = [line.split() for line in shown.splitlines() if line.startswith("qdisc")]
    return sorted(f"{each[each.index('dev') + 1]}: {each[1]}" for each in words)


def test_each_promise_is_kept_beside_a_station_that_babbles(everything, tmp_path: Path) -> None:
    running, plan, *_ = everything
    assert {its.theory for its in plan.streams.values()} == {
        Theory.SCHEDULED,
        Theory.CQF,
        Theory.CBS,
        Theory.STRICT,
    }
    sent = [
        each if each.latency_bound_ns else replace(each, period_ns=BACKGROUND_NS)
        for each in flows(plan)
        if each.talker != "panel" or each.latency_bound_ns
    ]
    loop, sensors = plan.addresses["set-point"], plan.addresses["temperature"]
    before = refused(running, plan, "s5")
    with running.quiet(), ThreadPoolExecutor(2) as threads:
        babbling = [
            threads.submit(babble, running, "panel", to, pcp=pcp, at=at, octets=400)
            for place, (to, pcp) in enumerate([(loop, MOTION), (sensors, MOTION)])
            for at in [instants(BABBLED, MS // 2, place * 20_000, NS_PER_S)]
        ]
        record, summaries = sent_through(running, plan, sent, SECONDS * NS_PER_S, tmp_path)
        for each in babbling:
            each.result()
    found = [each for each in summaries if each.flow.latency_bound_ns]
    worst: defaultdict[str, list[str]] = defaultdict(list)
    for each in found:
        assert each.latency is not None
        stream = each.flow.name.partition(" to ")[0]
        worst[plan.streams[stream].theory].append(
            f"{each.flow.name}: {each.sent} frames, up to {each.latency.max_ns} of "
            f"{each.flow.latency_bound_ns} ns"
        )
    for theory, lines in worst.items():
        print(f"{theory}: {'; '.join(lines)}")
    background = sum(each.sent for each in summaries if not each.flow.latency_bound_ns)
    print(f"beside {background} frames of best effort and {2 * BABBLED} that babble")
    assert [(each.lost, each.late, each.out_of_order) for each in found] == [(0, 0, 0)] * len(found)
    assert all(
        each.latency and each.latency.max_ns <= (each.flow.latency_bound_ns or 0) for each in found
    )
    assert record.strays == ()
    assert sum(more(refused(running, plan, "s5"), before).values()) == 2 * BABBLED
    assert all(each.agrees for each in status(plan, connect=running.connect))


def test_nothing_is_left_behind_the_plan_before(everything) -> None:
    running, _, before, history = everything
    assert any("qdisc cbs" in each for each in kernels(running).values())
    assert any(traces(running).values())
    for _ in range(2):  # what streams have had goes once their frames are through
        bring(running, without_streams(), history)
        time.sleep(5)
    after = kernels(running)
    assert {name: kinds(its) for name, its in after.items()} == {
        name: kinds(its) for name, its in before.items()
    }
    assert not any("qdisc cbs" in each for each in after.values())
    assert {name: its for name, its in traces(running).items() if "program" in its} == {}
