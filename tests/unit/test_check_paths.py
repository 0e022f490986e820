"""A stream sent twice has two sound trees, apart from each other between the switches.

t ── s1 ── s2 ── s4 ── l
      └─── s3 ───┘
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from cnc.check import judge
from cnc.model import (
    Bridge,
    ClassRole,
    EndStation,
    GateControlList,
    GateEntry,
    Hop,
    Intent,
    Link,
    Network,
    Plan,
    PortRef,
    Stream,
    StreamPlan,
    TrafficClass,
)

MS = 1_000_000
CYCLIC = TrafficClass("cyclic", 6, 6, (46,), ClassRole.SCHEDULED)
BEST_EFFORT = TrafficClass("best-effort", 0, 0, (0,), ClassRole.BEST_EFFORT, 64)
CABLES = [("t", "s1"), ("s1", "s2"), ("s1", "s3"), ("s2", "s4"), ("s3", "s4"), ("s4", "l")]
FRAME_NS = 801  # 58 octets of payload, 42 around them, at 1 Gbit/s less 100 ppm
GUARD_NS = (64 + 20) * 8 + 1
BOUND_NS = 40_000

Path = tuple[Hop, ...]


def network() -> Network:
    links = {}
    for one, other in CABLES:
        for source, target in ((one, other), (other, one)):
            egress = PortRef(source, target)
            links[egress] = Link(egress, PortRef(target, source), 10**9, 100)
    bridges = {name: Bridge(name, 1000, 2000) for name in ("s1", "s2", "s3", "s4")}
    return Network(bridges, {n: EndStation(n) for n in "tl"}, links, clock_error_ns=500)


def path(start_ns: int, *nodes: str) -> Path:
    """A hop every 10 us."""
    return tuple(
        Hop(PortRef(one, other), start_ns + 10_000 * index, 6)
        for index, (one, other) in enumerate(pairwise(nodes))
    )


UPPER = path(0, "t", "s1", "s2", "s4", "l")
LOWER = path(5_000, "t", "s1", "s3", "s4", "l")


def gates(starts: list[int]) -> GateControlList:
    """Cyclic open for the frames that start then, nothing before, else best effort."""
    entries = []
    time = 0
    for start in sorted(start % MS for start in starts):
        entries += [
            GateEntry(0x01, start - GUARD_NS - time),
            GateEntry(0x00, GUARD_NS),
            GateEntry(0x40, FRAME_NS),
        ]
        time = start + FRAME_NS
    return GateControlList(MS, (*entries, GateEntry(0x01, MS - time)))


def planned(*paths: Path, bound_ns: int = BOUND_NS) -> Plan:
    """These paths of one stream that is to be sent twice, with gates that fit."""
    wanted = Stream("twin", "t", ("l",), ("cyclic",), MS, 58, max_latency_ns=bound_ns, paths=2)
    starts: dict[PortRef, list[int]] = {}
    for hop in (hop for one in paths for hop in one if hop.egress.node != "t"):
        starts.setdefault(hop.egress, []).append(hop.offset_ns)
    return Plan(
        Intent(
            "twice",
            network(),
            {c.name: c for c in (CYCLIC, BEST_EFFORT)},
            {"twin": wanted},
            {},
        ),
        {"twin": StreamPlan(paths, bound_ns)},
        {port: gates(each) for port, each in starts.items()},
        "by hand",
    )


def found(plan: Plan) -> list[tuple[str, str]]:
    return [(v.code, v.where) for v in judge(plan)]


def test_two_paths_that_share_only_the_access_links_are_sound() -> None:
    assert judge(planned(UPPER, LOWER)) == []


@pytest.mark.parametrize("paths", [(UPPER,), (UPPER, LOWER, path(500_000, "t", "s1"))])
def test_a_path_too_few_or_too_many_is_found(paths: tuple[Path, ...]) -> None:
    assert ("paths", "twin") in found(planned(*paths))


def test_one_path_is_enough_for_a_stream_that_is_sent_once() -> None:
    plan = planned(UPPER)
    once = replace(plan.intent.streams["twin"], paths=1)
    assert judge(replace(plan, intent=replace(plan.intent, streams={"twin": once}))) == []


def test_no_link_between_switches_may_be_on_both_paths() -> None:
    again = path(5_000, "t", "s1", "s2", "s4", "l")
    texts = [str(v) for v in judge(planned(UPPER, again))]
    assert texts == [
        "twin: crosses s1/s2 on two of its paths [disjoint]",
        "twin: crosses s2/s4 on two of its paths [disjoint]",
    ]


def test_each_path_reaches_the_listener_by_itself() -> None:
    assert found(planned(UPPER, LOWER[:-1])) == [("route", "twin")]
    assert found(planned(UPPER[:2], LOWER[2:])) == [("route", "twin")] * 2


def test_the_latency_of_both_copies_counts_from_the_first() -> None:
    """The listener waits for the second if the first is lost, and its data are as old."""
    last = planned(UPPER, LOWER).intent.streams["twin"].max_latency_ns
    later = path(last // 2, "t", "s1", "s3", "s4", "l")
    assert found(planned(UPPER, later)) == [("deadline", "twin"), ("bound", "twin")]
    assert found(planned(later, UPPER)) == [("deadline", "twin"), ("bound", "twin")]


def test_the_copies_are_frames_like_any_on_the_links_they_share() -> None:
    lower = (replace(LOWER[0], offset_ns=FRAME_NS), *LOWER[1:])
    assert judge(planned(UPPER, lower)) == []
    too_close = (replace(LOWER[0], offset_ns=FRAME_NS - 1), *LOWER[1:])
    assert found(planned(UPPER, too_close)) == [("overlap", "t/s1")]


def test_frames_meet_over_the_end_of_the_hyperperiod() -> None:
    def sent_at(offset_ns: int) -> Path:
        rest = (replace(hop, offset_ns=hop.offset_ns + MS) for hop in LOWER[1:])
        return replace(LOWER[0], offset_ns=offset_ns), *rest

    assert judge(planned(UPPER, sent_at(MS - FRAME_NS), bound_ns=2 * MS)) == []
    late = planned(UPPER, sent_at(MS - FRAME_NS + 1), bound_ns=2 * MS)
    assert found(late) == [("overlap", "t/s1")]


def test_a_copy_may_not_overtake_the_other_in_the_last_queue() -> None:
    """Both come to s4 by links of their own, in the order opposite to the one they leave in."""
    upper = (*UPPER[:-1], replace(UPPER[-1], offset_ns=LOWER[-1].offset_ns + 2_000))
    assert found(planned(upper, LOWER)) == [("fifo", "s4/l")]


def test_both_copies_use_one_class() -> None:
    other = tuple(replace(hop, traffic_class=0) for hop in LOWER)
    plan = planned(UPPER, other)
    either = replace(plan.intent.streams["twin"], traffic_classes=("cyclic", "best-effort"))
    mixed = replace(plan, intent=replace(plan.intent, streams={"twin": either}))
    texts = [v.text for v in judge(mixed) if v.code == "class"]
    assert len(texts) == len(LOWER)
    assert texts[0] == "uses class 0 on t/s1, 6 on t/s1: its frames have one class all the way"
