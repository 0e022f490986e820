"""The leader of two controllers is killed at each step of a request and of the rollout that brings
it to the switches: the other one ends what that has begun, forwards or back, alike on all switches.
"""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import signal

import pytest

from cnc.rollout.history import Phase
from tests.stack.controller_network import (  # noqa: F401
    Asking,
    Network,
    is_done_by,
    lead_with_fate,
    network,
    two,
)
from tests.stack.controller_processes import LIMIT_S, Controllers
from tests.stack.service_that_stops import MOMENTS

# Which moments come from one of these on, up to the next one.
_ACCEPTED, _BEGUN, _CONFIRMING, _CONFIRMED = map(
    MOMENTS.index, ("on-disk", "edit-config", "commit (confirm)", "result")
)


def ends(moment: str) -> set[tuple[Phase, ...]]:
    """How the rollouts of the request may end, in their order."""
    back, forwards = (Phase.ROLLED_BACK, Phase.DONE), (Phase.DONE,)
    at = MOMENTS.index(moment)
    if _BEGUN <= at < _CONFIRMING:
        return {back}
    # What one switch has confirmed, a rollout of its own brings to the others.
    completed = (Phase.DONE, Phase.DONE)
    if at == _CONFIRMING:  # which a second switch may have reached
        return {back, forwards, completed}
    return {forwards, completed} if at >= _CONFIRMED else {forwards}


@pytest.mark.parametrize(("number", "moment"), [*enumerate(MOMENTS, 1)])
def test_what_a_leader_had_begun_is_ended_by_the_next_one(
    network: Network, two: Controllers, number: int, moment: str
) -> None:
    leader, other = lead_with_fate(two, network, moment, "SIGKILL", number)
    before = network.newest_rollout()
    asking = Asking(two, leader, number)
    assert leader.process.wait(LIMIT_S) == -signal.SIGKILL, leader.log
    leader.kill()  # its workers, too
    if MOMENTS.index(moment) >= _ACCEPTED:  # nobody asks again
        two.until_configured(other, number)
    is_done_by(two, network, other, number, asking.ended())
    ended = network.asked("SELECT phase FROM rollout WHERE number > :n ORDER BY number", n=before)
    assert tuple(phase for (phase,) in ended) in ends(moment), other.log
