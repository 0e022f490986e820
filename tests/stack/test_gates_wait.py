"""The agent on a real sysrepo: a switch that boots holds its stored gates until its clock has
settled."""

from __future__ import annotations

import pytest

from agent.datastore.subscriptions import Datastore
from agent.mechanisms.gates.model import GateState
from tests.stack.recording_kernel import RecordingKernel, port
from tests.stack.sysrepo_client import NOW_NS, gated

LACKING = "managed by PTP instance 0: at most 4000 ns off in the last 10 s; the plan allows 1000 ns"
ROLLOUT = "tsn-linux:rollout"


@pytest.fixture
def booted():
    """A kernel without gates, whose clock has not settled."""
    kernel = RecordingKernel(port("p1"), now_ns=NOW_NS)
    kernel.unsettled = LACKING
    return kernel


def has_gates(kernel):
    return kernel.states["p1"][GateState].taprio is not None


def shown(client):
    return client.read("/tsn-linux:agent")["tsn-linux:agent"].get("gates-wait")


def store(client, **rollout):
    """What a switch has stored that boots; nobody serves it yet."""
    client.merge({"ietf-interfaces:interfaces": {"interface": [gated("p1")]}, ROLLOUT: rollout})


def test_stored_gates_wait_until_the_clock_has_settled(booted, client):
    store(client, **{"clock-error-ns": "1000"})
    serving = Datastore(booted)
    assert not has_gates(booted)
    assert shown(client) == LACKING
    assert booted.allowed_ns == 1_000

    booted.unsettled = None
    serving.close()
    serving = Datastore(booted)
    assert has_gates(booted)
    assert shown(client) is None
    serving.close()


def test_another_rollout_sets_them_at_once(booted, client):
    store(client, **{"clock-error-ns": "1000"})
    serving = Datastore(booted)
    client.merge({ROLLOUT: {"id": "0e1f3ac2-6f0c-4c6b-9f0c-2d0f6a5a7d11"}})
    assert has_gates(booted)
    assert shown(client) is None
    serving.close()


def test_a_switch_without_others_does_not_wait(booted, client):
    store(client, controller="ann@noc")
    serving = Datastore(booted)
    assert has_gates(booted)
    serving.close()
