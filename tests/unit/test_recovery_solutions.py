"""Planner and judge solve the same equations of recovery, each with code of its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc.check.drains import Arrival, Interference
from cnc.check.drains import Port as DrainedPort
from cnc.check.spread import Stay, spread_ns
from cnc.mechanisms.talker_offsets.judge import Load, lag
from cnc.model import PortRef
from cnc.planner.backlog import Ahead, Backlog, Coming
from cnc.planner.chains import Passage, longest_chain_ns
from cnc.planner.pauses import Sending, behind
from tests.unit.planner_networks import examples


@st.composite
def queues(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]], list[tuple[int, ...]], list[int]]:
    """A cycle, its openings, frames, and what goes ahead of them."""
    cycle = draw(st.sampled_from([1000, 2000, 4000]))
    times = st.lists(st.integers(0, cycle - 1), min_size=2, max_size=12, unique=True)
    edges = sorted(draw(times))
    stretches = list(zip(edges[::2], edges[1::2], strict=False))
    if draw(st.booleans()):  # one that goes on in the next cycle
        stretches[-1] = stretches[-1][0], cycle + stretches[0][0] // 2
    arrivals: list[tuple[int, ...]] = []
    for _ in range(draw(st.integers(1, 5))):
        period, earliest = cycle // draw(st.sampled_from([1, 2, 4])), draw(st.integers(0, 9000))
        gone = earliest + draw(st.sampled_from([10, 40, 1500]))
        arrivals.append((period, earliest, gone, draw(st.integers(1, 40))))
    ahead = [draw(st.integers(0, 60)), draw(st.sampled_from([0, 1, 3, 10])), 10]
    ahead.append(draw(st.sampled_from([0, 0, 20])))
    return cycle, stretches, arrivals, ahead


@examples(max_examples=300)
@given(
    queues(),
    st.sampled_from([0, 10, 100, 5000]),
    st.lists(st.sampled_from([0, 0, 30, 2000]), min_size=5, max_size=5),
)
def test_planner_and_judge_agree_when_a_port_is_clear_again(
    queue: tuple[int, list[tuple[int, int]], list[tuple[int, ...]], list[int]],
    stopped_ns: int,
    late_ns: list[int],
) -> None:
    cycle, stretches, arrivals, ahead = queue
    late = late_ns[: len(arrivals)]
    backlog = Backlog(cycle, stretches, [Coming(*a) for a in arrivals], Ahead(*ahead))
    port = DrainedPort(cycle, stretches, [Arrival(*a) for a in arrivals], Interference(*ahead))
    one, other = backlog.clearing(stopped_ns, late), port.drained(stopped_ns, late)
    assert one.never == other.never
    if one.never:
        return
    longest_ns = one.longest_ns()
    assert longest_ns == other.longest_ns()
    for time in range(-cycle, 2 * cycle, 37):
        assert time <= other.left_by_ns(time) == time + one.wait_ns(time) <= time + longest_ns
    assert one.worst_wait_ns(13, cycle // 2) == max(one.wait_ns(13), one.wait_ns(13 + cycle // 2))


@examples(max_examples=300)
@given(
    queues(),
    st.lists(st.sampled_from([0, 0, 30, 2000]), min_size=5, max_size=5),
    st.lists(st.sampled_from([0, 1, 30, 200]), min_size=5, max_size=5),
)
def test_frames_that_come_later_change_nothing_where_planner_and_judge_need_not_look_again(
    queue: tuple[int, list[tuple[int, int]], list[tuple[int, ...]], list[int]],
    late_ns: list[int],
    more_ns: list[int],
) -> None:
    cycle, stretches, arrivals, ahead = queue
    late = late_ns[: len(arrivals)]
    later = [one + more for one, more in zip(late, more_ns, strict=False)]
    backlog = Backlog(cycle, stretches, [Coming(*a) for a in arrivals], Ahead(*ahead))
    port = DrainedPort(cycle, stretches, [Arrival(*a) for a in arrivals], Interference(*ahead))
    before, drained = backlog.clearing(0, late), port.drained(0, late)
    if before.never:
        assert backlog.clearing(0, later).never
        assert port.is_same(drained, late, later)
        return
    same = all(
        before.is_same_for(gone + one, gone + other, period)
        for (period, _, gone, _), one, other in zip(arrivals, late, later, strict=True)
    )
    assert port.is_same(drained, late, later) == same
    if same:
        after, drained_later = backlog.clearing(0, later), port.drained(0, later)
        for time in range(-cycle, 2 * cycle, 37):
            assert after.wait_ns(time) == before.wait_ns(time)
            assert drained_later.left_by_ns(time) == drained.left_by_ns(time)


@pytest.mark.parametrize(("gone_ns", "longest_ns"), [(150, 445), (300, None)])
def test_late_frames_in_a_ring_end_unless_they_come_round_to_themselves(
    gone_ns: int, longest_ns: int | None
) -> None:
    # Two frames pass two ports in opposite order: at 0 and 300, at 500 and 800 of 1000.
    ways = [("p", 0, [1]), ("q", 300, []), ("q", 500, [3]), ("p", 800, [])]
    passages = [
        Passage("pq".index(port), 6, 1000, at, at + 5, at + 10, [at + gone_ns], onward)
        for port, at, onward in ways
    ]
    stays = [
        Stay(PortRef("s", port), 6, 1000, at, at + 5, at + 10, [at + gone_ns], onward)
        for port, at, onward in ways
    ]
    assert longest_chain_ns(passages) == spread_ns(stays) == longest_ns


@st.composite
def passing(draw: st.DrawFn) -> list[tuple[int, int, int, int, int, int, list[int], list[int]]]:
    """Frames that pass four ports, each in an order of its own."""
    periods = draw(st.lists(st.sampled_from([250, 500, 1000]), min_size=1, max_size=8))
    cycle = max(periods)
    found: list[tuple[int, int, int, int, int, int, list[int], list[int]]] = []
    for period in periods:
        number, at = draw(st.sampled_from([5, 6])), draw(st.integers(0, cycle - 1))
        way = draw(st.permutations(range(4)))[: draw(st.integers(1, 4))]
        for hop, port in enumerate(way, 1):
            due = at + draw(st.sampled_from([0, 3, 9]))
            left = due + draw(st.sampled_from([5, 40]))
            gone = [left + draw(st.integers(0, 600)) + shift for shift in range(0, cycle, period)]
            onward = [len(found) + 1] if hop < len(way) else []
            found.append((port, number, period, at, due, left, gone, onward))
            at = left + draw(st.sampled_from([1, 20, 300]))
    return found


@examples(max_examples=300)
@given(passing())
def test_planner_and_judge_agree_how_long_late_frames_of_a_ring_make_others_late(
    frames: list[tuple[int, int, int, int, int, int, list[int], list[int]]],
) -> None:
    stays = [Stay(PortRef("s", f"p{its[0]}"), *its[1:]) for its in frames]
    assert longest_chain_ns([Passage(*its) for its in frames]) == spread_ns(stays)


@st.composite
def sendings(draw: st.DrawFn) -> list[Sending]:
    """What a talker sends in periods of 60 and 120, one frame after the other."""
    found, time = [], draw(st.integers(0, 60))
    left = 60
    for _ in range(draw(st.integers(1, 5))):
        work, pause = draw(st.integers(1, 20)), draw(st.sampled_from([0, 0, 1, 15]))
        if work > left:
            break
        period = draw(st.sampled_from([60, 120]))
        found.append(Sending("f", draw(st.sampled_from([4, 6])), period, time, work))
        time, left = time + work + pause, left - work - pause
    return found or [Sending("f", 6, 60, time, 60)]


def longest_until_paused(sent: list[Sending]) -> int | None:
    """How long it takes until there was no frame to send for as long as the longest takes, counted
    nanosecond by nanosecond from each one on."""
    busy = {
        (each.offset_ns + shift + at) % 120
        for each in sent
        for shift in range(0, 120, each.period_ns)
        for at in range(each.work_ns)
    }
    if len(busy) == 120:
        return None
    longest = 0
    for begin in range(120):
        left, time = max(each.work_ns for each in sent), begin
        while left:
            left -= time % 120 not in busy
            time += 1
        longest = max(longest, time - begin)
    return longest


@examples(max_examples=300)
@given(sendings(), st.integers(0, 9))
def test_planner_and_judge_agree_when_a_talker_has_caught_up_and_count_right(
    sent: list[Sending], best_effort_ns: int
) -> None:
    back = longest_until_paused(sent)
    one = behind(sent, best_effort_ns)
    loads = [
        Load(each.traffic_class, each.period_ns, each.offset_ns, each.work_ns) for each in sent
    ]
    other = lag(loads, max(each.work_ns for each in sent), best_effort_ns)
    if back is None:
        assert one is other.over_ns is None
        return
    assert one is not None
    assert one.back_ns == other.over_ns == back + best_effort_ns
    assert one.late_ns == other.late_ns
    # Of the greatest class frames are late by the longest one, of a smaller one by no less.
    greatest = max(one.late_ns)
    assert one.late_ns[greatest] == max(each.work_ns for each in sent)
    assert one.late_ns[greatest] <= one.late_ns[min(one.late_ns)] <= back


@st.composite
def starting_together(draw: st.DrawFn) -> list[Load]:
    """What a talker sends in periods of 60 and 120, of which several may start at once."""
    found = []
    for _ in range(draw(st.integers(1, 5))):
        period = draw(st.sampled_from([60, 120]))
        offset = draw(st.sampled_from([0, 0, draw(st.integers(0, period - 1))]))
        found.append(Load(6, period, offset, draw(st.integers(1, 18))))
    return found


def idle(loads: list[Load]) -> list[bool]:
    """In which nanoseconds of 120 a link that sends these one after the other has nothing to do."""
    comes = [
        sum(its.takes_ns for its in loads if (at - its.offset_ns) % its.period_ns == 0)
        for at in range(120)
    ]
    waiting, found = 0, [False] * 120
    for at in range(2 * 120):  # from the second cycle on it is always the same
        waiting += comes[at % 120]
        found[at % 120] = waiting == 0
        waiting = max(0, waiting - 1)
    return found


@examples(max_examples=300)
@given(starting_together())
def test_a_talker_whose_streams_start_together_catches_up_when_it_is_idle(
    loads: list[Load],
) -> None:
    """The lateness lasts until the link was idle for as long as the longest of them takes."""
    over_ns = lag(loads, max(its.takes_ns for its in loads), 0).over_ns
    if sum(120 // its.period_ns * its.takes_ns for its in loads) >= 120:
        assert over_ns is None
        return
    pauses, longest = idle(loads), 0
    for begin in range(120):
        left, time = max(its.takes_ns for its in loads), begin
        while left:
            left -= pauses[time % 120]
            time += 1
        longest = max(longest, time - begin)
    assert over_ns == longest
