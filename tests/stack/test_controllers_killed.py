"""The leader of two controllers is killed at each step of a request and of the rollout that brings
it to the switches: the other one ends what that has begun, forwards or back, alike on all switches.
"""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import signal

from cnc.rollout.history import Phase
from tests.stack.controller_network import (  # noqa: F401
    Network,
    ask_with_fate,
    at_each_moment,
    is_done_by,
    network,
    two,
)
from tests.stack.controller_processes import LIMIT_S, Controllers
from tests.stack.service_that_stops import MOMENTS

# Which moments come from one of these on, up to the next one.
_ACCEPTED, _BEGUN, _CONFIRMING, _CONFIRMED = map(
    MOMENTS.index, ("on-disk", "edit-config", "commit (confirm)", "result")
)


def ends(at: int) -> set[Phase]:
    """How the rollout ends in which this moment comes."""
    if at == _CONFIRMING:  # which a second switch may have passed
        return {Phase.ROLLED_BACK, Phase.DONE}
    return {Phase.DONE} if at >= _CONFIRMED else {Phase.ROLLED_BACK}


@at_each_moment
def test_what_a_leader_had_begun_is_ended_by_the_next_one(
    network: Network, two: Controllers, number: int, moment: str
) -> None:
    leader, other, asking = ask_with_fate(two, network, moment, "SIGKILL", number)
    assert leader.process.wait(LIMIT_S) == -signal.SIGKILL, leader.log
    struck = network.newest_rollout()
    leader.kill()  # its workers, too
    at = MOMENTS.index(moment)
    if at >= _ACCEPTED:  # nobody asks again
        two.until_configured(other, number)
    is_done_by(two, network, other, number, asking.ended())
    if at >= _BEGUN:
        ((phase,),) = network.asked("SELECT phase FROM rollout WHERE number = :n", n=struck)
        assert phase in ends(at), other.log
