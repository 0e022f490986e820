"""The exact algorithm places all streams, tightly, or proves that some have no place together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc.check import judge
from cnc.errors import InputError
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
from cnc.planner import exact
from cnc.planner.algorithm import Budget, Progress, Result
from cnc.planner.auto import Auto
from cnc.planner.exact import Exact, Size
from cnc.planner.exact_model import PlacementModel
from cnc.planner.greedy import Dense, NoWait, Waiting
from cnc.planner.neighbourhood import Neighbourhood
from cnc.planner.problem import Problem
from cnc.planner.route import Member, Placement
from cnc.planner.routing import Router
from tests.unit.planner_networks import examples
from tests.unit.planner_rules import broken, judged

US = 1000
BEST_EFFORT = TrafficClass("best-effort", 0, 0, (0,), ClassRole.BEST_EFFORT, 64)
CYCLIC = TrafficClass("cyclic", 6, 6, (46,), ClassRole.SCHEDULED)
SLOWER = TrafficClass("slower", 4, 4, (40,), ClassRole.SCHEDULED)
CLASSES = {c.name: c for c in (CYCLIC, SLOWER, BEST_EFFORT)}


def network(
    cables: Iterable[tuple[str, str]],
    *,
    rate_bps: int = 10**8,
    processing_ns: tuple[int, int] = (1000, 1000),
    clock_error_ns: int = 0,
    interval_min_ns: int = 0,
) -> Network:
    """Bridges are called s…, end stations e…; no cable takes time."""
    links = {}
    for a, b in cables:
        for source, target in ((a, b), (b, a)):
            here, there = PortRef(source, target), PortRef(target, source)
            links[here] = Link(here, there, rate_bps, 0, gate_interval_min_ns=interval_min_ns)
    names = sorted({port.node for port in links})
    return Network(
        {name: Bridge(name, *processing_ns) for name in names if name[0] == "s"},
        {name: EndStation(name) for name in names if name[0] == "e"},
        links,
        clock_error_ns,
    )


def line(**facts: int) -> Network:
    """Talkers e1 to e4 at s1, listeners e5 and e6 at s2, one cable between the bridges."""
    talkers = [(f"e{i}", "s1") for i in range(1, 5)]
    return network([("s1", "s2"), *talkers, ("e5", "s2"), ("e6", "s2")], **facts)


@pytest.fixture(autouse=True, scope="module")
def little_polish() -> Iterator[None]:
    """Latencies are the least long before the solver has proved it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "_IMPROVE_LIMIT", 0.1)
        yield


def stream(
    name: str,
    talker: str,
    listener: str = "e5",
    *,
    period_us: int = 1000,
    payload_octets: int = 1458,  # with all overhead 1500 octets: 120 µs at 100 Mbit/s
    max_latency_us: int = 1000,
    window_us: tuple[int, int] | None = None,
    classes: tuple[str, ...] = ("cyclic",),
    paths: int = 1,
) -> Stream:
    earliest, latest = window_us or (0, period_us)
    return Stream(
        name=name,
        talker=talker,
        listeners=(listener,),
        traffic_classes=classes,
        period_ns=period_us * US,
        payload_octets=payload_octets,
        max_latency_ns=max_latency_us * US,
        earliest_ns=earliest * US,
        latest_ns=latest * US if window_us else None,
        paths=paths,
    )


def problem_of(
    network: Network, *streams: Stream, kept: Mapping[Member, Placement] | None = None
) -> Problem:
    intent = Intent("by hand", network, CLASSES, {s.name: s for s in streams}, {})
    kept = kept or {}
    new = [s for s in streams if Member(s.name, 0) not in kept]
    return Problem(intent, Router(intent).route_all(new), kept)


def solve(problem: Problem) -> Result:
    return Exact().schedule(problem, Budget())


def is_complete(problem: Problem, result: Result) -> bool:
    return result.placements.keys() >= set(problem.members)


def test_streams_that_do_not_fit_on_a_link_together_are_named_and_no_other() -> None:
    both_at_once = {"period_us": 200, "payload_octets": 1300}  # 107 µs of every 200 µs
    problem = problem_of(
        line(),
        stream("a", "e1", **both_at_once),
        stream("b", "e2", **both_at_once),
        stream("innocent", "e3", "e4", **both_at_once),
    )
    result = solve(problem)
    assert result.impossible == ("a", "b")
    assert len(result.placements) == 2
    assert Member("innocent", 0) in result.placements
    assert broken(problem, result) == []


