"""How much arrivals may vary: planned where it is limited, refused where it cannot be, judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.model import Forwarding, Plan, PortRef, TalkerInterference
from cnc.planner import ALGORITHMS, Live, plan
from tests.simulator.campaign import verdict
from tests.unit.planner_fuzz import SHORT_LISTS, first_faults, steady_plan
from tests.unit.planner_networks import (
    BLOCKING_NS,
    CYCLIC,
    LINE,
    OUTLASTS_NS,
    RECEIVED_MIN_NS,
    RECEIVED_NS,
    RING,
    SLOW_BLOCKING_NS,
    SLOWER,
    US,
    intent,
    network,
    stream,
    with_links,
)

CLOCKS_NS = 2 * LINE.clock_error_ns
# At a port that holds frames back, on a link slower or faster than its rate.
HELD_NS = BLOCKING_NS + OUTLASTS_NS + RECEIVED_NS - RECEIVED_MIN_NS + CLOCKS_NS

# By s2 it is one link to the listener's switch, by s5 and its neighbours four.
BRIDGED_RING = replace(
    network("t-s1", "s1-s2", "s2-s3", "s3-s4", "s4-s5", "s5-s1", "s2-l"),
    forwarding=Forwarding.BRIDGED,
)


def codes(planned: Plan) -> list[tuple[str, str]]:
    return [(each.code, each.text) for each in judge(planned)]


def test_behind_a_gate_arrivals_vary_by_what_delays_the_start_and_twice_the_clock_error() -> None:
    planned = plan(intent(LINE, stream("a", "t", "l", max_jitter_ns=10 * US)))
    assert planned.jitter_ns == {"a": {"l": HELD_NS}}
    assert judge(planned) == []


def test_the_gate_margin_is_part_of_it() -> None:
    late = replace(LINE, gate_margin_ns=500)
    planned = plan(intent(late, stream("a", "t", "l", max_jitter_ns=10 * US)))
    assert planned.jitter_ns == {"a": {"l": HELD_NS + 500}}


def test_a_stream_without_a_limit_has_no_bound() -> None:
    planned = plan(intent(LINE, stream("a", "t", "l")))
    assert planned.jitter_ns == {}


def test_each_listener_has_a_bound_of_its_own() -> None:
    slow = with_links(
        intent(RING, stream("a", "t", "l", "m", max_jitter_ns=100 * US)),
        PortRef("s2", "m"),
        rate_bps=10**8,
    )
    planned = plan(slow)
    # To m, at a tenth of the rate: longest frames outlast their gate by 13 ns, and a frame takes
    # 10398 to 10402 ns.
    longer = SLOW_BLOCKING_NS - BLOCKING_NS + (13 - OUTLASTS_NS) + (10_402 - 10_398) - 2
    assert planned.jitter_ns == {"a": {"l": HELD_NS, "m": HELD_NS + longer}}


@pytest.mark.parametrize("short_ns", [1, 1000])
def test_less_than_that_is_refused_with_what_makes_arrivals_vary(short_ns: int) -> None:
    with pytest.raises(Unschedulable) as refused:
        plan(intent(LINE, stream("a", "t", "l", max_jitter_ns=HELD_NS - short_ns)))
    assert refused.value.reasons["a"] == (
        f"arrives at l within {HELD_NS / 1000:g} µs at best, max-jitter is "
        f"{(HELD_NS - short_ns) / 1000:g} µs. Of this, control frames in the way "
        f"{BLOCKING_NS / 1000:g} µs, clock error 2 µs, a link within 100 ppm of its rate 0.004 µs. "
        f"Raise max-jitter to {HELD_NS / 1000:g} µs or lower one of these"
    )


def test_the_others_are_planned_as_if_it_were_not_there() -> None:
    others = [stream(f"f{number}", "t", "l") for number in range(5)]
    hopeless = stream("a", "t", "l", max_jitter_ns=HELD_NS - 1)
    planned = plan(intent(LINE, hopeless, *others), best_effort=True)
    alone = plan(intent(LINE, *others))
    assert planned.refused.keys() == {"a"}
    assert (planned.streams, planned.algorithm) == (alone.streams, alone.algorithm)


def test_a_port_that_runs_a_short_list_is_named_where_it_lets_frames_through_early() -> None:
    streams = [
        stream(name, "t", "l", earliest_ns=at * US, latest_ns=at * US)
        for name, at in (("a", 0), ("b", 100), ("c", 200))
    ]
    last = PortRef("s2", "l")
    running = plan(with_links(intent(LINE, *streams), last, gate_entries_max=4))
    with pytest.raises(Unschedulable) as refused:
        Live(running).add([stream("d", "t", "l", max_jitter_ns=HELD_NS)])
    assert "gates of s2/l that do not hold frames back" in refused.value.reasons["d"]


def test_a_talker_that_is_cabled_to_its_listener_may_be_in_its_own_way() -> None:
    pair = network("t-l")
    pair = replace(
        pair,
        end_stations=dict(pair.end_stations)
        | {"t": replace(pair.end_stations["t"], interference=TalkerInterference.ONE_FRAME)},
    )
    with pytest.raises(Unschedulable, match="best effort of the talker itself"):
        plan(intent(pair, stream("a", "t", "l", max_jitter_ns=HELD_NS)))


def test_frames_of_a_limited_stream_do_not_run_ahead_of_their_port() -> None:
    """Many streams right behind each other are held back by no port, but those that are limited."""
    many = [stream(f"f{number}", "t", "l", period_ns=500 * US) for number in range(70)]
    limited = replace(many[0], max_jitter_ns=HELD_NS)
    planned = plan(intent(LINE, limited, *many[1:]), best_effort=True)
    assert planned.jitter_ns["f0"] == {"l": HELD_NS}
    assert judge(planned) == []


def test_a_list_that_is_too_long_is_not_shortened_where_that_breaks_a_limit() -> None:
    streams = [
        stream("a", "t", "l", earliest_ns=0, latest_ns=0, max_jitter_ns=HELD_NS),
        stream("b", "t", "l", earliest_ns=100 * US, latest_ns=100 * US),
        stream("c", "t", "l", earliest_ns=200 * US, latest_ns=200 * US),
    ]
    short = with_links(intent(LINE, *streams), PortRef("s2", "l"), gate_entries_max=4)
    with pytest.raises(Unschedulable, match="port s2/l"):
        plan(short)
    free = replace(streams[0], max_jitter_ns=None)
    assert plan(
        with_links(intent(LINE, free, *streams[1:]), PortRef("s2", "l"), gate_entries_max=4)
    )


@pytest.mark.parametrize("algorithm", sorted({*ALGORITHMS} - {"no-wait"}))
def test_the_copy_that_is_sooner_there_waits_at_the_last_switch(algorithm: str) -> None:
    twice = stream("a", "t", "l", paths=2)
    free = plan(intent(BRIDGED_RING, twice), algorithm=algorithm)
    limited = plan(intent(BRIDGED_RING, replace(twice, max_jitter_ns=20 * US)), algorithm=algorithm)
    assert last_starts_apart_ns(free) + HELD_NS > 20 * US
    assert last_starts_apart_ns(limited) + HELD_NS == limited.jitter_ns["a"]["l"] <= 20 * US
    assert limited.streams["a"].latency_bound_ns == free.streams["a"].latency_bound_ns
    assert judge(limited) == []


def last_starts_apart_ns(planned: Plan) -> int:
    """Between the starts of the two copies of a frame on the link to the listener."""
    one, other = (path[-1].offset_ns for path in planned.streams["a"].paths)
    return abs(one - other)


@pytest.mark.parametrize("seed", [*range(1, 9), 38])
def test_no_arrival_varies_more_than_promised_in_random_networks(seed: int) -> None:
    for planned in steady_plan(seed):
        assert verdict(planned, seed) == "kept"


def test_no_frame_is_in_a_queue_with_the_next_of_its_stream() -> None:
    """It would leave a period early where the one before is lost. Here one that is as slow as long
    frames takes more than its period to cross a port, and others are ejected for it."""
    assert first_faults(steady_plan(298, (0, 0, *SHORT_LISTS))) == []


def test_the_judge_refuses_a_limit_that_is_broken() -> None:
    planned = plan(intent(LINE, stream("a", "t", "l", max_jitter_ns=HELD_NS)))
    streams = {"a": replace(planned.intent.streams["a"], max_jitter_ns=HELD_NS - 1)}
    stricter = replace(planned, intent=replace(planned.intent, streams=streams))
    assert codes(stricter) == [
        ("jitter", f"may reach l within {HELD_NS} ns, {HELD_NS - 1} ns allowed")
    ]


def test_the_judge_refuses_a_promise_that_is_broken() -> None:
    planned = plan(intent(LINE, stream("a", "t", "l", max_jitter_ns=10 * US)))
    bold = replace(planned, jitter_ns={"a": {"l": HELD_NS - 1}})
    assert codes(bold) == [
        ("jitter", f"may reach l within {HELD_NS} ns, the plan promises {HELD_NS - 1} ns")
    ]


@pytest.mark.parametrize(
    ("limit_ns", "promised", "what"),
    [
        (10 * US, {}, "has a limit of its jitter, and no bound of it at l"),
        (None, {"a": {"l": 10 * US}}, "has a jitter bound that the intent does not ask for"),
        (
            10 * US,
            {"a": {"l": 10 * US, "t": 10 * US}},
            "has a jitter bound at t, which is not a listener",
        ),
    ],
)
def test_the_judge_refuses_bounds_of_others_than_limited_streams_and_their_listeners(
    limit_ns: int | None, promised: dict[str, dict[str, int]], what: str
) -> None:
    planned = plan(intent(LINE, stream("a", "t", "l", max_jitter_ns=limit_ns)))
    assert codes(replace(planned, jitter_ns=promised)) == [("jitter", what)]


def test_the_judge_refuses_a_last_gate_that_opens_early() -> None:
    """What a gate lets through before the planned time widens the spread by as much."""
    planned = plan(intent(LINE, stream("a", "t", "l", max_jitter_ns=HELD_NS, earliest_ns=100 * US)))
    port = PortRef("s2", "l")
    gates = planned.gates[port]
    bit = 1 << CYCLIC.number
    before = next(n for n, e in enumerate(gates.entries) if e.gate_states & bit) - 1
    early = list(gates.entries)
    early[before] = replace(early[before], gate_states=early[before].gate_states | bit)
    opened = replace(planned, gates={**planned.gates, port: replace(gates, entries=tuple(early))})
    assert "jitter" in {code for code, _ in codes(opened)}


def test_kept_streams_keep_their_bound_beside_others() -> None:
    one = stream("a", "t", "l", max_jitter_ns=HELD_NS)
    running = plan(intent(LINE, one))
    more = [stream(f"f{n}", "t", "l", traffic_classes=("cyclic", "slower")) for n in range(5)]
    planned = plan(intent(LINE, one, *more), keep=running)
    assert planned.streams["a"] == running.streams["a"]
    assert planned.jitter_ns == running.jitter_ns
    assert judge(planned) == []
    assert SLOWER.name in planned.intent.classes
