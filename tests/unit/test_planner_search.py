"""The searches find the earliest place there is, compared with trying every nanosecond.

The network is tiny: a frame of 60 octets takes one nanosecond, and periods are a few.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from cnc.model import FrameOverhead, Stream
from cnc.planner.problem import Problem
from cnc.planner.route import Member, Placement, Route
from cnc.planner.search import edge_delay, with_waiting, without_waiting
from cnc.planner.timetable import Timetable
from tests.unit.planner_networks import (
    CYCLIC,
    SLOWER,
    examples,
    intent,
    network,
    problem,
    stream,
)

FRAME_OCTETS = 60
NET = replace(
    network(
        "t-s1",
        "u-s1",
        "s1-s2",
        "s2-l",
        "s2-m",
        clock_error_ns=1,
        rate_bps=FRAME_OCTETS * 8 * 10**9,
        processing_ns=(1, 2),
    ),
    overhead=FrameOverhead(0, 0, 0, 0),
)
NET = replace(
    NET, links={port: replace(link, propagation_ns=0) for port, link in NET.links.items()}
)
WANTED = Member("wanted", 0)
PORTS = sorted(port for port in NET.links if port.node in NET.bridges)
CLASSES = st.sampled_from([("cyclic",), ("slower",), ("cyclic", "slower"), ("slower", "cyclic")])


@st.composite
def tiny_streams(draw: st.DrawFn, name: str, *, latency_max_ns: int = 40) -> Stream:
    period = draw(st.sampled_from([16, 24, 32]))
    earliest = draw(st.integers(0, period - 1))
    return stream(
        name,
        draw(st.sampled_from("tu")),
        *draw(st.sampled_from([("l",), ("m",), ("l", "m")])),
        traffic_classes=draw(CLASSES),
        period_ns=period,
        payload_octets=draw(st.sampled_from([1, 1, 2])) * FRAME_OCTETS,
        max_latency_ns=latency_max_ns,
        earliest_ns=earliest,
        latest_ns=draw(st.just(None) | st.integers(earliest, period - 1)),
    )


@st.composite
def tables(draw: st.DrawFn) -> tuple[Timetable, Route]:
    """A few streams anywhere, even on top of each other, and one that is to be placed."""
    others = [draw(tiny_streams(f"other{i}")) for i in range(draw(st.integers(0, 5)))]
    wanted = draw(tiny_streams("wanted", latency_max_ns=draw(st.sampled_from([14, 18, 22]))))
    loose = draw(st.sets(st.sampled_from(PORTS), max_size=2))
    tiny = problem(intent(NET, wanted, *others, classes=(CYCLIC, SLOWER)), loose=frozenset(loose))
    table = Timetable(tiny)
    for other in others:
        route = route_of(tiny, Member(other.name, 0))
        start = draw(st.integers(0, other.period_ns - 1))
        offsets = tuple(start + after for after in route.offsets_ns)
        table.place(Placement(route, offsets, draw(st.sampled_from(tiny.classes(route)))))
    return table, route_of(tiny, WANTED)


def route_of(tiny: Problem, member: Member) -> Route:
    return tiny.route(member, tiny.trees[member.stream][member.path])


def starts(table: Timetable) -> range:
    first, last = table.problem.window_ns(WANTED)
    return range(first, last + 1)


def is_free(table: Timetable, placement: Placement) -> bool:
    route, offsets, _ = placement
    return not (
        table.on_links(route, offsets)
        or table.in_queues(placement)
        or meets_itself(placement)
        or any(
            edge_delay(offset, leg, route.period_ns)
            for offset, leg in zip(offsets, route.legs, strict=True)
            if leg.edge_min_ns
        )
    )


def meets_itself(placement: Placement) -> bool:
    """Whether a frame would still be on a link or in a queue when the next one comes."""
    route, offsets, _ = placement
    return any(
        leg.window_ns > route.period_ns
        or (
            leg.parent is not None
            and offset + leg.hold_ns - offsets[leg.anchor] - leg.min_ns > route.period_ns
        )
        for offset, leg in zip(offsets, route.legs, strict=True)
    )


@examples(max_examples=250)
@given(tables())
def test_without_waiting_the_earliest_start_in_the_first_free_class_is_found(
    given_table: tuple[Timetable, Route],
) -> None:
    table, route = given_table
    places = (
        Placement(route, tuple(start + after for after in route.offsets_ns), number)
        for start in starts(table)
        for number in table.classes(route)
    )
    assert without_waiting(table, route) == next((p for p in places if is_free(table, p)), None)


def waiting_places(table: Timetable, route: Route, number: int) -> Iterator[tuple[int, ...]]:
    """Every choice of offsets that keeps all rules."""
    latency_max = table.problem.stream(WANTED).max_latency_ns
    for start in starts(table):
        least = (start + after for after in route.offsets_ns[1:])
        for later in product(*(range(o, start + latency_max + 1) for o in least)):
            offsets = start, *later
            if any(
                offset < offsets[leg.parent] + leg.max_ns
                for offset, leg in zip(offsets, route.legs, strict=True)
                if leg.parent is not None
            ):
                continue
            if route.latency_ns(offsets) <= latency_max and is_free(
                table, Placement(route, offsets, number)
            ):
                yield offsets


@examples(max_examples=120)
@given(tables(), st.sampled_from([CYCLIC.number, SLOWER.number]))
def test_with_waiting_every_hop_is_as_early_as_any_choice_allows(
    given_table: tuple[Timetable, Route], number: int
) -> None:
    table, route = given_table
    places = list(waiting_places(table, route, number))
    latency_max = table.problem.stream(WANTED).max_latency_ns
    found = with_waiting(table, route, number, latency_max)
    if not places:
        assert found is None
        return
    assert found is not None
    assert found.offsets_ns in places
    assert found.offsets_ns == tuple(map(min, zip(*places, strict=True)))
