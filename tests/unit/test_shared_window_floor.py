"""What a stream needs even alone: the planner gives it a place at that latency."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cnc.model import Network, Stream
from cnc.planner import plan
from tests.shared_windows.floor import Floors
from tests.unit.planner_networks import (
    BEST_EFFORT,
    CYCLIC,
    LINE,
    MS,
    RECEIVED_NS,
    RING,
    US,
    intent,
    network,
    stream,
    with_full_offload,
)

MARGIN_NS = 50 * US


def late(net: Network) -> Network:
    """With gates that open late, and nothing to recover from."""
    return replace(with_full_offload(net), gate_margin_ns=MARGIN_NS, disturbance_ns=None)


def test_a_floor_has_the_late_start_and_the_frame_of_each_link_and_one_clock_error():
    floor_ns = Floors(late(LINE)).floor_ns(stream("f", "t", "l"))
    assert floor_ns == 3 * (MARGIN_NS + RECEIVED_NS + 100) + 2 * 5 * US + 1 * US


def test_a_talker_is_as_late_as_it_states():
    stations = {**LINE.end_stations, "t": replace(LINE.end_stations["t"], lateness_ns=10 * US)}
    stated = replace(late(LINE), end_stations=stations)
    lone = stream("f", "t", "l")
    saved_ns = Floors(late(LINE)).floor_ns(lone) - Floors(stated).floor_ns(lone)
    assert saved_ns == MARGIN_NS - 10 * US


LONE = pytest.mark.parametrize(
    ("net", "lone"),
    [
        pytest.param(LINE, stream("f", "t", "l"), id="line"),
        pytest.param(RING, stream("f", "t", "l", "m"), id="two listeners"),
    ],
)


def has_a_place(net: Network, lone: Stream, allowed_ns: int) -> bool:
    asked = intent(net, replace(lone, max_latency_ns=allowed_ns), classes=(CYCLIC, BEST_EFFORT))
    return bool(plan(asked, best_effort=True).streams)


@LONE
def test_a_lone_stream_has_a_place_at_its_floor(net, lone):
    assert has_a_place(late(net), lone, Floors(late(net)).floor_ns(lone))


@LONE
def test_where_gates_are_exact_a_lone_stream_has_no_place_below_its_floor(net, lone):
    exact = replace(late(net), gate_margin_ns=0)
    floor_ns = Floors(exact).floor_ns(lone)
    assert has_a_place(exact, lone, floor_ns)
    assert not has_a_place(exact, lone, floor_ns - 1)


def test_the_later_of_two_copies_goes_the_long_way_around():
    floors = Floors(late(RING))
    once, twice = (floors.floor_ns(stream("f", "t", "m", paths=paths)) for paths in (1, 2))
    assert twice - once == 2 * (MARGIN_NS + RECEIVED_NS + 100 + 5 * US)


def test_the_quickest_way_counts_not_that_of_the_fewest_hops():
    slow = network("t-s1", "s1-s2", "s2-l", "s1-s3", "s3-s2")
    links = {
        port: replace(link, propagation_ns=MS) if {port.node, port.port} == {"s1", "s2"} else link
        for port, link in slow.links.items()
    }
    floor_ns = Floors(replace(slow, links=links)).floor_ns(stream("f", "t", "l"))
    assert floor_ns == 4 * (RECEIVED_NS + 100) + 3 * 5 * US + 1 * US


def test_an_end_station_forwards_nothing():
    apart = network("t-s1", "s1-x", "x-s2", "s2-l")
    with pytest.raises(ValueError, match="no way leads from t to l"):
        Floors(apart).floor_ns(stream("f", "t", "l"))
