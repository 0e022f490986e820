"""The leader of two controllers is killed at each step of a request and of the rollout that brings
it to the switches: the other one ends what that has begun, forwards or back, alike on all switches.
"""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import signal

import pytest

from cnc.rollout.history import Phase
from tests.stack.controller_network import (  # noqa: F401
    Network,
    ask_with_fate,
    is_done_by,
    network,
    two,
)
from tests.stack.controller_processes import LIMIT_S, Controllers
from tests.stack.service_that_stops import MOMENTS

# Which moments come from one of these on, up to the next one.
_ACCEPTED, _BEGUN, _CONFIRMING = map(MOMENTS.index, ("on-disk", "edit-config", "commit (confirm)"))
# Of the three switches on the way of the stream so many have been sent it by then.
_OF_EACH_SWITCH = ("commit", "commit (confirm)")
CASES = [
    *((moment, 0) for moment in MOMENTS),
    *((moment, after) for moment in _OF_EACH_SWITCH for after in (1, 2)),
]


def end(at: int, after: int) -> Phase:
    """How the rollout ends in which this moment comes."""
    return Phase.DONE if (at, after) > (_CONFIRMING, 0) else Phase.ROLLED_BACK


@pytest.mark.parametrize(
    ("number", "moment", "after"), [(number, *its) for number, its in enumerate(CASES, 1)]
)
def test_what_a_leader_had_begun_is_ended_by_the_next_one(
    network: Network, two: Controllers, number: int, moment: str, after: int
) -> None:
    leader, other, asking = ask_with_fate(two, network, moment, "SIGKILL", number, after=after)
    assert leader.process.wait(LIMIT_S) == -signal.SIGKILL, leader.log
    struck = network.newest_rollout()
    leader.kill()  # its workers, too
    at = MOMENTS.index(moment)
    if at >= _ACCEPTED:  # nobody asks again
        two.until_configured(other, number)
    is_done_by(two, network, other, number, asking.ended())
    if at >= _BEGUN:
        ((phase,),) = network.asked("SELECT phase FROM rollout WHERE number = :n", n=struck)
        assert phase == end(at, after), other.log
