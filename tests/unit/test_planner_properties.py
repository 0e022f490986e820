"""Whatever the planner returns on random small networks, the judge finds nothing wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

import pytest
from hypothesis import given

from cnc import planner
from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.model import Intent, Plan
from cnc.planner import Budget, plan
from cnc.planner.greedy import Dense
from cnc.planner.neighbourhood import Neighbourhood
from cnc.planner.waves import Waves
from cnc.plans import file as planfile
from tests.unit.planner_networks import examples, intents, problem

ALGORITHMS = ["no-wait", "waiting", "dense", "waves", "ejection"]


@pytest.fixture(autouse=True, scope="module")
def parts_by_name() -> Iterator[None]:
    """They are parts of the default algorithm, that nobody can ask for alone."""
    with pytest.MonkeyPatch.context() as patch:
        for part in (Dense, Waves):
            patch.setitem(planner.ALGORITHMS, part.name, part)
        yield


def planned_or_none(wanted: Intent, algorithm: str) -> Plan | None:
    """None where a port cannot do its work, which no choice of streams can put right."""
    try:
        return plan(wanted, algorithm=algorithm, best_effort=True, budget=Budget(ejections=50))
    except Unschedulable:
        return None


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@examples(max_examples=100)
@given(intents(streams_max=8))
def test_a_plan_is_sound_and_has_a_place_or_a_reason_for_every_stream(
    algorithm: str, wanted: Intent
) -> None:
    planned = planned_or_none(wanted, algorithm)
    if planned is None:
        return
    assert judge(planned) == []
    assert [name for name in wanted.streams if name in planned.streams] == list(planned.streams)
    assert planned.streams.keys() | planned.refused.keys() == wanted.streams.keys()
    assert not planned.streams.keys() & planned.refused.keys()
    assert all(planned.refused.values())


@examples(max_examples=60)
@given(intents(streams_max=8))
def test_making_room_never_ends_with_fewer_placed_than_it_began_with(wanted: Intent) -> None:
    crowd = problem(wanted)
    began, ended = (
        Neighbourhood().schedule(crowd, Budget(ejections=count)).placements for count in (0, 50)
    )
    assert len(ended) >= len(began)


@examples(max_examples=60)
@given(intents(streams_max=8))
def test_the_cycle_of_a_port_is_the_least_in_which_its_streams_repeat(wanted: Intent) -> None:
    planned = planned_or_none(wanted, "waiting")
    if planned is None:
        return
    for port, gates in planned.gates.items():
        periods = {
            wanted.streams[name].period_ns
            for name, its in planned.streams.items()
            if any(hop.egress == port for hop in its.hops)
        }
        assert gates.cycle_ns == lcm(*periods)
        assert sum(entry.interval_ns for entry in gates.entries) == gates.cycle_ns


@examples(max_examples=40)
@given(intents())
def test_the_same_intent_has_the_same_plan_again(wanted: Intent) -> None:
    first, again = (planned_or_none(wanted, "ejection") for _ in range(2))
    if first and again:
        assert planfile.dump(first) == planfile.dump(again)
    else:
        assert first is again is None
