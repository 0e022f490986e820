"""Whatever the planner returns on random small networks, the judge finds nothing wrong with it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.model import (
    Bridge,
    ClassRole,
    EndStation,
    Intent,
    Link,
    Network,
    PortRef,
    Stream,
    TrafficClass,
)
from cnc.planner import plan
from cnc.planner.occupancy import Occupancy

US = 1000
BEST_EFFORT = TrafficClass("best-effort", 0, 0, (0,), ClassRole.BEST_EFFORT)
SCHEDULED = [
    TrafficClass("cyclic", 6, 6, (46,), ClassRole.SCHEDULED),
    TrafficClass("slower", 4, 4, (40,), ClassRole.SCHEDULED),
]


def cables(topology: str, bridges: list[str]) -> list[tuple[str, str]]:
    match topology:
        case "star":
            return [(bridges[0], other) for other in bridges[1:]]
        case "ring" if len(bridges) > 2:
            return [*pairwise(bridges), (bridges[-1], bridges[0])]
        case _:
            return list(pairwise(bridges))


@st.composite
def networks(draw: st.DrawFn) -> Network:
    bridges = [f"s{i}" for i in range(draw(st.integers(2, 5)))]
    stations = [f"e{i}" for i in range(draw(st.integers(2, 6)))]
    pairs = cables(draw(st.sampled_from(["line", "star", "ring"])), bridges)
    pairs += [(station, draw(st.sampled_from(bridges))) for station in stations]
    links = {}
    for a, b in pairs:
        rate = draw(st.sampled_from([10**8, 10**9, 10**10]))
        propagation = draw(st.integers(0, 1000))
        for source, target in ((a, b), (b, a)):
            port = PortRef(source, target)
            shortest = draw(st.sampled_from([0, 0, 1000, 3000]))
            links[port] = Link(
                port,
                PortRef(target, source),
                rate,
                propagation,
                gate_interval_min_ns=shortest,
            )
    nodes = {}
    for name in bridges:
        least = draw(st.integers(0, 5000))
        nodes[name] = Bridge(name, least, least + draw(st.sampled_from([0, 1, 700, 4000])))
    error = draw(st.sampled_from([0, 1, 500, 2000]))
    return Network(nodes, {n: EndStation(n) for n in stations}, links, error)


@st.composite
def intents(draw: st.DrawFn) -> Intent:
    network = draw(networks())
    classes = [*SCHEDULED, BEST_EFFORT]
    if draw(st.booleans()):
        number = draw(st.sampled_from([7, 5]))
        octets = draw(st.sampled_from([64, 128, 1522]))
        classes.append(TrafficClass("control", number, number, (48,), ClassRole.CONTROL, octets))
    stations = sorted(network.end_stations)
    streams = {}
    for index in range(draw(st.integers(1, 6))):
        talker, *others = draw(st.permutations(stations))
        period = draw(st.sampled_from([500, 750, 1000, 1200, 2000])) * US
        earliest = draw(st.sampled_from([0, 0, 100 * US]) | st.integers(0, period - 1))
        name = f"f{index}"
        streams[name] = Stream(
            name=name,
            talker=talker,
            listeners=tuple(others[: draw(st.integers(1, 3))]),
            traffic_class=draw(st.sampled_from(SCHEDULED)).name,
            period_ns=period,
            payload_octets=draw(st.sampled_from([46, 100, 700, 1500])),
            max_latency_ns=draw(st.sampled_from([300, 2000, 2000])) * US,
            earliest_ns=earliest,
            latest_ns=draw(st.sampled_from([None, period - 1])),
        )
    return Intent("random", network, {c.name: c for c in classes}, streams, {})


@settings(max_examples=300, deadline=None)
@given(intents())
def test_a_plan_is_sound_or_refused(intent: Intent) -> None:
    try:
        planned = plan(intent)
    except Unschedulable:
        return
    assert judge(planned) == []


reservations = st.tuples(
    st.integers(0, 40), st.integers(1, 6), st.sampled_from([6, 8, 9, 12, 24])
).filter(lambda r: r[1] <= r[2])


@settings(max_examples=300, deadline=None)
@given(st.lists(reservations, max_size=6), reservations)
def test_earliest_fit_skips_no_free_place_and_takes_no_busy_one(
    wished: list[tuple[int, int, int]], wanted: tuple[int, int, int]
) -> None:
    """Compared with looking at every nanosecond of the common period of all, 72 ns."""
    occupancy = Occupancy()
    busy: set[int] = set()

    def ticks(start: int, duration: int, period: int) -> set[int]:
        return {(start + i + k) % 72 for k in range(0, 72, period) for i in range(duration)}

    for start, duration, period in wished:
        if not busy & ticks(start, duration, period):
            occupancy.reserve(start, duration, period)
            busy |= ticks(start, duration, period)
    start, duration, period = wanted
    free = [s for s in range(start, start + 72) if not busy & ticks(s, duration, period)]
    found: int | None = start
    while found is not None and found < start + 72:
        shift = occupancy.shift(found, duration, period)
        if shift == 0:
            break
        found = None if shift is None else found + shift
    assert (found if found is not None and found < start + 72 else None) == (
        free[0] if free else None
    )
