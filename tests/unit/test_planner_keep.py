"""Planning around what runs: kept streams keep every nanosecond, changed ones are placed anew."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc.check import judge
from cnc.errors import InputError, Unschedulable
from cnc.model import Intent, Plan, PortRef, Stream
from cnc.planner import Live, moves, plan
from tests.unit.planner_networks import (
    BEST_EFFORT,
    BUSY_NS,
    CLASSES,
    CYCLIC,
    MS,
    US,
    examples,
    intent,
    intents,
    network,
    stream,
    with_full_offload,
    with_links,
    with_streams,
)

FORK = network("t-s1", "u-s1", "s1-s2", "s2-l", "s2-m", "s1-n")
A, B, C = stream("a", "t", "l"), stream("b", "u", "l"), stream("c", "t", "m")


@pytest.fixture
def running() -> Plan:
    """With `b` first, so that a plan from the beginning would move `a` and `c`."""
    alone = plan(intent(FORK, B))
    return plan(intent(FORK, A, B, C), keep=alone)


def test_kept_streams_keep_every_nanosecond(running: Plan) -> None:
    wanted = intent(FORK, A, B, C, stream("d", "u", "m", period_ns=100 * US))
    anew = plan(wanted)
    assert moves(running, anew)
    planned = plan(wanted, keep=running)
    assert moves(running, planned) == []
    assert {name: planned.streams[name] for name in "abc"} == running.streams
    assert judge(planned) == []


@pytest.mark.parametrize(
    "change",
    [
        {"payload_octets": 200},
        {"listeners": ("m",)},
        {"earliest_ns": 300 * US},
        {"traffic_classes": ("slower",)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_changed_stream_is_placed_anew_and_the_others_stay(
    running: Plan, change: dict[str, object]
) -> None:
    planned = plan(intent(FORK, A, replace(B, **change), C), keep=running)
    assert judge(planned) == []
    assert planned.streams["b"] != running.streams["b"]
    assert {name: planned.streams[name] for name in "ac"} == {
        name: running.streams[name] for name in "ac"
    }


def test_a_removed_stream_vanishes_with_its_gates(running: Plan) -> None:
    planned = plan(intent(FORK, A, B), keep=running)
    assert planned.streams.keys() == {"a", "b"}
    assert PortRef("s2", "m") in running.gates
    assert PortRef("s2", "m") not in planned.gates
    assert judge(planned) == []


def test_ports_that_no_new_stream_crosses_keep_their_very_list(running: Plan) -> None:
    planned = plan(intent(FORK, A, B, C, stream("d", "t", "n")), keep=running)
    assert {port: planned.gates[port] for port in running.gates} == running.gates
    assert planned.gates.keys() - running.gates.keys() == {PortRef("s1", "n")}


def test_a_stream_over_a_link_that_changed_is_placed_anew(running: Plan) -> None:
    slower = with_links(intent(FORK, A, B, C), PortRef("s2", "m"), rate_bps=10**8)
    planned = plan(slower, keep=running)
    assert [n for n in "abc" if planned.streams[n] != running.streams[n]] == ["c"]
    assert judge(planned) == []


def test_a_stream_whose_class_changed_is_placed_anew(running: Plan) -> None:
    moved_class = replace(CYCLIC, number=3)
    wanted = intent(FORK, A, B, C)
    wanted = replace(wanted, classes={**wanted.classes, "cyclic": moved_class})
    planned = plan(wanted, keep=running)
    assert [each.stream for each in moves(running, planned)] == ["a", "b", "c"]
    assert judge(planned) == []


def test_classes_that_only_get_other_names_move_no_stream(running: Plan) -> None:
    streams = [replace(its, traffic_classes=("fast",)) for its in (A, B, C)]
    wanted = intent(FORK, *streams)
    names = {"cyclic": "fast", "control": "network"}
    classes = {
        names.get(name, name): replace(its, name=names.get(name, name))
        for name, its in wanted.classes.items()
    }
    planned = plan(replace(wanted, classes=classes), keep=running)
    assert moves(running, planned) == []
    assert planned.gates == running.gates
    assert judge(planned) == []


def test_a_stream_through_a_switch_that_changed_is_placed_anew(running: Plan) -> None:
    with_n = intent(FORK, A, B, C, stream("d", "t", "n"))
    before = plan(with_n, keep=running)
    slow = replace(FORK.bridges["s2"], processing_max_ns=9000)
    wanted = replace(with_n, network=replace(FORK, bridges={**FORK.bridges, "s2": slow}))
    planned = plan(wanted, keep=before)
    assert [n for n in "abcd" if planned.streams[n] == before.streams[n]] == ["d"]
    assert judge(planned) == []


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (intent(FORK, replace(A, period_ns=2 * MS), B, C), "its period changed"),
        (intent(FORK, replace(A, listeners=("m",)), B, C), "its listeners changed"),
        (with_links(intent(FORK, A, B, C), PortRef("s2", "l"), rate_bps=10**8), "s2/l changed"),
        (intent(replace(FORK, gate_margin_ns=100), A, B, C), "gate margin changed"),
        (intent(FORK, A, B, C), "planned again"),
    ],
)
def test_a_stream_that_moves_is_told_with_the_reason(
    running: Plan, wanted: Intent, reason: str
) -> None:
    told = {each.stream: each for each in moves(running, plan(wanted))}
    assert told["a"].reason == reason
    assert told["a"].talker == "t"
    assert told["a"].before.talker_offsets_ns == running.streams["a"].talker_offsets_ns


@pytest.mark.parametrize(
    ("change", "named"),
    [({"clock_error_ns": 1500}, "clock error"), ({"gate_margin_ns": 100}, "gate margin")],
)
def test_where_the_figures_differ_that_all_rests_on_nothing_can_be_kept(
    running: Plan, change: dict[str, int], named: str
) -> None:
    wanted = intent(replace(FORK, **change), A, B, C)
    with pytest.raises(InputError, match=f"made for another {named}") as refused:
        plan(wanted, keep=running)
    assert "without --keep" in str(refused.value.hint)


def test_a_stream_that_finds_no_place_around_the_kept_is_refused(running: Plan) -> None:
    at = running.streams["a"].hops[0].offset_ns
    wanted = with_streams(
        running.intent, A, B, C, stream("d", "t", "l", earliest_ns=at, latest_ns=at)
    )
    with pytest.raises(Unschedulable) as refused:
        plan(wanted, algorithm="waiting", keep=running)
    assert refused.value.reasons.keys() == {"d"}
    assert "no free slot" in refused.value.reasons["d"]


def test_a_stream_that_was_refused_is_tried_again(running: Plan) -> None:
    without = replace(
        running,
        streams={name: running.streams[name] for name in "ab"},
        refused={"c": "no room"},
    )
    planned = plan(running.intent, keep=without)
    assert planned.refused == {}
    assert moves(without, planned) == []
    assert judge(planned) == []


def test_moved_names_those_of_both_plans_that_differ_in_route_offset_or_class(
    running: Plan,
) -> None:
    def shifted(name: str, **change: object) -> dict[str, object]:
        (way,) = running.streams[name].paths
        hops = (replace(way[0], **change), *way[1:])
        return {name: replace(running.streams[name], paths=(hops,))}

    other = replace(
        running,
        streams={
            **running.streams,
            **shifted("a", offset_ns=7),
            **shifted("c", traffic_class=4),
            "new": running.streams["b"],
        },
    )
    assert [each.stream for each in moves(running, other)] == ["a", "c"]
    assert moves(running, running) == []


@examples(max_examples=60)
@given(intents(streams_max=8, entries_max=st.just(0) | st.integers(16, 64)), st.data())
def test_whatever_is_kept_the_plan_is_sound_and_nothing_moves(
    wanted: Intent, data: st.DataObject
) -> None:
    some = data.draw(st.sets(st.sampled_from(sorted(wanted.streams))))
    before = with_streams(wanted, *(s for name, s in wanted.streams.items() if name in some))
    try:
        running = plan(before, algorithm="waiting", best_effort=True)
        planned = plan(wanted, algorithm="waiting", keep=running, best_effort=True)
    except Unschedulable:  # a port whose list stays too long, or where others would starve
        return
    assert judge(planned) == []
    assert moves(running, planned) == []
    assert running.streams.keys() <= planned.streams.keys()


def applied(before: Plan, live: Live, wanted: Intent, *names: str) -> Plan:
    """The plan that the network runs once the changes of adding the streams are made."""
    changes = live.add([wanted.streams[name] for name in names])
    return Plan(
        wanted,
        {**before.streams, **changes.streams},
        {**before.gates, **changes.gates},
        before.algorithm,
    )


def test_a_live_plan_takes_streams_in_and_stays_sound(running: Plan) -> None:
    live = Live(running)
    wanted = intent(FORK, A, B, C, stream("d", "u", "m"), stream("e", "t", "n"))
    after = applied(running, live, wanted, "d", "e")
    assert judge(after) == []
    assert moves(running, after) == []


def test_a_live_plan_names_the_ports_that_a_stream_leaves(running: Plan) -> None:
    changes = Live(running).remove(["c"])
    without = plan(intent(FORK, A, B), keep=running)
    between = PortRef("s1", "s2")
    assert changes.streams == {}
    assert changes.gates == {between: without.gates[between], PortRef("s2", "m"): None}
    assert changes.gates[between] != running.gates[between]


def test_what_a_live_plan_took_in_and_let_go_leaves_no_trace(running: Plan) -> None:
    live = Live(running)
    d = stream("d", "u", "m")
    live.add([d])
    changes = live.remove(["d"])
    assert changes.gates == {port: running.gates[port] for port in changes.gates}
    assert live.add([d]) == Live(running).add([d])


def test_a_live_plan_refuses_a_stream_that_is_there_already(running: Plan) -> None:
    live = Live(running)
    changed = replace(running.intent.streams["a"], payload_octets=700)
    with pytest.raises(Unschedulable, match="a: is there already"):
        live.add([changed])
    assert live.remove(["a"]).gates == Live(running).remove(["a"]).gates


def test_a_live_plan_places_long_periods_in_the_beat_of_the_short_ones() -> None:
    """As a plan does: all behind each other would leave less of the first beat than of others."""
    often = stream("often", "t", "l", period_ns=MS)
    late = [stream(f"late{n}", "t", "l", period_ns=4 * MS) for n in range(4)]
    live = Live(plan(intent(FORK, often)))
    added = [live.add([each]).streams[each.name] for each in late]
    assert sorted(its.talker_offsets_ns[0] // MS for its in added) == [0, 1, 2, 3]


def test_a_live_plan_that_refuses_streams_stays_as_it_was(running: Plan) -> None:
    live = Live(running)
    at = running.streams["a"].hops[0].offset_ns
    fits = stream("fits", "u", "m")
    blocked = stream("blocked", "t", "l", earliest_ns=at, latest_ns=at)
    with pytest.raises(Unschedulable) as refused:
        live.add([fits, blocked])
    assert refused.value.reasons.keys() == {"blocked"}
    assert live.add([fits]) == Live(running).add([fits])


NOTHING_BLOCKS = (CYCLIC, BEST_EFFORT)


def followers(count: int, *, talker: str = "t") -> list[Stream]:
    return [stream(f"{talker}{i}", talker, "l", period_ns=500 * US) for i in range(count)]


def test_others_keep_clear_of_kept_streams_that_follow_each_other() -> None:
    """More than fit alone in their queues: one of them may leave early where another is lost."""
    fork = with_full_offload(network("t-s1", "u-s2", "s1-s2", "s2-l"))
    before = plan(intent(fork, *followers(70), classes=NOTHING_BLOCKS))
    more = [*followers(80), *followers(5, talker="u")]
    after = plan(intent(fork, *more, classes=NOTHING_BLOCKS), keep=before)
    assert len(after.streams) == 85
    assert moves(before, after) == []
    assert judge(after) == []


def after_leaving(running: Plan, live: Live, *names: str) -> Plan:
    """The plan that the network runs once the changes of removing the streams are made."""
    changes = live.remove(names)
    wanted = [its for name, its in running.intent.streams.items() if name not in names]
    return replace(
        running,
        intent=with_streams(running.intent, *wanted),
        streams={name: its for name, its in running.streams.items() if name not in names},
        gates={port: its for port, its in {**running.gates, **changes.gates}.items() if its},
    )


AT_L = PortRef("s1", "l")


def one_switch(*streams: Stream, **facts: int) -> Intent:
    net = with_full_offload(network("t-s1", "u-s1", "s1-l"))
    return with_links(intent(net, *streams, classes=NOTHING_BLOCKS), AT_L, **facts)


def at(name: str, start_ns: int, period_ns: int = MS) -> Stream:
    return stream(name, "t", "l", earliest_ns=start_ns, latest_ns=start_ns, period_ns=period_ns)


def test_who_leaves_a_port_with_a_short_list_leaves_time_for_best_effort() -> None:
    three = one_switch(at("a", 0), at("b", 300 * US), at("c", 600 * US), gate_entries_max=6)
    running = plan(three)
    assert judge(after_leaving(running, Live(running), "b", "c")) == []


def test_a_port_keeps_its_list_if_it_would_need_a_longer_one_without_a_stream() -> None:
    """Three frames right behind each other have one window: without the second they have two."""
    row = [at(name, 100 * US + BUSY_NS * position) for position, name in enumerate("abc")]
    running = plan(one_switch(*row, gate_entries_max=4))
    live = Live(running)
    fewer = after_leaving(running, live, "b")
    assert fewer.gates[AT_L] == running.gates[AT_L]
    assert judge(fewer) == []
    with pytest.raises(Unschedulable, match="exceed the limit of the port"):
        live.add([at("d", 500 * US)])
    fewest = after_leaving(fewer, live, "a")
    assert fewest.gates == plan(fewest.intent).gates
    assert judge(fewest) == []


def test_a_live_plan_made_of_one_whose_port_kept_its_list_stays_sound() -> None:
    row = [at(name, 100 * US + BUSY_NS * position) for position, name in enumerate("abc")]
    running = plan(one_switch(*row, gate_entries_max=4))
    fewer = after_leaving(running, Live(running), "b")
    fewest = after_leaving(fewer, Live(fewer), "c")
    assert judge(fewest) == []
    assert fewest.gates != fewer.gates


def test_a_removal_without_any_sound_list_is_refused_and_changes_nothing() -> None:
    """Only with the other stream is the cycle a multiple of the tick."""
    odd, even = at("odd", 0, 1_500_500), at("even", 300_000, 3_001_000)
    running = plan(one_switch(odd, even, gate_tick_ns=1000))
    live = Live(running)
    with pytest.raises(Unschedulable, match="cannot keep its current list either"):
        live.remove(["even"])
    assert live.remove(["odd"]).gates == Live(running).remove(["odd"]).gates


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (stream("d", "t", "x"), "no path from t to x"),
        (stream("d", "t", "l", paths=2), "no two paths from t to l"),
        (stream("d", "t", "l", max_latency_ns=1000), "needs at least"),
    ],
)
def test_a_live_plan_refuses_what_cannot_be_with_the_reason(wanted, reason: str) -> None:
    net = network("t-s1", "s1-s2", "s2-l", "x-s3")
    live = Live(plan(intent(net, stream("a", "t", "l"))))
    with pytest.raises(Unschedulable, match=reason):
        live.add([wanted])
    assert live.add([stream("e", "t", "l")]).streams.keys() == {"e"}


def test_a_link_that_kept_streams_fill_is_left_to_them() -> None:
    """Nobody who could be led around it is on it: the new stream alone goes another way."""
    net = network("t-s1", "u-s1", "s1-s2", "s1-s3", "s3-s2", "s2-l", "s2-m", processing_ns=(0, 0))
    net = replace(net, clock_error_ns=0)
    short = tuple(replace(c, max_frame_octets=64) for c in CLASSES if c.name != "control")
    full = [
        stream(f"f{k}", "t", "l", payload_octets=1500, period_ns=100 * US, latest_ns=13 * US * k)
        for k in range(7)
    ]
    before = plan(intent(net, *full, classes=short))
    after = plan(intent(net, *full, stream("new", "u", "m"), classes=short), keep=before)
    assert moves(before, after) == []
    assert judge(after) == []
    assert "new" in after.streams
