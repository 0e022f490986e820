"""Schedules that are shipped, with `gate-margin: 50us` and windows that frames share, behind gates
that open late.

In virtual time no timer is late, so lateness is injected, evenly drawn from a seed: each opening of
each gate is up to the margin late (tests.kernel.late_gates), and each frame leaves its talker up to
as late as a talker may be. Best effort runs beside the streams.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.loops.model import Loops
from cnc.mechanisms.frer.watched import Copies
from cnc.model import Intent, Plan
from cnc.rollout import status
from cnc.testbed.lab import Lab
from cnc.testbed.traffic.flows import flows
from cnc.testbed.traffic.loop.run import run as close_loop
from cnc.testbed.traffic.measure import Summary, summarise
from cnc.testbed.traffic.recording import Recording, run
from tests.kernel.injections import late_talkers
from tests.kernel.late_gates import late_gates
from tests.kernel.test_lab_bridged import up
from tests.kernel.test_lab_policing import refused

SCHEDULES = Path(__file__).parents[2] / "schedules"
MARGIN_NS = 50_000
# In virtual time a timer that expires while a program reads the clock runs up to two readings, 512
# ns, later: for that alone schedules/loop.yaml has a margin of 1 µs.
OWN_LATENESS_NS = 1_000
DURATION_NS = 200_000_000  # about the time after which lists that are late repeat
# Each draws other lists and other talkers.
SEEDS = int(os.environ.get("TSN_LATE_SEEDS", "1"))

pytestmark = pytest.mark.virtual_time


def with_margin(name: str) -> Intent:
    """A schedule with gates that may be 50 µs late, and what no plan can promise then longer: for
    two streams of bridged5 266 µs instead of 100 µs, for the loop of `loop` 273 µs instead of
    250 µs."""
    document = {**intents.load(SCHEDULES / f"{name}.yaml").document, "name": f"late-{name}"}
    document["defaults"] = {
        **document["defaults"],
        "gate-margin": f"{MARGIN_NS}ns",
        "gates": "software",
        "windows": "shared",
        "recovery": "none",
    }
    if name == "bridged5":
        longer = {
            each: {**document["streams"][each], "max-latency": "300us"}
            for each in ("sync-1", "sync-2")
        }
        document["streams"] = {**document["streams"], **longer}
    if name == "loop":
        document["loops"] = {"axis": {**document["loops"]["axis"], "deadline": "280us"}}
    return intents.from_document(document, document["name"])


@pytest.fixture(scope="module", params=["guarded", "bridged5", "loop"])
def running(request: pytest.FixtureRequest) -> Iterator[tuple[Lab, Plan]]:
    with up(with_margin(request.param)) as found:
        _, plan = found
        assert all(hop.is_shared for its in plan.streams.values() for hop in its.hops)
        yield found


@contextmanager
def late(
    running: Lab, gates_ns: int, talkers_ns: int, seed: int, directory: Path
) -> Iterator[None]:
    """Gates and talkers are so late for the time of a `with` block."""
    with (
        late_gates(running, gates_ns, seed) as openings_ns,
        late_talkers(talkers_ns, seed, directory),
    ):
        yield
    late = sum(lateness_ns > 0 for lateness_ns in openings_ns)
    print(
        f"{running.intent.name}, seed {seed}: {late} of {len(openings_ns)} openings late, up to "
        f"{max(openings_ns)} ns"
    )
    assert late > 0.99 * len(openings_ns)
    assert 0.98 * gates_ns < max(openings_ns) <= gates_ns


def talkers_lateness_ns(plan: Plan) -> int:
    network = plan.intent.network
    (lateness_ns,) = {network.lateness_ns(station) for station in network.end_stations}
    return lateness_ns


def of_streams(plan: Plan, record: Recording) -> list[Summary]:
    """What became of the frames of the streams; violations of gates by best effort fail here."""
    found = summarise(plan, flows(plan), record, timed_wires=True)
    assert [each for each in found if not each.flow.latency_bound_ns and each.violations()] == []
    streams = [each for each in found if each.flow.latency_bound_ns]
    sent, lost, late = (
        sum(count) for count in zip(*((s.sent, s.lost, s.late) for s in streams), strict=True)
    )
    talkers_ns = max(frame.sent_ns - frame.planned_ns for frame in record)
    print(f"{sent} frames, sent up to {talkers_ns} ns late: {lost} lost, {late} late")
    return streams


def copies(running: Lab, plan: Plan) -> Counter[tuple[str, str, str]]:
    """How many copies last switches have seen, by switch, port and stream; what the first switch
    has refused counts as well."""
    places = {
        (port.port.node, its.port, its.stream): its.passed + its.discarded
        for port in status(plan, connect=running.connect)
        for its in port.counts.of(Copies)
    }
    streams = {stream for *_, stream in places}
    links = plan.intent.network.links
    first = {links[plan.streams[each].hops[0].egress].target.node for each in streams}
    dropped = Counter[str]()
    for switch in first:
        for (stream, _), count in refused(running, plan, switch).items():
            dropped[stream] += count
    return Counter({place: count + dropped[place[-1]] for place, count in places.items()})


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_gates_that_are_late_by_the_margin_make_no_frame_late(
    running: tuple[Lab, Plan], seed: int, tmp_path: Path
) -> None:
    found, plan = running
    before = copies(found, plan)
    lateness_ns = talkers_lateness_ns(plan)
    with late(found, MARGIN_NS - OWN_LATENESS_NS, lateness_ns, seed, tmp_path):
        record = run(found, flows(plan), DURATION_NS, tmp_path)
        curves = [
            close_loop(found, plan, loop, tmp_path / loop.name)
            for loop in plan.intent[Loops].by_name.values()
        ]
    streams = of_streams(plan, record)
    for each in streams:
        assert each.latency
        print(f"{each.flow.name}: {each.latency.max_ns} ns of {each.flow.latency_bound_ns} ns")
    assert [line for each in streams for line in each.violations()] == []
    expected = {each.flow.name: getattr(each.flow, "copies", 1) for each in streams}
    assert {(f.flow, f.copies) for f in record if f.flow in expected} == {*expected.items()}
    lateness = [f.sent_ns - f.planned_ns for f in record if f.flow in expected]
    assert 0.5 * lateness_ns < max(lateness) <= lateness_ns
    # Where the last switch eliminates duplicates, both have come; and both of the frame that each
    # program of a talker sends before those that are counted.
    sent = {getattr(each.flow, "stream", each.flow.name): each.sent for each in streams}
    after = copies(found, plan)
    after.subtract(before)
    assert after == {place: sent[place[-1]] + 1 for place in after}
    for curve in curves:
        assert (curve.missed, curve.lost_samples, curve.lost_commands) == (0, 0, 0)
        assert max(curve.delays_ns) <= plan.loops[curve.loop.name].total_ns


def test_gates_that_are_later_make_frames_late(running: tuple[Lab, Plan], tmp_path: Path) -> None:
    found, plan = running
    with late(found, 3 * MARGIN_NS, talkers_lateness_ns(plan), 1, tmp_path):
        record = run(found, flows(plan), DURATION_NS, tmp_path)
    assert all(each.late or each.lost for each in of_streams(plan, record))
