"""A limited run begins elsewhere at each commit, so that no lane waits long for its turn."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, cycle, islice, pairwise

import pytest

from tests.runner import order
from tests.runner.table import Cost, Lane


def lanes(*walls_s: float) -> list[Lane]:
    return [
        Lane(
            f"lane{n}", "host", (), (), False, False, False, 1, (), 1, (), {}, Cost(wall_s, wall_s)
        )
        for n, wall_s in enumerate(walls_s)
    ]


def test_the_order_is_that_of_the_table_from_some_lane_on():
    circle = lanes(10, 20, 30)
    for commits in range(20):
        turned = order.rotated(circle, commits)
        first = circle.index(turned[0])
        assert turned == circle[first:] + circle[:first]


def test_some_lanes_are_first_at_every_commit_and_the_others_take_turns():
    circle = lanes(10, 20, 30)
    always = replace(lanes(40)[0], name="always", first=True)
    for commits in range(20):
        ordered = order.at_commit([*circle, always], commits)
        assert ordered == [always, *order.rotated(circle, commits)]


def test_lanes_that_run_seldom_go_before_those_that_take_turns():
    circle = lanes(10, 20, 30)
    always = replace(lanes(40)[0], name="always", first=True)
    seldom = replace(lanes(50)[0], name="seldom", once_in=6)
    for commits in range(20):
        ordered = order.at_commit([seldom, *circle, always], commits)
        assert ordered == [always, seldom, *order.rotated(circle, commits)]


@pytest.mark.parametrize("commits", [1, 2, 3, 6, 10, 12, 60])
def test_a_lane_runs_once_in_as_many_pushes_as_it_says_whatever_their_size(commits):
    seldom = [replace(lane, once_in=6) for lane in lanes(1, 1, 1, 1)]
    pushes = 600
    turns = [
        [lane for lane in seldom if lane not in order.waiting(seldom, 1000 + push * commits)]
        for push in range(pushes)
    ]
    for lane in seldom:
        assert sum(lane in turn for turn in turns) == pytest.approx(pushes / 6, abs=10)
    assert max(map(len, turns)) == 1


def test_a_lane_that_always_runs_never_waits():
    assert all(order.waiting(lanes(1, 2, 3), commits) == [] for commits in range(50))


def test_the_same_commit_has_the_same_order():
    assert order.rotated(lanes(5, 5, 5), 1234) == order.rotated(lanes(5, 5, 5), 1234)


MIXED = [1, 3, 34, 2, 8, 21, 1, 5, 13, 1, 55, 4]


@pytest.mark.parametrize(
    ("pushes", "commits"), [(12, [1]), (12, [2]), (12, [3]), (12, [10]), (24, MIXED), (160, [34])]
)
def test_a_third_of_the_time_reaches_every_lane_after_some_pushes(pushes, commits):
    circle = lanes(60, 240, 30, 400, 90, 90, 300, 15, 200, 120)
    budget_s = sum(lane.cost.wall_s for lane in circle) / 3
    for begin in range(0, 400, 41):
        reached = set()
        for count in accumulate(islice(cycle(commits), pushes), initial=begin):
            spent_s = 0.0
            for lane in order.rotated(circle, count):
                if spent_s + lane.cost.wall_s <= budget_s:
                    spent_s += lane.cost.wall_s
                    reached.add(lane.name)
        assert len(reached) == len(circle)


def test_consecutive_commits_begin_far_from_each_other():
    circle = lanes(*[1] * 100)
    starts = [circle.index(order.rotated(circle, commits)[0]) for commits in range(40)]
    for earlier, later in pairwise(starts):
        distance = abs(earlier - later)
        assert min(distance, 100 - distance) > 30
