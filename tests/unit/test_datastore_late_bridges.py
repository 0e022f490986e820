"""Bridges and ports that appear after the agent, or that it cannot configure together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.datastore.changes import Changes
from agent.datastore.identities import identities
from agent.mechanisms.forwarding.model import ForwardingState
from agent.mechanisms.gates.model import GateState
from agent.mechanisms.received_priority.model import ReceivedPriorityState
from tests.stack.filtering_entries import BRIDGE, PORTS, bridges, entry
from tests.stack.recording_kernel import RecordingKernel, port
from tests.stack.sysrepo_client import NOW_NS, gated

TRUST = {"priority-regeneration": {f"priority{p}": p for p in range(8)}}


def tree():
    """An entry of br0, p1 that trusts the PCP, gates at p2."""
    trusting = {"name": "p1", "ieee802-dot1q-bridge:bridge-port": TRUST}
    ports = {"ietf-interfaces:interfaces": {"interface": [trusting, gated("p2")]}}
    return ports | bridges(entry("02-00-00-00-00-02", "p2"))


@pytest.fixture
def late():
    """The bridge and its ports, which are not there yet."""
    members = [replace(port(name, index), bridge="br0") for index, name in enumerate(PORTS, 2)]
    return {each.name: each for each in [*members, replace(port("br0", 9), as_bridge=BRIDGE)]}


@pytest.fixture
def kernel():
    return RecordingKernel(port("p9", 20), now_ns=NOW_NS)


@pytest.fixture
def changes(kernel):
    serving = Changes(kernel, tree)
    yield serving
    serving.close()


def parts_in_order(kernel, monkeypatch):
    """Which parts of which port change, from now on."""
    order, execute = [], kernel.ports.execute

    def observed(step):
        order.extend((each.owner, each.port) for each in step.after)
        execute(step)

    monkeypatch.setattr(kernel.ports, "execute", observed)
    return order


def test_what_appears_together_is_forwarded_after_its_class_and_before_its_gates(
    changes, kernel, late, monkeypatch
):
    changes.reconcile(tree())
    order = parts_in_order(kernel, monkeypatch)
    kernel.states.update(late)
    assert changes.apply_to_new_ports(kernel.read())
    stages = [("received-priority", "p1"), ("forwarding", "br0"), ("gates", "p2")]
    assert [each for each in order if each in stages] == stages


def test_a_bridge_without_all_of_its_ports_keeps_no_other_port_waiting(changes, kernel, late):
    changes.reconcile(tree())
    without_p3 = replace(BRIDGE, ports={name: BRIDGE.ports[name] for name in PORTS[:2]})
    kernel.states.update(late | {"br0": replace(late["br0"], as_bridge=without_p3)})
    del kernel.states["p3"]
    assert changes.apply_to_new_ports(kernel.read())
    assert kernel.states["p2"][GateState].taprio is not None
    assert kernel.states["p1"][ReceivedPriorityState].table is not None
    assert not kernel.states["br0"][ForwardingState].table
    kernel.states.update({name: late[name] for name in ("br0", "p3")})
    assert changes.apply_to_new_ports(kernel.read())
    assert kernel.states["br0"][ForwardingState].table


def test_a_port_that_left_and_returned_is_another_one_and_so_is_its_bridge(late):
    returned = late | {"p2": replace(late["p2"], bridge_departures=1)}
    before, after = identities(late), identities(returned)
    assert {name for name, each in after.items() if before[name] != each} == {"p2", "br0"}
