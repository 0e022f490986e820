"""Streams in the order in which links come free: places in networks that are nearly full."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

from cnc.check import judge
from cnc.model import ClassRole, Stream, TrafficClass
from cnc.planner import plan
from cnc.planner.algorithm import Budget, Progress
from cnc.planner.greedy import Waiting
from cnc.planner.problem import Problem
from cnc.planner.waves import Waves
from tests.unit.planner_networks import MS, US, intent, network, problem, seeded, stream

QUEUES = tuple(TrafficClass(f"c{n}", n, n, (8 * n,), ClassRole.SCHEDULED) for n in range(1, 8))
NO_SEARCH = Budget(ejections=1)


def full_line(switches: int, seed: int) -> Problem:
    """Streams at random along a line with two stations at each switch, until its fullest link
    carries 95 % of what it can."""
    random = seeded(seed)
    names = [f"s{n}" for n in range(switches)]
    stations = {f"{end}{name}": name for name in names for end in "tu"}
    cables = [f"{a}-{b}" for a, b in pairwise(names)]
    cables += [f"{station}-{name}" for station, name in stations.items()]
    load: defaultdict[tuple[str, str], float] = defaultdict(float)
    streams: list[Stream] = []
    refused = 0
    while refused < 50:
        talker, listener = random.sample(sorted(stations), 2)
        one, other = (names.index(stations[end]) for end in (talker, listener))
        between = names[one : other + 1] if one < other else names[other : one + 1][::-1]
        way = list(pairwise([talker, *between, listener]))
        payload = random.choice((256, 512, 1024, 1500, 1500))
        period = random.choice((500 * US, 500 * US, 500 * US, MS))
        takes = (payload + 42) * 8 / period
        if any(load[hop] + takes > 0.95 for hop in way):
            refused += 1
            continue
        for hop in way:
            load[hop] += takes
        its = {"payload_octets": payload, "period_ns": period, "max_latency_ns": period}
        classes = tuple(each.name for each in QUEUES)
        name = f"f{len(streams)}"
        streams.append(stream(name, talker, listener, traffic_classes=classes, **its))
    net = network(*cables, clock_error_ns=100, processing_ns=(1600, 2000))
    return problem(intent(net, *streams, classes=QUEUES))


def test_all_streams_of_a_line_at_95_percent_have_a_place_where_one_by_one_some_have_none() -> None:
    full = full_line(12, 2)
    assert not Waiting().schedule(full, NO_SEARCH).is_complete(full)
    assert Waves().schedule(full, NO_SEARCH).is_complete(full)


def test_what_is_placed_along_the_ways_is_sound_by_the_judge() -> None:
    planned = plan(full_line(12, 2).intent)
    assert (planned.algorithm, judge(planned)) == ("waves", [])


def test_an_interrupted_pass_returns_what_has_a_place() -> None:
    full = full_line(12, 2)

    def interrupt(progress: Progress) -> None:
        if progress.placed:
            raise KeyboardInterrupt

    result = Waves().schedule(full, Budget(watch=interrupt))
    assert result.interrupted
    assert 0 < len(result.placements) < len(full.members)


def test_a_talker_starts_within_its_window_wherever_the_wave_begins() -> None:
    full = full_line(12, 2)
    streams = {
        name: replace(its, earliest_ns=100 * US, latest_ns=140 * US)
        for name, its in list(full.intent.streams.items())[:40]
    }
    placed = Waves().schedule(problem(replace(full.intent, streams=streams)), NO_SEARCH)
    assert len(placed.placements) == len(streams)
    assert all(100 * US <= its.offsets_ns[0] <= 140 * US for its in placed.placements.values())
