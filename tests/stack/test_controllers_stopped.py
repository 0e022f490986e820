"""The leader of two controllers stands still for longer than its lease, or is gone, at each step of
a request and of the rollout that brings it to the switches."""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import signal

import pytest

from tests.stack.controller_network import (  # noqa: F401
    Asking,
    Network,
    is_done_by_other,
    lead_with_fate,
    network,
    standing_still,
    two,
)
from tests.stack.controller_processes import LIMIT_S, Controllers
from tests.stack.netconfd_process import wait_until
from tests.stack.service_that_stops import MOMENTS

OF_CONFIRMING = ("read-back", "decided", "confirmed", "end", "rolled")


@pytest.mark.parametrize(("number", "moment"), [*enumerate(MOMENTS, 1)])
def test_a_leader_that_stood_still_changes_nothing_when_it_goes_on(
    network: Network, two: Controllers, number: int, moment: str
) -> None:
    lead_with_fate(two, network, moment, "SIGSTOP", number)
    asking = Asking(two, two.a, number)
    assert wait_until(lambda: standing_still(two.a), LIMIT_S), two.a.log
    two.a.signal(signal.SIGSTOP)
    is_done_by_other(two, network, number, None)
    before = network.written(), network.met()
    two.a.signal(signal.SIGCONT)
    assert asking.ended() in (None, two.put(two.a, number))
    assert wait_until(lambda: not two.a.leads, LIMIT_S), two.a.log
    assert two.a.stop() == 0, two.a.log
    assert (network.written(), network.met()) == before
    assert two.b.leads


@pytest.mark.parametrize(("number", "moment"), [*enumerate(OF_CONFIRMING, 51)])
def test_what_a_leader_had_begun_is_ended_by_the_next_one(
    network: Network, two: Controllers, number: int, moment: str
) -> None:
    lead_with_fate(two, network, moment, "SIGKILL", number)
    asking = Asking(two, two.a, number)
    assert two.a.process.wait(LIMIT_S) == -signal.SIGKILL, two.a.log
    two.a.kill()
    is_done_by_other(two, network, number, asking.ended())
