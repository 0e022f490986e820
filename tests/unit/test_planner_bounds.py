"""The latencies that plans promise are bounds, on networks that do their worst."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cnc.errors import Unschedulable
from cnc.model import Intent
from cnc.planner import plan
from tests.simulator.adversary import Chance
from tests.simulator.outcome import misses
from tests.unit.planner_networks import (
    LINE,
    MS,
    US,
    examples,
    intent,
    intents,
    stream,
    with_links,
)


@examples(max_examples=250)
@given(intents(streams_max=8, entries_max=st.just(0) | st.integers(16, 64)), st.integers(0, 1000))
def test_no_frame_is_later_than_its_bound_and_none_stays_in_a_queue(
    wanted: Intent, seed: int
) -> None:
    try:
        planned = plan(wanted, algorithm="waiting", best_effort=True)
    except Unschedulable:
        return
    assert misses(planned, Chance(seed), duration_ns=3 * MS) == []


@examples(max_examples=100)
@given(
    limit=st.integers(4, 30),
    periods_us=st.lists(st.sampled_from([250, 500, 1000]), min_size=3, max_size=12),
    jitter_ns=st.integers(0, 20_000),
    seed=st.integers(0, 1000),
)
def test_frames_that_leave_early_where_a_list_is_short_spoil_nothing(
    limit: int, periods_us: list[int], jitter_ns: int, seed: int
) -> None:
    streams = [
        stream(f"f{i}", "t", "l", period_ns=period * US) for i, period in enumerate(periods_us)
    ]
    net = replace(
        LINE,
        bridges={
            name: replace(bridge, processing_max_ns=bridge.processing_min_ns + jitter_ns)
            for name, bridge in LINE.bridges.items()
        },
    )
    wanted = with_links(intent(net, *streams), gate_entries_max=limit)
    try:
        planned = plan(wanted, algorithm="waiting", best_effort=True)
    except Unschedulable:
        return
    assert misses(planned, Chance(seed), duration_ns=4 * MS) == []