def test_a_conflict_of_many_leaves_out_whoever_it_does_not_need() -> None:
    tight = [stream(f"f{i}", f"e{i}", period_us=400) for i in (1, 2, 3, 4)]  # 3 * 120 µs fit
    small = stream("small", "e5", "e6", period_us=400, payload_octets=46)
    result = solve(problem_of(line(), *tight, small))
    assert result.impossible == ("f1", "f2", "f3", "f4")
    assert len(result.placements) == 4


def test_a_conflict_is_narrowed_where_the_solver_names_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PlacementModel, "streams", lambda model, core: list(model.placed))
    tight = [stream(f"f{i}", f"e{i}", period_us=400) for i in (1, 2, 3, 4)]
    result = solve(problem_of(line(), stream("free", "e6", "e1", period_us=400), *tight))
    assert result.impossible == ("f1", "f2", "f3", "f4")


def test_a_stream_that_has_no_place_even_alone_is_named_alone() -> None:
    hopeless = stream("hopeless", "e1", max_latency_us=350)  # three links of 120 µs
    result = solve(problem_of(line(), hopeless, stream("other", "e2")))
    assert result.impossible == ("hopeless",)
    assert result.placements.keys() == {Member("other", 0)}


def waiting_needed() -> Problem:
    """Two frames come to s1 at one fixed moment: one of them must wait there."""
    now = {"window_us": (0, 0)}
    return problem_of(
        line(), stream("a", "e1", **now), stream("b", "e2", classes=("slower",), **now)
    )


def test_a_frame_waits_where_no_wait_finds_no_place() -> None:
    problem = waiting_needed()
    assert not is_complete(problem, NoWait().schedule(problem, Budget()))
    result = solve(problem)
    assert is_complete(problem, result)
    assert broken(problem, result) == []


def test_latency_bounds_are_the_least_possible_in_sum() -> None:
    problem = waiting_needed()
    waits = {
        member.stream: p.route.latency_ns(p.offsets_ns) - p.route.least_latency_ns
        for member, p in solve(problem).placements.items()
    }
    assert sorted(waits.values()) == [0, 120_026]  # one frame's time on the slowest link


def test_kept_streams_stay_and_others_go_around_them() -> None:
    old, new = stream("kept", "e1", period_us=300), stream("new", "e2", period_us=300)
    at_zero = solve(problem_of(line(), old)).placements[Member("kept", 0)]
    moved = at_zero._replace(offsets_ns=tuple(t + 33 * US for t in at_zero.offsets_ns))
    problem = problem_of(line(), old, new, kept={Member("kept", 0): moved})
    result = solve(problem)
    assert result.placements[Member("kept", 0)] == moved
    assert Member("new", 0) in result.placements
    assert broken(problem, result) == []


def test_what_conflicts_with_kept_streams_only_is_named_alone() -> None:
    old, new = stream("kept", "e1", period_us=200), stream("new", "e2", period_us=200)
    kept = solve(problem_of(line(), old)).placements
    result = solve(problem_of(line(), old, new, kept=kept))
    assert result.impossible == ("new",)
    assert result.placements == kept


def test_two_talkers_with_one_narrow_window_and_no_time_to_wait_conflict() -> None:
    hurried = {"window_us": (100, 150), "max_latency_us": 360}  # 359 µs at least
    problem = problem_of(line(), stream("a", "e1", **hurried), stream("b", "e2", **hurried))
    assert solve(problem).impossible == ("a", "b")


def test_a_talker_starts_in_its_window() -> None:
    hurried = {"window_us": (100, 226), "max_latency_us": 360}
    problem = problem_of(line(), stream("a", "e1", **hurried), stream("b", "e2", **hurried))
    result = solve(problem)
    assert is_complete(problem, result)
    assert broken(problem, result) == []


@pytest.mark.parametrize(("payload_octets", "fits"), [(582, True), (583, False)])
def test_periods_that_hardly_ever_meet_fit_only_at_some_phases(
    payload_octets: int, fits: bool
) -> None:
    """Modulo 100 µs, the greatest common divisor of 400 and 500 µs, both must fit: 2 * 50 µs,
    of which a link within 100 ppm of its rate leaves 49.995 µs."""
    frame = {"payload_octets": payload_octets}
    problem = problem_of(
        line(),
        stream("a", "e1", period_us=400, **frame),
        stream("b", "e2", period_us=500, classes=("slower",), **frame),
    )
    result = solve(problem)
    assert is_complete(problem, result) == fits
    assert result.impossible == (() if fits else ("a", "b"))
    assert broken(problem, result) == []


