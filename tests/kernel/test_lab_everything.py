"""`schedules/everything.yaml` through a real push: each promise of each theory is kept, beside a
station that babbles and best effort, and one rollback leaves nothing of it."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from cnc import app
from cnc import intent as intents
from cnc.model import NS_PER_S, Plan, Theory
from cnc.planner import plan as compute
from cnc.rollout import push, status
from cnc.rollout.history import History
from cnc.talker import tai_ns
from cnc.talker.clock import sleep_until
from cnc.testbed.lab import Lab, lab
from cnc.testbed.lab.namespaces import inside
from cnc.testbed.traffic.flows import BridgedFlow, flows
from cnc.testbed.traffic.pairing import Stray
from tests.kernel.test_lab_bridged import sent_through
from tests.kernel.test_lab_guarded import traces
from tests.kernel.test_lab_policing import babble, instants, more, refused

SCHEDULE = Path(__file__).parents[2] / "schedules" / "everything.yaml"
# In 50 seconds each kind has 100,000 frames at its listeners.
SECONDS = int(os.environ.get("TSN_EVERYTHING_SECONDS", "1"))
ROUND_S = 2  # what is recorded at once has to fit into memory
MS = 1_000_000
MOTION = 6
BABBLED_PER_S = 1_000  # frames of each kind
BACKGROUND_NS = 3_110_000  # of each flow of best effort
# Cross traffic from one end of the ordinary VLAN's tree to the other and back (the cable between
# them is not in it), at the rate of the line while the gates of best effort are open, from the last
# planned frame of a cycle on. What comes to a shut gate would wait, and then go onto a cable of the
# lab all at once, where it keeps its order: a port has no such queue behind it.
ENDS = {"s3": "s4", "s4": "s3"}
CYCLE_NS, OPEN_FROM_NS = MS, 335_000
CROSSED = int(os.environ.get("TSN_EVERYTHING_CROSSED", "11"))  # one cycle in so many
BURST, GROUP = 45, 3  # frames of such a cycle; those of a group come together
LINE_NS, LINE_OCTETS = 12_304, 1_500  # how long a cable has the longest frame of best effort

pytestmark = pytest.mark.virtual_time


Everything = tuple[Lab, Plan, dict[str, list[str]], History]


@pytest.fixture(scope="module")
def everything() -> Iterator[Everything]:
    """The lab with its plan, and what switches had with the plan before, which has no streams."""
    intent = intents.load(SCHEDULE)
    with lab(intent, timed_wires=True) as running, History(None) as history:
        bring(running, without_streams(), history)
        before = objects(running)
        plan = compute(intent)
        bring(running, plan, history)
        yield running, plan, before, history


def without_streams() -> Plan:
    stated = intents.load(SCHEDULE).document
    defaults = {key: its for key, its in stated["defaults"].items() if key != "elimination"}
    document = {**stated, "defaults": defaults, "streams": {}, "loops": {}}
    return compute(intents.from_document(document, "everything"))


def bring(running: Lab, plan: Plan, history: History, *, has_run: bool = False) -> None:
    report = push(plan, connect=running.connect, history=history, has_run=has_run)
    time.sleep(max(0, (report.base_time_ns or 0) - tai_ns()) / NS_PER_S)


def objects(running: Lab) -> dict[str, list[str]]:
    """By switch what its kernel holds of qdiscs, filters, bridge entries, VLANs, rules of tables
    and programs at links, a line each, without what it counts and numbers by itself."""

    def read_here() -> list[str]:
        links = [each["ifname"] for each in json.loads(output("ip", "-j", "link"))]
        filters = [
            ("tc", "filter", "show", "dev", link, hook)
            for link in links
            for hook in ("ingress", "egress")
        ]
        shown = [
            ("tc", "qdisc"),
            *filters,
            ("bridge", "mdb"),
            ("bridge", "fdb"),
            ("bridge", "vlan"),
            ("ip", "-d", "link"),
            ("iptables-save",),
            ("ip6tables-save",),
            ("nft", "list", "ruleset"),
            ("sysctl", "net.core.dev_weight_tx_bias"),
        ]
        lines = (line for each in shown for line in output(*each).splitlines())
        return sorted(plain(line) for line in lines if not is_learned(line))

    return {
        switch: inside(running.namespace(switch), read_here)
        for switch in running.intent.network.bridges
    }


def output(*command: str) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def plain(line: str) -> str:
    """A line without what is another in each run of the same: of a list the base time counts by its
    phase, of a queue below gates not who numbered it, the kernel or an agent that put it there."""
    line = re.sub(
        r"base-time (\d+) cycle-time (\d+)",
        lambda its: f"phase {int(its[1]) % int(its[2])} of {its[2]}",
        line,
    )
    line = re.sub(r"(qdisc pfifo|qdisc etf) \w+:", r"\1", line)
    line = re.sub(r"_timer +[\d.]+", "_timer", line)
    return re.sub(r"\bid \d+|\[\d+:\d+\]", "", line)


def is_learned(line: str) -> bool:
    """Whether an entry is none that anyone has set, or a comment."""
    is_of_bridge = bool(re.match(r"(\w\w:){5}\w\w dev ", line))
    is_set = "permanent" in line or "static" in line
    return line.startswith("#") or " temp " in line or (is_of_bridge and not is_set)


@dataclass
class Kept:
    """What has become of a flow's frames over all rounds."""

    sent: int = 0
    broken: int = 0
    slowest_ns: int = 0


