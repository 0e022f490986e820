"""The PostgreSQL of two controllers is away, while they reach the switches."""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import signal
import time

import pytest

from cnc.service.lease.keeper import LENGTH_NS
from cnc.service.refused import CallRefused, Code
from tests.stack.controller_network import (  # noqa: F401
    Network,
    ask_with_fate,
    both_run,
    is_done,
    network,
    standing_still,
    two,
)
from tests.stack.controller_processes import CUC, LIMIT_S, Controllers, stream
from tests.stack.netconfd_process import wait_until
from tests.stack.postgresql import Cluster

LEASE_S = LENGTH_NS / 1e9


def test_nothing_is_accepted_without_the_database_and_all_goes_on_with_it(
    network: Network, two: Controllers, postgresql: Cluster
) -> None:
    both_run(two)
    two.put(two.a, 1)
    two.until_configured(two.a, 1)
    assert wait_until(network.is_quiet, LIMIT_S), two.b.log
    before = network.met()
    postgresql.stop(signal.SIGQUIT)
    try:
        for each in (two.a, two.b):
            with each.client(two.token) as client, pytest.raises(CallRefused) as refused:
                client.put_stream(CUC, stream(2), idempotency_key="put 2")
            assert refused.value.code is Code.UNAVAILABLE
            assert len(two.document(each, "plan")["streams"]) == 1 + len(network.of_file)
        time.sleep(1.5 * LEASE_S)  # until nobody leads any more
    finally:
        postgresql.start()
    assert network.met() == before
    two.put(two.a, 2)
    is_done(two, network, two.a, 2)
    assert two.until_configured(two.b, 1)["state"] == "configured"


@pytest.mark.parametrize(("number", "moment"), [(11, "begin"), (12, "decide"), (13, "result")])
def test_a_rollout_that_loses_the_database_ends_on_all_switches_alike(
    network: Network, two: Controllers, postgresql: Cluster, number: int, moment: str
) -> None:
    leader, other, asking = ask_with_fate(two, network, moment, "SIGSTOP", number)
    assert wait_until(lambda: standing_still(leader), LIMIT_S), leader.log
    said = len(leader.log)
    postgresql.stop()
    try:
        leader.signal(signal.SIGCONT)
        failed = "the database of the service failed"
        assert wait_until(lambda: failed in leader.log[said:], LIMIT_S), leader.log
        assert asking.ended()
    finally:
        postgresql.start()
    is_done(two, network, other, number)