def test_both_paths_of_a_stream_use_one_class() -> None:
    ring = network([*pairwise(["s1", "s2", "s3"]), ("s3", "s1"), ("e1", "s1"), ("e5", "s2")])
    twice = stream("twice", "e1", classes=("cyclic", "slower"), paths=2)
    other = stream("other", "e5", "e1", classes=("cyclic", "slower"), paths=2)
    problem = problem_of(ring, twice, other)
    result = solve(problem)
    assert is_complete(problem, result)
    assert broken(problem, result) == []
    assert judge(judged(problem, result)) == []


@pytest.mark.parametrize("loose", [(), ("s3", "s2")])
def test_a_class_must_be_open_to_all_paths_of_a_stream(loose: tuple[str, ...]) -> None:
    """Beside `other` only slower has room on the one path; across a loose port on the other path
    there is cyclic alone. That it is to be one class there is the planner's choice: no proof."""
    ring = network(
        [*pairwise(["s1", "s2", "s3"]), ("s3", "s1"), *((f"e{i}", "s1") for i in (1, 2))]
        + [(f"e{i}", "s2") for i in (5, 6)]
    )
    twice = stream("twice", "e1", classes=("cyclic", "slower"), paths=2, window_us=(0, 121))
    problem = problem_of(ring, twice, stream("other", "e2", "e6", window_us=(0, 0)))
    problem = replace(problem, loose=frozenset({PortRef(*loose)} if loose else ()))
    result = solve(problem)
    assert is_complete(problem, result) == (not loose)
    assert result.impossible == ()
    assert broken(problem, result) == []


def test_a_stream_on_a_detour_keeps_its_place_and_its_way() -> None:
    """All three start at one moment in one class: only one of them fits on each way."""
    triangle = network(
        [*pairwise(["s1", "s2", "s3"]), ("s3", "s1"), *((f"e{i}", "s1") for i in (1, 2, 3))]
        + [(f"e{i}", "s2") for i in (4, 5, 6)]
    )
    now = {"window_us": (0, 0), "max_latency_us": 700}
    problem = problem_of(
        triangle, *(stream(f"f{i}", f"e{i}", f"e{i + 3}", **now) for i in (1, 2, 3))
    )
    router = Router(problem.intent)
    trees = router.route_all(problem.intent.streams.values())
    problem = replace(problem, trees=trees, router=router)
    placed = Waiting().schedule(problem, Budget()).placements
    assert any(p.route.tree != trees[member.stream][0] for member, p in placed.items())
    result = solve(problem)
    assert len(result.placements) >= len(placed)
    assert broken(problem, result) == []


def test_with_nothing_to_place_the_kept_streams_are_the_result() -> None:
    old = stream("kept", "e1")
    kept = solve(problem_of(line(), old)).placements
    assert solve(problem_of(line(), old, kept=kept)) == Result("exact", kept)


def test_the_same_problem_has_the_same_result_every_time() -> None:
    problem = waiting_needed()
    assert solve(problem) == solve(waiting_needed())


def test_an_interrupt_ends_the_search_with_what_it_has() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.step == "making it tight":
            raise KeyboardInterrupt

    problem = waiting_needed()
    result = Exact().schedule(problem, Budget(watch=interrupt))
    assert result.interrupted
    assert is_complete(problem, result)
    assert result.impossible == ()


def test_an_interrupt_does_not_take_a_proof_back() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.step == "placing as many as possible":
            raise KeyboardInterrupt

    tight = [stream(f"f{i}", f"e{i}", period_us=400) for i in (1, 2, 3, 4)]
    free = stream("free", "e6", "e1", period_us=400)
    result = Exact().schedule(problem_of(line(), *tight, free), Budget(watch=interrupt))
    assert result.interrupted
    assert result.impossible == ("f1", "f2", "f3", "f4")
    assert len(result.placements) == 4


def test_a_problem_that_is_too_large_is_refused_with_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = problem_of(line(), *(stream(f"f{i}", f"e{i}") for i in (1, 2, 3)))
    assert exact.size(problem) == Size(members=3, orders=2 * 3 * 2)
    assert Exact.fits(problem)
    monkeypatch.setattr(exact, "SIZE_MAX", Size(members=150, orders=11))
    assert not Exact.fits(problem)
    with pytest.raises(InputError, match="links in 12 orders") as refusal:
        solve(problem)
    assert "auto" in str(refusal.value.hint)


