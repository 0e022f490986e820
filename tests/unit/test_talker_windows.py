"""A talker starts in its window, whoever placed its stream, and hears of it where it cannot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from cnc.errors import Unschedulable
from cnc.model import Forwarding, Intent, Plan, Stream
from cnc.planner import ALGORITHMS, Budget, Live, plan
from tests.unit.bridged_networks import RING5, bridged
from tests.unit.planner_networks import MS, RING, US, cables, intent, network, seeded, stream

BUDGET = Budget(ejections=50)
PERIODS_NS = (500 * US, MS, 2 * MS)


def outside(planned: Plan) -> list[str]:
    """The streams whose talker does not start where it may."""
    found = []
    for name, its in planned.streams.items():
        wanted = planned.intent.streams[name]
        last = wanted.period_ns - 1 if wanted.latest_ns is None else wanted.latest_ns
        starts = (hop.offset_ns for hop in its.hops if hop.egress.node == wanted.talker)
        found += [name for start in starts if not wanted.earliest_ns <= start <= last]
    return found


def with_windows(seed: int, *, forwarding: Forwarding = Forwarding.ROUTED) -> Intent:
    """Twelve streams on a ring of four, each with a window of its own, from one instant on."""
    random = seeded(seed)
    switches = [f"s{number}" for number in range(4)]
    stations = [f"e{number}" for number in range(8)]
    net = network(
        *(f"{one}-{other}" for one, other in cables("ring", switches)),
        *(f"{station}-{switches[number % 4]}" for number, station in enumerate(stations)),
    )
    streams = []
    for number in range(12):
        talker, listener = random.sample(stations, 2)
        period = random.choice(PERIODS_NS)
        earliest = random.randrange(period)
        latest = min(period, earliest + random.choice((0, 10 * US, 200 * US)))
        streams.append(
            stream(
                f"f{number}",
                talker,
                listener,
                period_ns=period,
                earliest_ns=earliest,
                latest_ns=latest,
                max_latency_ns=random.choice((100 * US, MS)),
                paths=random.choice((1, 1, 2)),
                max_jitter_ns=random.choice((None, None, 60 * US)),
                traffic_classes=("cyclic", "slower"),
            )
        )
    return intent(replace(net, forwarding=forwarding), *streams)


@pytest.mark.parametrize("forwarding", Forwarding)
@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
@pytest.mark.parametrize("seed", range(3))
def test_every_algorithm_keeps_to_the_windows(
    seed: int, algorithm: str, forwarding: Forwarding
) -> None:
    wanted = with_windows(seed, forwarding=forwarding)
    planned = plan(wanted, algorithm=algorithm, best_effort=True, budget=BUDGET)
    assert len(planned.streams) > len(wanted.streams) // 2
    assert outside(planned) == []


@pytest.mark.parametrize("forwarding", Forwarding)
@pytest.mark.parametrize("seed", range(3))
def test_streams_that_come_later_keep_to_their_windows_beside_those_that_stay(
    seed: int, forwarding: Forwarding
) -> None:
    wanted = with_windows(seed, forwarding=forwarding)
    some, rest = list(wanted.streams.values())[::2], list(wanted.streams.values())[1::2]
    few = replace(wanted, streams={its.name: its for its in some})
    running = plan(few, best_effort=True, budget=BUDGET)
    assert outside(plan(wanted, keep=running, best_effort=True, budget=BUDGET)) == []
    live = Live(running)
    added = [its for its in rest if outside(added_to(wanted, live, [its])) == []]
    assert added == rest


def added_to(wanted: Intent, live: Live, streams: Iterable[Stream]) -> Plan:
    """A plan of what a live plan adds; of nothing where it refuses."""
    try:
        changes = live.add(list(streams))
    except Unschedulable:
        return Plan(wanted, {}, {}, "live")
    return Plan(wanted, changes.streams, changes.gates, "live")


def test_a_window_that_ends_with_the_period_has_starts_in_the_period_only() -> None:
    """An end station refuses an offset that is not below the period."""
    last = stream("a", "t", "l", earliest_ns=MS - 1, latest_ns=MS)
    planned = plan(intent(RING, last))
    assert planned.streams["a"].talker_offsets_ns == (MS - 1,)


def test_a_window_that_moves_moves_its_stream_only() -> None:
    one, other = (
        stream(name, "t", "l", earliest_ns=100 * US, latest_ns=200 * US) for name in ("a", "b")
    )
    running = plan(intent(RING, one, other))
    later = replace(one, earliest_ns=400 * US, latest_ns=500 * US)
    planned = plan(intent(RING, later, other), keep=running)
    assert outside(planned) == []
    assert planned.streams["b"] == running.streams["b"]


@pytest.mark.parametrize("paths", [1, 2])
def test_both_copies_start_in_the_window(paths: int) -> None:
    twice = stream("a", "e1", "e3", paths=paths, earliest_ns=300 * US, latest_ns=310 * US)
    crossing = [
        stream(f"f{number}", f"e{number}", "e3", latest_ns=330 * US) for number in (2, 4, 5)
    ]
    assert outside(plan(bridged(RING5, twice, *crossing))) == []
    assert outside(plan(intent(RING5, twice, *crossing))) == []


def test_a_window_without_room_is_named_with_its_ends() -> None:
    full = [stream(name, "t", "l", earliest_ns=5 * US, latest_ns=6 * US) for name in ("a", "b")]
    with pytest.raises(Unschedulable) as refused:
        plan(intent(RING, *full))
    (reason,) = refused.value.reasons.values()
    assert "a wider talker window" in reason
    assert "for a talker that starts between 5 µs and 6 µs" in reason
