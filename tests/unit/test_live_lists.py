"""Gate control lists that are edited in place are those that are made of all windows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cnc.model import Intent, PortRef
from cnc.planner import Live, plan
from cnc.planner.circle import Circle
from cnc.planner.gates import Window, lists_of
from cnc.planner.live.edited import EditedList, may_be_edited
from cnc.planner.problem import Problem
from cnc.planner.route import Member
from cnc.planner.timetable import Resource
from tests.unit.planner_networks import (
    CLASSES,
    LINE,
    US,
    intent,
    network,
    seeded,
    stream,
    with_links,
)

PORT = PortRef("s1", "s2")
PERIODS = (250 * US, 500 * US, 1000 * US)


def one_link(tick_ns: int) -> tuple[Problem, int]:
    wanted: Intent = intent(LINE, stream("a", "t", "l"), classes=tuple(CLASSES))
    problem = Problem(with_links(wanted, PORT, gate_tick_ns=tick_ns), {})
    number = next(n for n, link in enumerate(problem.links) if link.source == PORT)
    return problem, number


@pytest.mark.parametrize("seed", range(60))
def test_a_list_that_is_edited_is_the_one_that_is_made_of_all_windows(seed: int) -> None:
    random = seeded(seed)
    problem, link = one_link(random.choice((1, 8, 100)))
    windows = {
        slot: (
            random.choice(PERIODS),
            Window(
                slot * 10 * US + random.randrange(US),
                slot * 10 * US + random.choice((2, 6, 9)) * US,
                random.choice((5, 6)),
            ),
        )
        for slot in range(25)
    }
    windows[0] = PERIODS[-1], windows[0][1]
    there = {n: windows[n] for n in range(25) if not n or random.random() < 0.5}
    its = problem.links[link]
    assert may_be_edited(problem.intent, its)
    made = lists_of(problem, {link: tuple(there.values())}).lists[PORT]
    edited = EditedList(problem.intent, its, made.cycle_ns, there.values(), made)
    for _ in range(60):
        number = random.randrange(1, 25)
        if number in there:
            if not edited.is_long:
                return
            edited.remove(*there.pop(number))
        else:
            there[number] = windows[number]
            edited.add(*there[number])
        assert edited.gates() == lists_of(problem, {link: tuple(there.values())}).lists[PORT]


@pytest.mark.parametrize("seed", range(30))
def test_what_is_busy_stays_what_is_reserved_while_reservations_come_and_go(seed: int) -> None:
    random, resource = seeded(seed), Resource()
    for turn in range(200):
        if resource.reservations and random.random() < 0.5:
            resource.release(random.choice(list(resource.reservations)))
        else:
            start = random.randrange(2000)
            resource.reserve(
                Member(str(turn), 0), start, random.randint(1, 80), random.choice((250, 600, 1000))
            )
        length = random.choice((250, 1000))
        circle, anew = resource.circle(length), Circle(length, resource.reservations.values())
        for instant in random.sample(range(length), 20):
            assert (circle.delay(instant, 1) == 0) == (anew.delay(instant, 1) == 0)
            assert circle.delay(instant, 30) == anew.delay(instant, 30)


def test_lists_of_a_live_plan_are_those_of_a_plan() -> None:
    net = network("t-s1", "u-s1", "s1-s2", "s2-l")
    streams = [stream(f"f{n}", "tu"[n % 2], "l", windows="exact") for n in range(12)]
    live = Live(plan(intent(net, *streams)))
    for n in range(0, 12, 3):
        live.remove([f"f{n}"])
    live.add([replace(streams[0], name="new", period_ns=500 * US)])
    again = Live(live.plan)
    assert not again.remove([]).gates
    assert again.plan.gates == live.plan.gates