def test_a_period_more_of_latency_is_one_more_place_in_each_order() -> None:
    once, thrice = (
        problem_of(line(), *(stream(f"f{i}", f"e{i}", max_latency_us=limit) for i in (1, 2)))
        for limit in (1000, 3000)
    )
    assert exact.size(once) == Size(members=2, orders=2 * 2)
    assert exact.size(thrice) == Size(members=2, orders=2 * 6)


@pytest.mark.parametrize(("beats", "is_searched"), [((7, 8, 9), True), ((61, 67, 71), False)])
def test_few_streams_with_many_orders_are_searched_exactly_only_on_request(
    monkeypatch: pytest.MonkeyPatch, beats: tuple[int, int, int], is_searched: bool
) -> None:
    """Of three periods each two meet every 250 us, in which there is room for two frames and not
    for three; a frame has over a hundred places beside one of another period. With 400 CP-SAT took
    20 s for six streams."""
    searched = []

    def schedule(_: Exact, problem: Problem, __: Budget) -> Result:
        searched.append(problem)
        return Result(Exact.name, problem.kept)

    monkeypatch.setattr(Exact, "schedule", schedule)
    monkeypatch.setattr(exact, "is_available", lambda: True)
    periods_us = [250 * count for count in beats]
    crowd = problem_of(
        line(),
        *(
            stream(f"f{i}", f"e{1 + i % 3}", period_us=period, max_latency_us=period)
            for i in range(6)
            for period in [periods_us[i % 3]]
        ),
    )
    found = Auto().schedule(crowd, Budget(ejections=20))
    assert not is_complete(crowd, found)
    assert Exact.fits(crowd)
    assert bool(searched) is is_searched


def test_without_ortools_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "find_spec", lambda name: None)
    assert not exact.is_available()
    with pytest.raises(InputError, match="needs OR-Tools") as refusal:
        solve(waiting_needed())
    assert "tsn-control-plane[exact]" in str(refusal.value.hint)


def test_kept_streams_count_only_where_a_new_one_meets_them() -> None:
    old = [stream(f"f{i}", f"e{i}", "e6") for i in (1, 2, 3)]
    kept = solve(problem_of(line(), *old)).placements
    assert exact.size(problem_of(line(), *old, kept=kept)) == Size(members=0, orders=0)
    with_new = problem_of(line(), *old, stream("new", "e4", "e5"), kept=kept)
    assert exact.size(with_new) == Size(members=1, orders=3 * 2)  # between the bridges


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """So little room, on two or three bridges, that the streams often do not fit."""
    bridges = [f"s{i}" for i in range(draw(st.integers(2, 3)))]
    stations = [f"e{i}" for i in range(4)]
    cables = [*pairwise(bridges), *((e, draw(st.sampled_from(bridges))) for e in stations)]
    if len(bridges) == 3 and draw(st.booleans()):
        cables.append((bridges[2], bridges[0]))
    least = draw(st.integers(0, 5000))
    net = network(
        cables,
        processing_ns=(least, least + draw(st.sampled_from([0, 1, 700, 4000]))),
        clock_error_ns=draw(st.sampled_from([0, 1, 500])),
        interval_min_ns=draw(st.sampled_from([0, 9000])),
    )
    streams = []
    for index in range(draw(st.integers(2, 5))):
        talker, listener = draw(st.permutations(stations))[:2]
        period_us = draw(st.sampled_from([250, 300, 500]))
        earliest = draw(st.integers(0, period_us - 1))
        streams.append(
            stream(
                f"f{index}",
                talker,
                listener,
                period_us=period_us,
                payload_octets=draw(st.sampled_from([46, 400, 900])),
                max_latency_us=draw(st.sampled_from([250, 400, 1000])),
                window_us=draw(st.sampled_from([None, (earliest, period_us - 1)])),
                classes=draw(st.sampled_from([("cyclic",), ("slower", "cyclic")])),
            )
        )
    return problem_of(net, *streams)


