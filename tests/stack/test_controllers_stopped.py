"""The leader of two controllers stands still for longer than its lease, at each step of a request
and of the rollout that brings it to the switches."""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import signal

from tests.stack.controller_network import (  # noqa: F401
    Network,
    ask_with_fate,
    at_each_moment,
    is_done_by,
    network,
    standing_still,
    two,
)
from tests.stack.controller_processes import LIMIT_S, Controllers
from tests.stack.netconfd_process import wait_until


@at_each_moment
def test_a_leader_that_stood_still_changes_nothing_when_it_goes_on(
    network: Network, two: Controllers, number: int, moment: str
) -> None:
    former, other, asking = ask_with_fate(two, network, moment, "SIGSTOP", number)
    assert wait_until(lambda: standing_still(former), LIMIT_S), former.log
    former.signal(signal.SIGSTOP)
    is_done_by(two, network, other, number)
    before = network.written(), network.met()
    former.signal(signal.SIGCONT)
    assert asking.ended() in (None, two.put(former, number))
    assert wait_until(lambda: not former.leads, LIMIT_S), former.log
    assert former.stop() == 0, former.log
    assert (network.written(), network.met()) == before
    assert other.leads
