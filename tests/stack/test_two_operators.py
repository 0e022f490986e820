"""Two operators who do not know of each other push different plans, again and again.

Few rounds by default; TSN_OPERATOR_ROUNDS=500 makes that many, -s shows how each ended.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from cnc.planner import plan as compute
from cnc.rollout import push
from tests.scale.inspection import inspector
from tests.scale.operators import Operator, Outcome, at_work
from tests.scale.simulation import simulated_switches

ROUNDS = int(os.environ.get("TSN_OPERATOR_ROUNDS", "12"))
REPLY_TIMEOUT_S = 120.0  # of an overloaded machine


@pytest.mark.timeout(400 + 20 * ROUNDS)
def test_of_two_operators_at_once_one_plan_is_left_everywhere_and_nothing_is_held(tmp_path):
    with simulated_switches(3) as simulation:
        # Two plans each, in turns: so both have something to change in every round.
        ann, bob = (
            Operator(
                name,
                tuple(compute(simulation.intent(octets)) for octets in payloads),
                simulation.connect,
                tmp_path / name,
            )
            for name, payloads in (("ann", (200, 300)), ("bob", (400, 500)))
        )
        in_force = ann.plans[0]
        push(in_force, connect=simulation.connect)
        ended: Counter[str] = Counter()
        with inspector(simulation) as seen, at_work(ann, bob) as connections:
            for number in range(1, ROUNDS + 1):
                for connection in connections:
                    connection.send(number % 2)
                assert all(connection.poll(REPLY_TIMEOUT_S) for connection in connections)
                by_ann, by_bob = (connection.recv() for connection in connections)
                may_run = winners({ann: by_ann, bob: by_bob}, number % 2) or [in_force]
                lists = seen.lists()
                how = f"ann {by_ann.outcome}, bob {by_bob.outcome}"
                print(f"round {number}: {how}", flush=True)
                (in_force,) = (plan for plan in may_run if plan.gates == lists)
                assert len(seen.rollout_ids()) == 1
                assert seen.held() is None
                ended[how] += 1
        print(*(f"{count:4} x {how}" for how, count in ended.most_common()), sep="\n")


def winners(pushes, index):
    """The plans that were not refused; a refused one must say that it changed nothing."""
    refused = {who for who, made in pushes.items() if made.outcome is Outcome.REFUSED}
    assert all("no switch was changed" in pushes[who].words for who in refused)
    return [who.plans[index] for who in pushes if who not in refused]