def test_each_promise_is_kept_beside_a_station_that_babbles(
    everything: Everything, tmp_path: Path
) -> None:
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
        if isinstance(each, BridgedFlow)
    ]
    before = refused(running, plan, "s5")
    found: defaultdict[str, Kept] = defaultdict(Kept)
    background = babbled = crossing = 0
    for start_s in range(0, SECONDS, ROUND_S):
        lasts_s = min(ROUND_S, SECONDS - start_s)
        kept, arrived, strays = one_round(running, plan, sent, lasts_s, tmp_path / str(start_s))
        assert strays == ()
        background += arrived
        babbled += 2 * BABBLED_PER_S * lasts_s
        for name, its in kept.items():
            found[name].sent += its.sent
            found[name].broken += its.broken
            found[name].slowest_ns = max(found[name].slowest_ns, its.slowest_ns)
        crossing += len(ENDS) * BURST * (lasts_s * NS_PER_S // (CROSSED * CYCLE_NS))
        tell(plan, sent, found)
        print(
            f"in {start_s + lasts_s} s beside {background} frames of best effort, {crossing} at "
            f"the rate of the line, and {babbled} that babble",
            flush=True,
        )
    assert sum(its.broken for its in found.values()) == 0
    bounds_ns = {each.name: each.latency_bound_ns for each in sent if each.latency_bound_ns}
    assert {name for name, its in found.items() if its.slowest_ns > bounds_ns[name]} == set()
    assert sum(more(refused(running, plan, "s5"), before).values()) == babbled
    assert all(each.agrees for each in status(plan, connect=running.connect))


def cross(running: Lab, switch: str, cycles: list[int]) -> None:
    """Send best effort from one end to the other in each of these cycles."""
    bridges = running.intent.network.bridges
    device, other = bridges[switch].bridge_device, ENDS[switch]
    shown = ("ip", "-j", "link", "show", bridges[other].bridge_device)
    (link,) = json.loads(inside(running.namespace(other), partial(output, *shown)))
    mac = link["address"]
    frame = bytes.fromhex(mac.replace(":", "") + "02000000f00d" + "88b6") + bytes(LINE_OCTETS)

    def send() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as talker:
            talker.bind((device, 0))
            for begin_ns in cycles:
                for number in range(0, BURST, GROUP):
                    sleep_until(begin_ns + OPEN_FROM_NS + number * LINE_NS)
                    for _ in range(GROUP):
                        talker.send(frame)

    inside(running.namespace(switch), send)


def one_round(
    running: Lab, plan: Plan, sent: list[BridgedFlow], lasts_s: int, directory: Path
) -> tuple[dict[str, Kept], int, tuple[Stray, ...]]:
    """What becomes of the frames of streams, how many of best effort arrived, and what strayed."""
    loop, sensors = plan.addresses["set-point"], plan.addresses["temperature"]
    every_ns = CROSSED * CYCLE_NS
    crossed = lasts_s * NS_PER_S // every_ns
    with running.quiet(), ThreadPoolExecutor(2 + len(ENDS)) as threads:
        babbling = [
            threads.submit(babble, running, "panel", to, pcp=MOTION, at=at, octets=400)
            for place, to in enumerate((loop, sensors))
            for at in [instants(BABBLED_PER_S * lasts_s, MS // 2, place * 20_000, NS_PER_S)]
        ]
        babbling += [
            threads.submit(cross, running, end, instants(crossed, every_ns, 0, NS_PER_S))
            for end in ENDS
        ]
        record, summaries = sent_through(running, plan, sent, lasts_s * NS_PER_S, directory)
        for each in babbling:
            each.result()
    kept = {
        each.flow.name: Kept(
            each.sent,
            each.lost + each.late + each.out_of_order,
            each.latency.max_ns if each.latency else 0,
        )
        for each in summaries
        if each.flow.latency_bound_ns
    }
    background = sum(each.received for each in summaries if not each.flow.latency_bound_ns)
    return kept, background, record.strays


def tell(plan: Plan, sent: list[BridgedFlow], found: dict[str, Kept]) -> None:
    lines: defaultdict[Theory, list[str]] = defaultdict(list)
    counts: Counter[Theory] = Counter()
    for each in sent:
        if each.latency_bound_ns:
            its, theory = found[each.name], plan.streams[each.name.partition(" to ")[0]].theory
            counts[theory] += its.sent
            lines[theory].append(
                f"{each.name} up to {its.slowest_ns} of {each.latency_bound_ns} ns"
            )
    for theory, its_lines in lines.items():
        print(f"{theory}: {counts[theory]} frames; {'; '.join(its_lines)}")


def test_one_rollback_leaves_no_trace(everything: Everything) -> None:
    running, _, before, history = everything
    assert any("qdisc cbs" in line for its in objects(running).values() for line in its)
    assert any("program" in its for its in traces(running).values())
    chosen = app.former_rollout(history)
    bring(running, app.plan_of_rollout(history, chosen.number), history, has_run=True)
    after = objects(running)
    assert all(any("phase" in line for line in its) for its in before.values())
    changed = {name: set(its) ^ set(before[name]) for name, its in after.items()}
    assert not any(changed.values()), changed
    assert after == before
    assert not any("program" in its for its in traces(running).values())
    assert all(each.agrees for each in status(without_streams(), connect=running.connect))
