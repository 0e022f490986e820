"""What the planner promises, on networks small enough to work out by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.check import judge
from cnc.errors import InputError, Unschedulable
from cnc.model import Hop, Intent, Plan, PortRef
from cnc.planner import ALGORITHMS, Budget, Progress, plan
from cnc.planner.gates import gate_control_lists
from cnc.planner.problem import stream_plans
from cnc.planner.route import Placement
from tests.unit.planner_networks import (
    BEST_EFFORT,
    BLOCKING_NS,
    BUSY_NS,
    CYCLIC,
    LINE,
    MS,
    OUTLASTS_NS,
    RECEIVED_MIN_NS,
    RECEIVED_NS,
    RING,
    SHORT_BEST_EFFORT,
    US,
    intent,
    network,
    problem,
    stream,
    with_full_offload,
    with_links,
    with_streams,
)

EXAMPLES = sorted((Path(__file__).parents[2] / "schedules").glob("*.yaml"))
FULL = ("bridged30", "bridged5", "guarded")  # where some frames have to wait for others


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_networks_are_planned_by_every_algorithm(example: Path, algorithm: str) -> None:
    if algorithm == "exact":
        pytest.importorskip("ortools")
    if (algorithm, example.stem) in [("no-wait", name) for name in FULL]:
        with pytest.raises(Unschedulable, match="no free slot"):
            plan(intents.load(example), algorithm=algorithm)
        return
    planned = plan(intents.load(example), algorithm=algorithm)
    assert judge(planned) == []
    assert planned.streams.keys() == planned.intent.streams.keys()
    assert planned.refused == {}


def test_a_frame_leaves_each_switch_as_soon_as_it_is_surely_there() -> None:
    planned = plan(intent(LINE, stream("a", "t", "l"))).streams["a"]
    hop_ns = BLOCKING_NS + RECEIVED_NS + 100 + 5000 + 1000
    assert planned.hops == (
        Hop(PortRef("t", "s1"), 0, 6),
        Hop(PortRef("s1", "s2"), hop_ns, 6),
        Hop(PortRef("s2", "l"), 2 * hop_ns + OUTLASTS_NS, 6),
    )
    assert planned.latency_bound_ns == 3 * hop_ns + 2 * OUTLASTS_NS - 5000


def test_without_a_control_class_nothing_blocks() -> None:
    planned = plan(intent(LINE, stream("a", "t", "l"), classes=(CYCLIC, BEST_EFFORT)))
    assert planned.streams["a"].hops[1].offset_ns == RECEIVED_NS + 100 + 5000 + 1000


def test_a_multicast_frame_crosses_each_link_once() -> None:
    net = network("t-s1", "s1-s2", "s2-l", "s2-m", "s1-n")
    hops = plan(intent(net, stream("a", "t", "l", "m", "n"))).streams["a"].hops
    crossed = sorted(str(hop.egress) for hop in hops)
    assert crossed == ["s1/n", "s1/s2", "s2/l", "s2/m", "t/s1"]
    offsets = {str(hop.egress): hop.offset_ns for hop in hops}
    assert offsets["s1/n"] == offsets["s1/s2"] < offsets["s2/l"] == offsets["s2/m"]


def test_the_talker_keeps_to_its_window() -> None:
    streams = [
        stream(name, "t", "l", earliest_ns=100_000, latest_ns=150_000) for name in ("a", "b")
    ]
    planned = plan(intent(LINE, *streams))
    first, second = sorted(s.hops[0].offset_ns for s in planned.streams.values())
    assert first == 100_000
    assert first < second <= 150_000


def test_a_second_frame_comes_to_a_queue_only_when_the_first_has_left() -> None:
    planned = plan(intent(LINE, stream("a", "t", "l"), stream("b", "t", "l")))
    first, second = sorted(
        (s.hops for s in planned.streams.values()), key=lambda hops: hops[0].offset_ns
    )
    left = first[1].offset_ns + BLOCKING_NS + OUTLASTS_NS + BUSY_NS
    earliest_there = second[0].offset_ns + RECEIVED_MIN_NS + 100 + 1000 - 1000
    assert earliest_there >= left


def test_periods_that_do_not_divide_each_other_never_collide() -> None:
    streams = [stream("a", "t", "l", period_ns=400_000), stream("b", "t", "l", period_ns=600_000)]
    planned = plan(intent(LINE, *streams))
    busy = BLOCKING_NS + OUTLASTS_NS + BUSY_NS
    starts = sorted(
        planned.streams[name].hops[2].offset_ns % period + k
        for name, period in (("a", 400_000), ("b", 600_000))
        for k in range(0, 2_400_000, period)
    )
    assert all(b - a >= busy for a, b in pairwise(starts))


def test_the_order_of_the_streams_in_the_intent_does_not_matter() -> None:
    periods = {"a": 4 * MS, "b": 2 * MS, "c": MS, "d": 2 * MS}
    streams = [stream(name, "t", "l", period_ns=period) for name, period in periods.items()]
    assert plan(intent(LINE, *streams)).streams == plan(intent(LINE, *streams[::-1])).streams


def test_an_unknown_algorithm_is_bad_input_and_the_known_ones_are_listed() -> None:
    with pytest.raises(InputError, match="unknown algorithm 'magic'") as refused:
        plan(intent(LINE), algorithm="magic")
    assert refused.value.hint == "choose one of: auto, no-wait, waiting, ejection, exact"


def test_an_intent_without_streams_has_an_empty_plan() -> None:
    planned = plan(intent(LINE))
    assert planned.streams == {}
    assert planned.gates == {}
    assert planned.algorithm == "no-wait"


def test_both_paths_of_a_stream_share_its_class_and_no_link_between_switches() -> None:
    twice = {"paths": 2, "traffic_classes": ("cyclic", "slower")}
    streams = [stream("a", "t", "l", **twice), stream("b", "t", "m", **twice)]
    planned = plan(intent(RING, *streams))
    assert judge(planned) == []
    for name in "ab":
        one, other = planned.streams[name].paths
        assert len({hop.traffic_class for hop in (*one, *other)}) == 1
        shared = {hop.egress for hop in one} & {hop.egress for hop in other}
        assert {port.node for port in shared} <= {"t", "s3", "s2"}
        assert not shared & {PortRef("s2", "s3"), PortRef("s3", "s2")}
        sent = [hops[0].offset_ns for hops in (one, other)]
        apart = abs(sent[0] - sent[1])
        assert apart >= BLOCKING_NS + BUSY_NS, "the talker sends one after the other"


def test_the_second_class_is_chosen_where_the_first_has_no_room() -> None:
    """Both start at once at two ports of s1, and one queue cannot hold both."""
    net = network("t-s1", "u-s1", "s1-l")
    at_once = {"latest_ns": 0, "traffic_classes": ("cyclic", "slower")}
    planned = plan(intent(net, stream("a", "t", "l", **at_once), stream("b", "u", "l", **at_once)))
    assert judge(planned) == []
    assert {planned.class_of(name).name for name in "ab"} == {"cyclic", "slower"}


def too_many() -> Intent:
    """Nine frames of 1500 octets are more than 100 µs of a link can take."""
    return intent(
        LINE,
        *(stream(f"f{i}", "t", "l", payload_octets=1500, period_ns=100 * US) for i in range(9)),
        classes=SHORT_BEST_EFFORT,
    )


def test_with_best_effort_some_streams_are_refused_with_reasons_and_the_rest_is_sound() -> None:
    planned = plan(too_many(), best_effort=True)
    assert judge(planned) == []
    assert planned.streams.keys() | planned.refused.keys() == planned.intent.streams.keys()
    assert len(planned.streams) > 3
    assert all("every 100 µs" in reason for reason in planned.refused.values())


def test_without_it_nothing_is_planned_and_all_that_have_no_place_are_named() -> None:
    with pytest.raises(Unschedulable) as refused:
        plan(too_many())
    assert refused.value.reasons == plan(too_many(), best_effort=True).refused
    assert "--best-effort" in str(refused.value.hint)


def test_a_stream_of_two_paths_is_planned_whole_or_not_at_all() -> None:
    """The last frame that the talker has room for is the first of two, so it is not sent."""
    streams = [
        stream(f"f{i}", "t", "l", payload_octets=1500, period_ns=100 * US, paths=2)
        for i in range(4)
    ]
    wanted = intent(RING, *streams, classes=SHORT_BEST_EFFORT)
    planned = plan(wanted, algorithm="no-wait", best_effort=True)
    assert judge(planned) == []
    assert planned.streams
    assert planned.refused
    assert all(len(planned.streams[name].paths) == 2 for name in planned.streams)


@pytest.mark.parametrize("algorithm", ["no-wait", "waiting", "ejection", "exact"])
def test_both_copies_start_so_near_that_either_is_in_time(algorithm: str) -> None:
    """What else crosses the longer way would leave the second copy a place much later only."""
    triangle = network("t-s1", "n-s3", "s1-s2", "s1-s3", "s3-s2", "s2-l", "s2-m")
    frames = {"payload_octets": 1400, "period_ns": 500 * US}
    others = [stream(f"f{i}", "n", "m", **frames) for i in range(12)]
    safe = stream("safe", "t", "l", max_latency_ns=60 * US, paths=2)
    planned = plan(intent(triangle, *others, safe), algorithm=algorithm)
    assert judge(planned) == []
    first, second = planned.streams["safe"].talker_offsets_ns
    assert abs(first - second) < safe.max_latency_ns
    assert planned.streams["safe"].latency_bound_ns <= safe.max_latency_ns


class Impatient:
    """An operator who presses Ctrl-C at the n-th sign of progress."""

    def __init__(self, patience: int) -> None:
        self.patience = patience

    def __call__(self, progress: Progress) -> None:
        self.patience -= 1
        if self.patience < 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("algorithm", "patience"),
    [("auto", 0), ("auto", 1), ("waiting", 0), ("ejection", 0), ("ejection", 1), ("ejection", 3)],
)
def test_an_interrupt_ends_in_a_sound_plan_that_tells_who_has_no_place(
    algorithm: str, patience: int
) -> None:
    planned = plan(too_many(), algorithm=algorithm, budget=Budget(watch=Impatient(patience)))
    assert judge(planned) == []
    assert planned.refused
    assert planned.streams.keys() | planned.refused.keys() == planned.intent.streams.keys()


def four_large() -> Intent:
    """Frames of 1500 octets that find a place each, and leave best effort none."""
    return intent(
        LINE,
        *(stream(f"f{i}", "t", "l", payload_octets=1500, period_ns=100 * US) for i in range(4)),
    )


def test_with_best_effort_streams_leave_until_every_port_can_run_its_list() -> None:
    planned = plan(four_large(), best_effort=True)
    assert judge(planned) == []
    (reason,) = planned.refused.values()
    assert reason.startswith("left out for port s1/s2: best effort would starve")


def test_without_it_the_ports_that_cannot_are_named() -> None:
    with pytest.raises(Unschedulable) as refused:
        plan(four_large())
    assert set(refused.value.reasons) == {"port s1/s2", "port s2/l"}


def test_streams_that_are_kept_are_not_left_out_for_others() -> None:
    three = with_streams(four_large(), *list(four_large().streams.values())[:3])
    running = plan(three)
    planned = plan(four_large(), keep=running, best_effort=True)
    assert set(planned.refused) == {"f3"}
    assert planned.streams == running.streams


def test_a_list_that_is_too_short_is_named_as_the_cause() -> None:
    short = with_links(intent(LINE, stream("f", "t", "l")), PortRef("s2", "l"), gate_entries_max=2)
    with pytest.raises(Unschedulable, match="a list of 2 entries leaves the gate open over gaps"):
        plan(short)


def test_an_overload_without_a_way_around_is_proved_without_a_search() -> None:
    steps: list[str] = []
    budget = Budget(watch=lambda progress: steps.append(progress.step))
    with pytest.raises(Unschedulable, match="It is proved that no offsets") as refused:
        plan(too_many(), budget=budget)
    assert any("f0 12.3%, f1" in reason for reason in refused.value.reasons.values())
    assert set(steps) == {"placing"}


@pytest.mark.parametrize("count", [80, 418])
def test_frames_of_one_talker_follow_each_other_on_one_class(count: int) -> None:
    """They cannot overtake each other: 418 of them are 95 % of every link."""
    line = with_full_offload(LINE)
    many = [stream(f"f{i}", "t", "l", period_ns=500 * US) for i in range(count)]
    planned = plan(intent(line, *many, classes=(CYCLIC, BEST_EFFORT)))
    assert len(planned.streams) == count
    assert judge(planned) == []


def test_what_does_not_fit_by_a_rule_of_this_planner_is_not_called_impossible() -> None:
    """Frames of different ports are kept apart in a queue for 7.6 µs each, 66 of them for more than
    their period; 6.1 µs after each other, which keeps their order, the judge accepts them."""
    talkers = [f"t{i}" for i in range(66)]
    star = with_full_offload(network(*(f"{talker}-s1" for talker in talkers), "s1-l"))
    many = [stream(f"of-{t}", t, "l", period_ns=500 * US) for t in talkers]
    wanted = intent(star, *many, classes=(CYCLIC, BEST_EFFORT))
    with pytest.raises(Unschedulable) as refused:
        plan(wanted)
    reasons = [why for name, why in refused.value.reasons.items() if name in wanted.streams]
    assert reasons
    assert not any("proved" in reason for reason in reasons)
    assert all("so a plan may still exist" in reason for reason in reasons)
    by_hand = problem(wanted)
    placements = {}
    for position, member in enumerate(by_hand.members):
        route = by_hand.route(member, by_hand.trees[member.stream][0])
        offsets = tuple(6_100 * position + after for after in route.offsets_ns)
        placements[member] = Placement(route, offsets, CYCLIC.number)
    lists = gate_control_lists(by_hand, placements.values()).lists
    assert judge(Plan(wanted, stream_plans(by_hand, placements), lists, "by hand")) == []


def test_where_there_is_a_way_around_an_overload_is_no_end() -> None:
    net = network("t-s1", "u-s1", "s1-s2", "s1-s3", "s3-s2", "s2-l", "s2-m")
    ways = {"t": "l", "u": "m"}
    streams = [
        stream(f"{talker}{i}", talker, listener, payload_octets=1500, period_ns=100 * US)
        for talker, listener in ways.items()
        for i in range(3)
    ]
    planned = plan(intent(net, *streams, classes=SHORT_BEST_EFFORT))
    assert judge(planned) == []
    assert {hop.egress for s in planned.streams.values() for hop in s.hops} >= {
        PortRef("s1", "s2"),
        PortRef("s1", "s3"),
    }


def test_a_stream_in_a_hurry_takes_the_fastest_way_if_the_shortest_is_too_slow() -> None:
    net = network("t-s1", "s1-s2", "s1-s3", "s3-s2", "s2-l")
    slow = {PortRef("s1", "s2"), PortRef("s2", "s1")}
    hurried = stream("f", "t", "l", payload_octets=1500, max_latency_ns=120 * US)
    mixed = with_links(intent(net, hurried, classes=SHORT_BEST_EFFORT), *slow, rate_bps=10**8)
    planned = plan(mixed)
    assert judge(planned) == []
    assert PortRef("s1", "s3") in {hop.egress for hop in planned.streams["f"].hops}
    at_leisure = with_streams(mixed, replace(hurried, max_latency_ns=MS))
    assert PortRef("s1", "s2") in {hop.egress for hop in plan(at_leisure).streams["f"].hops}


def test_lists_that_stay_too_long_refuse_the_plan_rather_than_lose_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cnc.planner.own_windows.ROUNDS_MAX", 1)
    streams = [stream(f"f{i}", "t", "l") for i in range(6)]
    limited = with_links(intent(LINE, *streams), PortRef("s2", "l"), gate_entries_max=8)
    with pytest.raises(Unschedulable) as refused:
        plan(limited)
    assert set(refused.value.reasons) == {"port s2/l"}
    partial = plan(limited, best_effort=True)
    assert judge(partial) == []
    assert 0 < len(partial.refused) < len(streams)
