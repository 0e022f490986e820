"""A commit that comes after its instant does nothing; whatever brings an earlier one back, does."""

from __future__ import annotations

from contextlib import closing
from uuid import UUID

import pytest

from agent.datastore.rollouts import AppliedRollouts
from agent.datastore.subscriptions import Datastore
from agent.mechanisms.gates.model import GateState
from agent.model import NS_PER_S
from tests.stack.sysrepo_client import NOW_NS, entry, gated

QUARTERS = (entry(0, 0b10, 250_000), entry(1, 0b01, 750_000))
THIRDS = (entry(0, 0b11, 300_000), entry(1, 0b01, 700_000))
BRIDGE = {
    "ieee802-dot1q-bridge:bridges": {
        "bridge": [
            {
                "name": "br0",
                "address": "02-00-00-00-00-01",
                "bridge-type": "ieee802-dot1q-bridge:customer-vlan-bridge",
                "component": [
                    {"name": "br0", "type": "ieee802-dot1q-bridge:c-vlan-component"},
                ],
            }
        ]
    }
}


@pytest.fixture
def rollouts_file(tmp_path):
    return tmp_path / "rollouts.json"


@pytest.fixture
def agent(kernel, client, rollouts_file):
    with closing(Datastore(kernel, rollouts=AppliedRollouts(rollouts_file))) as serving:
        yield serving


def rollout(number, *, seconds_left=None):
    """The record of a rollout, to be applied within so many seconds; None: at any time."""
    record = {"id": str(UUID(int=number)), "controller": "ann@noc"}
    if seconds_left is not None:
        record["apply-before"] = str(NOW_NS + round(seconds_left * NS_PER_S))
    return record


def pushed(number, entries, *, seconds_left=None):
    """What a push edits: gates and the record of its rollout, in two modules."""
    return {
        "ietf-interfaces:interfaces": {"interface": [gated("p1", entries)]},
        "tsn-linux:rollout": rollout(number, seconds_left=seconds_left),
    }


def runs(kernel):
    """The duration of the first entry of the list that the port has; None without one."""
    taprio = kernel.states["p1"][GateState].taprio
    return taprio and taprio.schedule.entries[0].interval_ns


def test_a_commit_that_comes_in_time_is_applied(agent, client, kernel):
    client.merge(pushed(1, QUARTERS, seconds_left=1))
    assert runs(kernel) == 250_000


def test_a_commit_that_comes_late_does_nothing(agent, client, kernel):
    client.merge(pushed(1, QUARTERS, seconds_left=1))
    kernel.log.clear()
    reason = client.refusal(pushed(2, THIRDS, seconds_left=-1))
    assert runs(kernel) == 250_000
    assert kernel.log == []
    assert client.read("/tsn-linux:rollout", "running")["tsn-linux:rollout"] == rollout(
        1, seconds_left=1
    )
    assert "was to be applied by 2001-09-09 01:46:39.000 TAI" in reason
    assert "here it is 2001-09-09 01:46:40.000 TAI, 1.000 s after that" in reason
    assert "TAI offset 37 s, clock settled" in reason
