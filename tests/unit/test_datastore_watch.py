"""A look mends what stands still, and what could not be mended is not forgotten."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from agent.datastore.changes import Changes
from agent.datastore.watch import Watch
from agent.events import PortDrift, PortRestored, PortStateChange
from agent.mechanisms.gates.model import GateState
from tests.stack.recording_kernel import RecordingKernel, bare, port
from tests.stack.sysrepo_client import NOW_NS, gated

CONFIGURED = {"ietf-interfaces:interfaces": {"interface": [gated("p1")]}}


@pytest.fixture
def kernel():
    return RecordingKernel(port("p1"), now_ns=NOW_NS)


@pytest.fixture
def changes(kernel):
    serving = Changes(kernel, lambda: CONFIGURED)
    serving.reconcile(CONFIGURED)
    kernel.log.clear()
    return serving


@pytest.fixture
def events():
    return []


@pytest.fixture
def look(kernel, changes, events):
    """Looks at the switch; its doorbell does not ring."""
    with closing(Watch(kernel, changes, events.append)) as watch:
        yield watch._poll


@pytest.mark.parametrize("looks_while_it_is_gone", [1, 3])
def test_a_port_that_went_away_in_drift_is_told_to_be_restored_once_it_is_back_and_right(
    kernel, look, events, looks_while_it_is_gone
):
    kernel.states["p1"] = bare(kernel.states["p1"])
    look()
    del kernel.states["p1"]
    for _ in range(looks_while_it_is_gone):
        look()
    assert [type(event) for event in events] == [PortDrift, PortStateChange]
    kernel.states["p1"] = port("p1", ifindex=9)
    look()
    look()
    assert [type(event) for event in events[2:]] == [PortStateChange, PortRestored]


def test_a_port_that_comes_back_with_the_drift_it_went_away_with_is_told_nothing_new(
    kernel, look, events
):
    drifted = kernel.states["p1"] = bare(kernel.states["p1"])
    look()
    del kernel.states["p1"]
    look()
    kernel.refuse = "port p1: no"
    kernel.states["p1"] = drifted
    look()
    assert [type(event) for event in events] == [PortDrift, PortStateChange, PortStateChange]


def lose_link(kernel):
    p1 = kernel.states["p1"]
    kernel.states["p1"] = replace(p1, carrier_losses=p1.carrier_losses + 1)


def test_a_port_whose_list_was_not_set_anew_gets_it_at_the_next_look(kernel, look, caplog):
    configured = kernel.states["p1"]
    lose_link(kernel)
    kernel.refuse = "port p1: the kernel refused the schedule: Cannot allocate memory (ENOMEM)"
    look()
    assert kernel.states["p1"][GateState].taprio is None
    assert kernel.refuse in caplog.text
    kernel.refuse = None
    look()
    assert kernel.states["p1"][GateState].taprio == configured[GateState].taprio
    look()
    assert kernel.log == ["restart p1", "apply p1"]


def test_a_list_that_could_not_be_removed_is_set_anew_at_the_next_look(kernel, look, monkeypatch):
    lose_link(kernel)
    with monkeypatch.context() as broken:
        broken.setattr(kernel, "restart", lambda states: {"p1": "the kernel did not remove it"})
        look()
    look()
    look()
    assert kernel.log == ["restart p1"]
