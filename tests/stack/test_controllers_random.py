"""What `scripts/long controllers-at-random` does a hundred times, three times."""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import pytest

from tests.stack.controller_network import Network, network, two  # noqa: F401
from tests.stack.controller_processes import Controllers
from tests.stack.controllers_at_random import rounds


@pytest.mark.timeout(1200)  # each round costs a lease, and the start of a controller
def test_whenever_a_leader_is_lost_each_request_is_done_once(
    network: Network, two: Controllers
) -> None:
    assert len([*rounds(two, network, 3, seed=1)]) == 3
