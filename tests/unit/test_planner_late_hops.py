"""Where the latency of a stream has no room for one clock error a hop, it counts once a path."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.model import Intent, Plan, PortRef, Stream
from cnc.planner import plan
from cnc.planner.incremental import conflicts
from cnc.planner.route import Member, Placement
from tests.simulator.adversary import Chance
from tests.simulator.outcome import misses
from tests.unit.planner_networks import (
    BEST_EFFORT,
    BUSY_NS,
    CYCLIC,
    OUTLASTS_NS,
    RECEIVED_NS,
    SLOWER,
    US,
    examples,
    intent,
    network,
    problem,
    stream,
    with_full_offload,
    with_links,
    with_streams,
)

ERROR_NS = 1000
SWITCHES = [f"s{number}" for number in range(1, 33)]
LINE = with_full_offload(
    network(
        "t-s1",
        "u-s1",
        *(f"{one}-{other}" for one, other in pairwise(SWITCHES)),
        "s32-l",
        "s32-m",
        clock_error_ns=ERROR_NS,
        processing_ns=(500, 1000),
    )
)
CLASSES = (CYCLIC, SLOWER, BEST_EFFORT)
HOP_NS = OUTLASTS_NS + RECEIVED_NS + 100 + 1000  # from switch to switch, of 100 octets
FIRST_NS = HOP_NS - OUTLASTS_NS  # from the talker
LEAST_NS = FIRST_NS + 32 * HOP_NS - 1000 + ERROR_NS  # frames that come when they should


def along(latency_ns: int, *, clock_error_ns: int = ERROR_NS) -> Intent:
    """Two streams that cross all switches in different classes, with little time for it."""
    streams = (
        stream("cyclic", "t", "l", period_ns=100 * US, max_latency_ns=latency_ns),
        stream(
            "slower",
            "u",
            "m",
            period_ns=100 * US,
            max_latency_ns=latency_ns,
            traffic_classes=("slower",),
        ),
    )
    return intent(replace(LINE, clock_error_ns=clock_error_ns), *streams, classes=CLASSES)


def gaps_ns(planned: Plan, name: str) -> set[int]:
    return {
        after.offset_ns - before.offset_ns for before, after in pairwise(planned.streams[name].hops)
    }


def test_a_line_is_crossed_in_the_time_of_its_frames_and_switches_and_one_clock_error() -> None:
    planned = plan(along(LEAST_NS))
    assert {its.latency_bound_ns for its in planned.streams.values()} == {LEAST_NS}
    assert gaps_ns(planned, "cyclic") == {FIRST_NS, HOP_NS}
    assert judge(planned) == []


def test_no_plan_is_faster_than_that() -> None:
    with pytest.raises(Unschedulable, match=r"clock error 1 µs .*\. Raise max-latency") as refused:
        plan(along(LEAST_NS - 1))
    assert refused.value.reasons.keys() == {"cyclic", "slower"}


@pytest.mark.parametrize("spared", [0, 1, 2, 31])
def test_no_more_hops_are_late_than_the_latency_asks_for(spared: int) -> None:
    """The others wait the clock error out: a late hop keeps the link for that much longer."""
    latency = LEAST_NS + (32 - spared) * ERROR_NS
    wanted = along(latency)
    planned = plan(with_streams(wanted, wanted.streams["cyclic"]))
    hops = planned.streams["cyclic"].hops
    late = [
        after.egress
        for before, after in pairwise(hops)
        if after.offset_ns - before.offset_ns <= HOP_NS
    ]
    assert len(late) == spared
    assert planned.streams["cyclic"].latency_bound_ns == latency
    open_ns = {
        hop.egress: sum(
            entry.interval_ns
            for entry in planned.gates[hop.egress].entries
            if entry.gate_states == 1 << CYCLIC.number
        )
        for hop in hops[1:]
    }
    window_ns = OUTLASTS_NS + BUSY_NS
    assert {port for port, length in open_ns.items() if length == window_ns + ERROR_NS} == set(late)
    assert set(open_ns.values()) <= {window_ns, window_ns + ERROR_NS}


@pytest.mark.parametrize("spared", [1, 7, 32])
@pytest.mark.parametrize("entries_max", [0, 5])
def test_frames_keep_their_bound_whatever_the_clocks_are(spared: int, entries_max: int) -> None:
    wanted = along(LEAST_NS + (32 - spared) * ERROR_NS)
    planned = plan(with_links(wanted, gate_entries_max=entries_max))
    assert judge(planned) == []
    for seed in range(10):
        assert misses(planned, Chance(seed, loss=0.01), duration_ns=1000 * US) == []


def test_a_stream_that_is_added_finds_the_late_hops_of_those_that_run() -> None:
    wanted = along(LEAST_NS + 2 * ERROR_NS)
    running = plan(with_streams(wanted, wanted.streams["cyclic"]))
    planned = plan(wanted, keep=running)
    assert planned.streams["cyclic"] == running.streams["cyclic"]
    assert judge(planned) == []


def test_another_stream_stays_out_of_the_queue_until_the_late_frame_has_come() -> None:
    """The one may come a clock error after its time, the other as much before."""
    planned = plan(along(LEAST_NS))
    one, other = (planned.streams[name] for name in ("cyclic", "slower"))
    behind = {
        name: replace(its, paths=(tuple(replace(hop, traffic_class=6) for hop in its.hops),))
        for name, its in (("cyclic", one), ("slower", other))
    }
    wanted = planned.intent
    streams = {
        name: replace(its, traffic_classes=("cyclic",)) for name, its in wanted.streams.items()
    }
    together = replace(planned, intent=replace(wanted, streams=streams), streams=behind)
    assert "fifo" in {violation.code for violation in judge(together)}


def test_a_faster_route_is_better_than_late_hops() -> None:
    """Two hops over a switch that takes its time, or three over others."""
    net = network("t-s1", "s1-s2", "s2-s3", "s1-s4", "s4-s5", "s5-s3", "s3-l")
    slow = replace(net.bridges["s2"], processing_max_ns=30 * US)
    net = with_full_offload(replace(net, bridges={**net.bridges, "s2": slow}))
    least = problem(intent(net, stream("a", "t", "l"))).quickest(
        Member("a", 0), problem(intent(net, stream("a", "t", "l"))).trees["a"][0]
    )
    planned = plan(intent(net, stream("a", "t", "l", max_latency_ns=least.least_latency_ns)))
    assert PortRef("s1", "s4") in {hop.egress for hop in planned.streams["a"].hops}


@examples(max_examples=25)
@given(spared=st.integers(0, 32), clock_error_ns=st.sampled_from([1, 300, 3000]))
def test_the_judge_agrees_with_every_number_of_late_hops(spared: int, clock_error_ns: int) -> None:
    latency = LEAST_NS - ERROR_NS + (33 - spared) * clock_error_ns
    planned = plan(along(latency, clock_error_ns=clock_error_ns))
    assert judge(planned) == []
    assert all(its.latency_bound_ns <= latency for its in planned.streams.values())


def test_the_gate_must_stay_open_for_the_frame_that_comes_late() -> None:
    wanted = along(LEAST_NS)
    planned = plan(with_streams(wanted, wanted.streams["cyclic"]))
    port = planned.streams["cyclic"].hops[5].egress
    gates = planned.gates[port]
    entries = list(gates.entries)
    last = next(n for n, entry in enumerate(entries) if entry.gate_states == 1 << CYCLIC.number)
    entries[last] = replace(entries[last], interval_ns=entries[last].interval_ns - 1)
    entries[last + 1] = replace(entries[last + 1], interval_ns=entries[last + 1].interval_ns + 1)
    shut = replace(gates, entries=tuple(entries))
    found = judge(replace(planned, gates={**planned.gates, port: shut}))
    assert {violation.code for violation in found} == {"gate-window", "gate-exclusive"}


def test_on_a_loose_port_others_stay_away_until_the_late_frame_has_come() -> None:
    wanted = along(LEAST_NS)
    ports = frozenset(port for port in wanted.network.links if port.node.startswith("s"))
    loose = problem(wanted, loose=ports)
    route = loose.route(Member("cyclic", 0), loose.trees["cyclic"][0])
    assert {leg.hold_ns for leg in route.legs if leg.parent is not None} == {ERROR_NS + 1}


@pytest.mark.parametrize(("behind_ns", "is_conflict"), [(0, True), (1, False)])
def test_kept_streams_conflict_until_the_late_one_has_come(
    behind_ns: int, *, is_conflict: bool
) -> None:
    """Both come to the port between the first two switches from talkers of their own."""
    wanted = along(LEAST_NS)
    ports = frozenset(port for port in wanted.network.links if port.node.startswith("s"))
    loose = problem(wanted, loose=ports)
    first, second = (
        loose.route(Member(name, 0), loose.trees[name][0]) for name in ("cyclic", "slower")
    )
    comes = first.offsets_ns[1] + ERROR_NS
    start = comes - second.legs[1].min_ns + behind_ns
    kept = [
        Placement(first, first.offsets_ns, CYCLIC.number),
        Placement(second, tuple(start + after for after in second.offsets_ns), CYCLIC.number),
    ]
    assert bool(conflicts(kept, [first.legs[1].link])) == is_conflict


def test_what_another_late_hop_would_place_is_not_called_impossible() -> None:
    """The second frame waits for the first, which leaves it no time to wait for the clocks too; the
    planner has late hops only where a stream alone needs them."""
    net = with_full_offload(
        network("t-s1", "u-s1", "s1-s2", "s2-l", "s2-m", clock_error_ns=ERROR_NS)
    )
    at_once = {"earliest_ns": 0, "latest_ns": 0}
    alone = stream("alone", "u", "m", traffic_classes=("slower",), **at_once)
    bound = plan(intent(net, alone, classes=CLASSES)).streams["alone"].latency_bound_ns
    tight = {"max_latency_ns": bound + BUSY_NS - 1, **at_once}
    wanted = intent(
        net,
        stream("one", "t", "l", **tight),
        stream("other", "u", "m", traffic_classes=("slower",), **tight),
        classes=CLASSES,
    )
    with pytest.raises(Unschedulable) as refused:
        plan(wanted)
    assert all("proved" not in reason for reason in refused.value.reasons.values())


def long_line(switches: int, *streams: Stream) -> Intent:
    """Stations `b1`, `b2` … at the switches of a line, and `a` at the first; seven classes."""
    names = [f"s{number}" for number in range(1, switches + 1)]
    stations = sorted({end for its in streams for end in (its.talker, *its.listeners)} - {"a"})
    cables = [f"{one}-{other}" for one, other in pairwise(names)]
    cables += [f"{station}-s{station[1:].split('x')[0]}" for station in stations]
    net = network("a-s1", *cables, clock_error_ns=ERROR_NS, processing_ns=(1000, 1000))
    scheduled = [
        replace(CYCLIC, name=f"q{n}", number=n, priority=n, dscps=(8 * n,)) for n in range(1, 8)
    ]
    queues = tuple(c.name for c in scheduled)
    wanted = [replace(its, traffic_classes=queues) for its in streams]
    return intent(with_full_offload(net), *wanted, classes=(*scheduled, BEST_EFFORT))


def test_streams_cross_32_switches_in_100_us() -> None:
    """With one clock error a hop the least bound is 102.717 µs, and none has a place."""
    figures = {"period_ns": 100 * US, "max_latency_ns": 100 * US}
    there = [stream(f"there{n}", f"b1x{n}", f"b32x{n}", **figures) for n in range(32)]
    back = [stream(f"back{n}", f"b32x{n}", f"b1x{n}", **figures) for n in range(32)]
    planned = plan(long_line(32, *there, *back))
    assert len(planned.streams) == 64
    assert judge(planned) == []


def test_a_controller_reaches_farther_along_64_switches_in_125_us() -> None:
    """65 of 128 have a place with one clock error a hop, of which no more than 39 links fit; with
    one for all, 57 do, and best effort must have its time on the controller's link."""
    figures = {"period_ns": 125 * US, "max_latency_ns": 125 * US}
    there = [stream(f"there{n}", "a", f"b{n}", **figures) for n in range(1, 65)]
    back = [stream(f"back{n}", f"b{n}", "a", **figures) for n in range(1, 65)]
    planned = plan(long_line(64, *there, *back), best_effort=True)
    assert len(planned.streams) >= 93
    assert judge(planned) == []
    too_far = [why for why in planned.refused.values() if "needs at least" in why]
    assert len(too_far) == 14
