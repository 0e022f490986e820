"""All that a bridged network carries, at once: `schedules/bridged30.yaml` through a real push.

Thirty streams on five switches: for one listener and for three, by two ways around the ring, plain
UDP that switches translate, jumbo frames, three frames in a period; beside best effort that floods,
and beside end stations that send otherwise than planned, whose frames first switches drop.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.model import NS_PER_S, Intent, Plan, PortRef
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.talker import tai_ns
from cnc.testbed.lab import Lab
from cnc.testbed.traffic.flows import flows
from tests.kernel.test_lab_bridged import frames_by_class, sent_through, up
from tests.kernel.test_lab_policing import babble, more, refused

SCHEDULE = Path(__file__).parents[2] / "schedules" / "bridged30.yaml"
# In four seconds 108,000 frames.
SECONDS = int(os.environ.get("TSN_THIRTY_STREAMS_SECONDS", "1"))
LASTING_NS = SECONDS * NS_PER_S
BETWEEN = (PortRef("s1", "s2"), PortRef("s5", "s4"))

MS = 1_000_000
MOTION, CYCLIC = 6, 5
SPARE_NS = 20_000  # longer than a frame of those that babble, and than talkers are late

pytestmark = pytest.mark.virtual_time


@pytest.fixture(scope="module")
def thirty_streams() -> Iterator[tuple[Lab, Plan]]:
    with up(intents.load(SCHEDULE)) as found:
        yield found


def frames_of_streams(plan: Plan) -> dict[str, int]:
    """How many frames the talker of each stream sends."""
    return {
        name: LASTING_NS // its.period_ns * its.frames for name, its in plan.intent.streams.items()
    }


def planned_by_class(plan: Plan, port: PortRef) -> Counter[int]:
    """The frames of streams that leave by a port, by traffic class; each talker's program sends one
    of each stream before those that are counted."""
    sent = frames_of_streams(plan)
    return Counter(
        {
            number: sum(sent[name] + 1 for name in names)
            for number in {hop.traffic_class for its in plan.streams.values() for hop in its.hops}
            if (
                names := [
                    name
                    for name, its in plan.streams.items()
                    if any(hop.egress == port and hop.traffic_class == number for hop in its.hops)
                ]
            )
        }
    )


def left_by_class(running: Lab, port: PortRef, before: list[int]) -> Counter[int]:
    after = frames_by_class(running, port)
    return Counter({number: now - before[number] for number, now in enumerate(after) if number})


def test_no_frame_of_thirty_streams_of_all_kinds_is_lost_late_or_astray(
    thirty_streams: tuple[Lab, Plan], tmp_path: Path
) -> None:
    running, plan = thirty_streams
    before = {port: frames_by_class(running, port) for port in BETWEEN}
    sent = flows(plan)
    record, found = sent_through(running, plan, sent, LASTING_NS, tmp_path)
    left = {port: left_by_class(running, port, before[port]) for port in BETWEEN}
    of_streams = [each for each in found if each.flow.latency_bound_ns]
    print(
        f"{sum(frames_of_streams(plan).values())} frames of {len(plan.streams)} streams, "
        f"{sum(each.sent for each in of_streams)} at listeners: "
        f"{sum(each.lost for each in of_streams)} lost, {sum(each.late for each in of_streams)} "
        f"late, {len(record.strays)} astray"
    )
    assert sum(frames_of_streams(plan).values()) >= 25_000 * SECONDS
    assert [line for each in found for line in each.violations()] == []
    assert record.strays == ()
    copies = {flow.name: flow.copies for flow in sent if flow.latency_bound_ns}
    assert all(frame.copies == copies.get(frame.flow, 1) for frame in record)
    assert {port: +its for port, its in left.items()} == {
        port: planned_by_class(plan, port) for port in BETWEEN
    }


@dataclass(frozen=True)
class Babbler:
    """An end station that sends frames to the address of a stream, at phases of a period."""

    station: str
    stream: str
    pcp: int
    period_ns: int
    phases_ns: tuple[int, ...]

    def instants(self, start_ns: int, duration_ns: int) -> list[int]:
        return [
            start_ns + number * self.period_ns + phase_ns
            for number in range(duration_ns // self.period_ns)
            for phase_ns in self.phases_ns
        ]


def dropping() -> Intent:
    document = dict(intents.load(SCHEDULE).document)
    document["policing"] = "drop"
    document["defaults"] = {**document["defaults"], "talker-lateness": "5us"}
    return intents.from_document(document, document["name"])


def idle_phase_ns(plan: Plan, station: str) -> int:
    """When in each millisecond a talker sends none of its own frames, which would have to wait."""
    taken = [
        ((planned.talker_offsets_ns[0]) % MS, its.frames * its.payload_octets * 8 + SPARE_NS)
        for name, its in plan.intent.streams.items()
        if its.talker == station
        for planned in [plan.streams[name]]
    ]
    return next(
        phase_ns
        for phase_ns in range(0, MS, 10_000)
        if all((phase_ns + SPARE_NS - begin) % MS > long + SPARE_NS for begin, long in taken)
    )


def babblers(plan: Plan) -> dict[tuple[str, str, int], Babbler]:
    """By the switch at which they are dropped, and by what it counts them: the stream whose window
    is shut, or the port where frames with this priority belong to no stream."""
    (picture_ns,) = plan.streams["picture"].talker_offsets_ns
    ten_times = tuple(picture_ns + MS // 2 + number * MS // 10 for number in range(30))

    def each_ms(station: str, stream: str, pcp: int) -> Babbler:
        return Babbler(station, stream, pcp, MS, (idle_phase_ns(plan, station),))

    return {
        ("s1", "picture", CYCLIC): Babbler("cam", "picture", CYCLIC, 4 * MS, ten_times),
        # Out of its window.
        ("s2", "from-drive1", MOTION): each_ms("drive1", "from-drive1", MOTION),
        # The address of another talker's stream.
        ("s5", "head", MOTION): each_ms("head", "to-drive2", MOTION),
        # A priority that is not that of any stream which comes in there.
        ("s4", "log", MOTION): each_ms("log", "recipe-1", MOTION),
    }


def test_stations_that_babble_harm_none_of_the_other_streams(
    thirty_streams: tuple[Lab, Plan], tmp_path: Path
) -> None:
    running, _ = thirty_streams
    plan = compute(dropping())
    report = push(plan, connect=running.connect)
    time.sleep(max(0, (report.base_time_ns or 0) + 10 * MS - tai_ns()) / NS_PER_S)
    by_count = babblers(plan)
    babbled = {each.stream for (_, of, _), each in by_count.items() if of == each.stream}
    others = [each for each in flows(plan) if each.latency_bound_ns and each.name not in babbled]
    switches = {switch for switch, _, _ in by_count}
    before = {switch: refused(running, plan, switch) for switch in switches}
    start_ns = ((tai_ns() + NS_PER_S) // (4 * MS) + 1) * 4 * MS
    at = {key: each.instants(start_ns, LASTING_NS + NS_PER_S) for key, each in by_count.items()}
    with running.quiet(), ThreadPoolExecutor(len(by_count)) as threads:
        babbling = [
            threads.submit(
                babble,
                running,
                each.station,
                plan.addresses[each.stream],
                pcp=each.pcp,
                at=at[key],
                octets=600,
            )
            for key, each in by_count.items()
        ]
        record, found = sent_through(running, plan, others, LASTING_NS, tmp_path)
        for each in babbling:
            each.result()
    assert start_ns < record.start_ns < start_ns + NS_PER_S
    print(
        f"{sum(each.sent for each in found)} frames at listeners: "
        f"{sum(each.lost for each in found)} lost, {sum(each.late for each in found)} late, "
        f"{len(record.strays)} astray, beside {sum(map(len, at.values()))} of stations that babble"
    )
    assert len({each.stream for each in others}) == len(plan.streams) - len(babbled)
    assert [line for each in found for line in each.violations()] == []
    assert record.strays == ()
    dropped = {
        (switch, *of): count
        for switch in switches
        for of, count in more(refused(running, plan, switch), before[switch]).items()
    }
    assert {key: dropped.pop(key, 0) for key in by_count} == {
        key: len(instants) for key, instants in at.items()
    }
    # Each program sends one frame of each stream before those that are counted, at any time.
    assert set(dropped.values()) <= {1}
