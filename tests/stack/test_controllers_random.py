"""What `scripts/long controllers-at-random` does a hundred times, three times; and by what it knows
that a round has come to its end."""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import pytest

from tests.stack.controller_network import Network, both_run, network, two  # noqa: F401
from tests.stack.controller_processes import LIMIT_S, Controllers
from tests.stack.controllers_at_random import rounds
from tests.stack.netconfd_process import wait_until


def test_a_network_is_not_quiet_before_its_switches_run_its_first_plan(
    network: Network, two: Controllers
) -> None:
    """The rollout of that has ended some seconds before, and no note says what they run."""
    both_run(two)
    assert wait_until(network.is_quiet, LIMIT_S), two.a.log
    assert network.number("SELECT count(*) FROM meta WHERE key = 'running'") == 1


@pytest.mark.timeout(1200)  # each round costs a lease, and the start of a controller
def test_whenever_a_leader_is_lost_each_request_is_done_once(
    network: Network, two: Controllers
) -> None:
    assert len([*rounds(two, network, 3, seed=1)]) == 3