def test_frames_that_only_this_planner_keeps_apart_are_no_proved_conflict() -> None:
    """Each may lie at s1 and s2 for half of its period: one of them follows the other all the way,
    and so they fit, but not in a model that wants each alone in its queue."""
    jitter = line(processing_ns=(0, 100 * US))
    often = {"period_us": 300, "payload_octets": 100}
    problem = problem_of(jitter, *(stream(name, "e1", **often) for name in "abc"))
    assert not is_complete(problem, Waiting().schedule(problem, Budget()))
    result = solve(problem)
    assert is_complete(problem, result)
    assert judge(judged(problem, result)) == []
    three_talkers = problem_of(jitter, *(stream(f"f{i}", f"e{i}", **often) for i in (1, 2, 3)))
    assert solve(three_talkers).impossible == ()


def three_that_follow_each_other() -> Problem:
    """Each takes 75 µs of every 250 µs on a link, and 84 µs where it is to be alone in the queue,
    as its gate then stays as it is for 9 µs more; `other` meets them every 50 µs."""
    often = {"period_us": 250, "payload_octets": 900}
    return problem_of(
        line(processing_ns=(0, 0), interval_min_ns=9 * US),
        *(stream(name, "e1", **often) for name in "abc"),
        stream("other", "e1", period_us=300, payload_octets=46),
    )


def test_frames_of_one_port_may_lie_in_a_queue_together_in_the_order_they_came() -> None:
    problem = three_that_follow_each_other()
    result = solve(problem)
    assert result.placements.keys() == {Member(name, 0) for name in "abc"}
    assert broken(problem, result) == []
    assert judge(judged(problem, result)) == []
    assert "other" in result.impossible


def test_frames_that_change_their_order_in_a_queue_break_its_rule() -> None:
    problem = three_that_follow_each_other()
    placements = dict(solve(problem).placements)
    first, second = (placements[Member(name, 0)] for name in "ab")
    start, *after = first.offsets_ns
    its_start, *its_after = second.offsets_ns
    swapped = {
        first.route.member: first._replace(offsets_ns=(start, *its_after)),
        second.route.member: second._replace(offsets_ns=(its_start, *after)),
    }
    assert "queue" in broken(problem, Result("by hand", placements | swapped))


def test_a_frame_that_a_port_is_to_hold_back_must_be_alone_in_its_queue() -> None:
    problem = three_that_follow_each_other()
    placements = dict(solve(problem).placements)
    for member, placement in placements.items():
        placements[member] = placement._replace(route=problem.route(member, placement.route.tree))
    assert "queue" in broken(problem, Result("by hand", placements))


def assert_gone_without_any_one(problem: Problem, conflict: Iterable[str]) -> None:
    """All of a conflict are proved impossible once more, and fewer of them are not."""
    trees = {name: problem.trees[name] for name in conflict}
    assert bool(solve(replace(problem, trees=trees)).impossible) == bool(trees)
    for left_out in trees:
        fewer = {name: tree for name, tree in trees.items() if name != left_out}
        assert solve(replace(problem, trees=fewer)).impossible == ()


@examples(max_examples=60)
@given(problems())
def test_a_conflict_is_gone_without_any_one_of_its_streams(problem: Problem) -> None:
    assert_gone_without_any_one(problem, solve(problem).impossible)


def test_fewer_than_a_conflict_may_still_be_too_many_for_this_planner() -> None:
    """Four frames of 75 µs in 250 µs are too many for any plan; three are not, but those of
    different talkers that lie in one queue for up to 12 µs more are kept apart there."""
    frames = {"period_us": 250, "payload_octets": 900}
    four = [stream(f"f{i}", f"e{i}", **frames) for i in (1, 2, 3, 4)]
    problem = problem_of(line(processing_ns=(0, 12 * US)), *four)
    conflict = solve(problem).impossible
    assert conflict == ("f1", "f2", "f3", "f4")
    assert_gone_without_any_one(problem, conflict)
    three = problem_of(problem.intent.network, *four[:3])
    assert not is_complete(three, solve(three))


@examples(max_examples=60)
@given(problems())
def test_what_another_algorithm_places_is_never_called_impossible(problem: Problem) -> None:
    result = solve(problem)
    assert broken(problem, result) == []
    assert not (is_complete(problem, result) and result.impossible)
    for other in (NoWait(), Waiting(), Dense(), Neighbourhood()):
        its = other.schedule(problem, Budget(ejections=50))
        if is_complete(problem, its) and not broken(problem, its):
            assert is_complete(problem, result)
        assert len(its.placements) <= len(result.placements) or broken(problem, its)
    violations = judge(judged(problem, result))
    # No placement rule leaves time for best effort: that is for the lists to refuse.
    assert [v for v in violations if v.code != "starved-best-effort"] == []
