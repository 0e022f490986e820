"""Gates and offsets of talkers that are stored when the agent starts: they wait until the clock has
settled."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from agent.datastore.changes import Changes
from agent.datastore.open_change import Request
from agent.datastore.rollout import ROLLOUT_MODULE, Rollout
from agent.datastore.watch import Watch
from agent.mechanisms.classification.model import DscpState
from agent.mechanisms.gates.model import GateState
from agent.mechanisms.stream_filters.model import StreamFilterState
from agent.mechanisms.talker_offsets.model import OffsetState
from agent.model import LinuxBridge
from tests.stack.recording_kernel import RecordingKernel, port
from tests.stack.stream_filters import a_filter, psfp, with_list
from tests.stack.stream_identities import named, stream_identities
from tests.stack.sysrepo_client import NOW_NS, entry, gated
from tests.unit.test_talker_offsets import TREE_STREAM

CLOCK_ERROR_NS = 1_000
LACKING = "managed by PTP instance 0: it does not follow a grandmaster"
QUARTERS = (entry(0, 0b10, 250_000), entry(1, 0b01, 750_000))
INTERFACES = "ietf-interfaces"


ROLLOUT = {"tsn-linux:rollout": {"clock-error-ns": str(CLOCK_ERROR_NS)}}


def tree(*interfaces):
    return {"ietf-interfaces:interfaces": {"interface": list(interfaces)}}


STORED = tree(gated("p1"), gated("p2")) | ROLLOUT


@pytest.fixture
def kernel():
    found = RecordingKernel(port("p1", 2), port("p2", 3), now_ns=NOW_NS)
    found.unsettled = LACKING
    return found


@pytest.fixture
def changes(kernel):
    serving = Changes(kernel, lambda: STORED)
    serving.start(STORED)
    yield serving
    serving.close()


@pytest.fixture
def look(kernel, changes):
    """Looks at the switch, and returns what is told of it; nothing else wakes the watch."""
    events = []
    with closing(Watch(kernel, changes, events.append)) as watch:

        def look():
            watch._poll()
            return events

        yield look


def with_gates(kernel):
    return {name for name, state in kernel.states.items() if state[GateState].taprio is not None}


def test_stored_gates_are_not_set_before_the_clock_has_settled(kernel, changes, look):
    assert look() == []  # no drift either: the ports do what they are to do now
    assert with_gates(kernel) == set()
    assert changes.gates_wait() == LACKING


def test_the_rest_of_what_is_stored_is_in_force_meanwhile(kernel, changes):
    assert kernel.states["p1"][DscpState].priorities == {46: 7}
    assert changes.memory.history.keys() == set()


def test_they_are_set_once_it_has_settled(kernel, changes, look, caplog):
    kernel.unsettled = None
    assert "about to be set" in changes.gates_wait()
    with caplog.at_level("INFO"):
        look()
    assert "setting the gates of p1, p2" in caplog.text
    assert with_gates(kernel) == {"p1", "p2"}
    assert changes.gates_wait() is None
    assert changes.memory.history.keys() == {"p1", "p2"}


def test_the_log_says_which_gates_wait_and_for_what(kernel, caplog):
    with caplog.at_level("INFO"):
        Changes(kernel, lambda: STORED).start(STORED)
    assert f"the gates of p1, p2 wait for the clock: {LACKING}" in caplog.text


def test_the_log_names_a_ptp4l_that_runs_only_once_what_is_stored_is_in_force(
    kernel, monkeypatch, caplog
):
    kernel.unsettled = "unmanaged: the kernel says that no program synchronises it"
    read = kernel.ports.read

    def read_with_ptp4l():
        if kernel.log:
            kernel.unsettled = LACKING
        return read()

    monkeypatch.setattr(kernel.ports, "read", read_with_ptp4l)
    with caplog.at_level("INFO"):
        Changes(kernel, lambda: STORED).start(STORED)
    assert f"the gates of p1, p2 wait for the clock: {LACKING}" in caplog.text


@pytest.mark.parametrize(
    ("stored", "allowed_ns"),
    [
        ({"tsn-linux:rollout": {"clock-error-ns": "1000"}}, 1_000),
        ({"tsn-linux:rollout": {"controller": "ann@noc"}}, None),
        ({}, None),
    ],
)
def test_the_clock_error_of_the_plan_is_a_number_though_sysrepo_has_a_text(stored, allowed_ns):
    assert Rollout.of(stored).clock_error_ns == allowed_ns


def test_what_has_settled_once_waits_no_more(kernel, changes, look):
    kernel.unsettled = None
    look()
    kernel.unsettled = LACKING
    kernel.log.clear()
    look()
    assert with_gates(kernel) == {"p1", "p2"}
    assert kernel.log == []


def test_gates_that_run_are_left_alone_by_an_agent_that_starts_again(kernel, changes, look):
    kernel.unsettled = None
    look()
    kernel.unsettled = LACKING
    kernel.log.clear()
    restarted = Changes(kernel, lambda: STORED)
    restarted.start(STORED)
    assert kernel.log == []
    assert restarted.gates_wait() is None


def test_an_agent_that_starts_again_while_gates_wait_goes_on_waiting(kernel, changes):
    restarted = Changes(kernel, lambda: STORED)
    restarted.start(STORED)
    assert restarted.gates_wait() == LACKING
    assert with_gates(kernel) == set()


def test_without_a_clock_error_there_is_no_other_clock_to_wait_for(kernel):
    stored = tree(gated("p1"), gated("p2"))
    alone = Changes(kernel, lambda: stored)
    alone.start(stored)
    assert with_gates(kernel) == {"p1", "p2"}
    assert alone.gates_wait() is None


def test_a_port_that_appears_meanwhile_waits_as_well(kernel, look):
    del kernel.states["p2"]
    look()
    kernel.states["p2"] = port("p2", 9)
    look()
    assert kernel.states["p2"][DscpState].priorities == {46: 7}
    assert with_gates(kernel) == set()
    kernel.unsettled = None
    look()
    assert with_gates(kernel) == {"p1", "p2"}


def test_a_port_that_is_missing_when_the_clock_settles_gets_its_gates_when_it_appears(kernel, look):
    del kernel.states["p2"]
    kernel.unsettled = None
    look()
    assert with_gates(kernel) == {"p1"}
    kernel.states["p2"] = port("p2", 9)
    look()
    assert with_gates(kernel) == {"p1", "p2"}


def test_gates_that_a_client_changes_are_set_at_once_and_the_others_wait_on(kernel, changes, look):
    request = Request(INTERFACES, 1)
    changed = tree(gated("p1", QUARTERS), gated("p2"))
    changes.change(request, changed)
    assert with_gates(kernel) == {"p1"}
    changes.done(request, lambda: changed)
    look()
    assert with_gates(kernel) == {"p1"}
    assert changes.gates_wait() == LACKING


def test_a_rollout_sets_all_gates_at_once_those_that_it_leaves_as_they_are_too(kernel, changes):
    """A push has compared the clocks by itself, and checks that the kernel runs what it sent."""
    requests = [Request(ROLLOUT_MODULE, 1), Request(INTERFACES, 1)]
    pushed = {**STORED, "tsn-linux:rollout": ROLLOUT["tsn-linux:rollout"] | {"id": "next"}}
    for request in requests:
        changes.change(request, pushed)
    assert with_gates(kernel) == {"p1", "p2"}
    for request in requests:
        changes.done(request, lambda: pushed)
    assert changes.gates_wait() is None


def test_who_acts_for_the_network_of_the_rollout_in_force_sets_no_gates(kernel, changes):
    claimed = ROLLOUT["tsn-linux:rollout"] | {"network": "plant", "term": "7"}
    request = Request(ROLLOUT_MODULE, 1)
    changes.change(request, {**STORED, "tsn-linux:rollout": claimed})
    assert with_gates(kernel) == set()
    assert changes.gates_wait() == LACKING


def test_a_change_that_is_taken_back_leaves_the_gates_waiting(kernel, changes, look):
    request = Request(ROLLOUT_MODULE, 1)
    changes.change(request, STORED)
    changes.abort(request)
    look()
    assert with_gates(kernel) == set()
    assert changes.gates_wait() == LACKING


def test_a_port_that_cannot_be_configured_does_not_let_the_others_gates_loose(kernel, look):
    """The ports are tried one by one then."""
    kernel.states["p2"] = port("p2", 3, foreign_qdisc="cake")
    serving = Changes(kernel, lambda: STORED)
    serving.start(STORED)
    assert with_gates(kernel) == set()
    assert serving.gates_wait() == LACKING


BRIDGE = replace(port("br0", 9), as_bridge=LinuxBridge(True, True, {"p1": 1}))
POLICED = psfp(
    [a_filter(**{"max-sdu-size": 200})], [with_list(**{"admin-gate-states": "open"})]
) | stream_identities(named())


@pytest.fixture
def bridge():
    found = RecordingKernel(replace(port("p1", 2), bridge="br0"), BRIDGE, now_ns=NOW_NS)
    found.unsettled = LACKING
    return found


def started(kernel, stored):
    serving = Changes(kernel, lambda: stored)
    serving.start(stored | ROLLOUT)
    return serving


def stream_gate(kernel):
    (only,) = kernel.states["br0"][StreamFilterState].table.gates
    return only


def test_a_stored_stream_gate_lets_pass_at_any_time_until_the_clock_has_settled(bridge):
    """By a wrong clock it would drop each frame of its stream."""
    serving = started(bridge, POLICED)
    assert stream_gate(bridge).list is None
    assert stream_gate(bridge).first.is_open
    assert serving.gates_wait() == LACKING

    bridge.unsettled = None
    assert serving.end_wait(bridge.read())
    assert stream_gate(bridge).list is not None
    assert serving.gates_wait() is None


def test_its_filter_looks_at_lengths_meanwhile(bridge):
    started(bridge, POLICED)
    (only,) = bridge.states["br0"][StreamFilterState].table.filters
    assert only.max_sdu_octets == 200


def test_a_stream_gate_that_is_closed_before_its_list_is_closed_meanwhile(bridge):
    closed = psfp([a_filter()], [with_list(**{"admin-gate-states": "closed"})])
    started(bridge, closed | stream_identities(named()))
    assert not stream_gate(bridge).first.is_open


def test_stream_gates_that_run_are_left_alone_by_an_agent_that_starts_again(bridge):
    bridge.unsettled = None
    assert started(bridge, POLICED).end_wait(bridge.read())
    bridge.unsettled = LACKING
    bridge.log.clear()
    restarted = started(bridge, POLICED)
    assert bridge.log == []
    assert restarted.gates_wait() is None


def test_stream_filters_without_a_list_wait_for_no_clock(bridge):
    unlisted = psfp([a_filter()], [{"stream-gate-instance-id": 1, "gate-enable": True}])
    serving = started(bridge, unlisted | stream_identities(named()))
    assert serving.gates_wait() is None


def test_a_stream_gate_that_a_client_changes_is_set_at_once(bridge):
    serving = started(bridge, POLICED)
    changed = psfp([a_filter()], [with_list(cycle_ns=2_000_000)]) | stream_identities(named())
    serving.change(Request("ieee802-dot1q-bridge", 1), changed)
    assert stream_gate(bridge).list.cycle_ns == 2_000_000
    assert serving.gates_wait() is None


def test_a_stream_gate_without_a_list_that_a_client_adds_lets_the_others_wait_on(bridge):
    serving = started(bridge, POLICED)
    unlisted = {"stream-gate-instance-id": 2, "gate-enable": True}
    gates = [with_list(**{"admin-gate-states": "open"}), unlisted]
    more = psfp([a_filter(**{"max-sdu-size": 200}), a_filter(2, 2, handle=None)], gates)
    serving.change(Request("ieee802-dot1q-bridge", 1), more | stream_identities(named()))
    gates_set = bridge.states["br0"][StreamFilterState].table.gates
    assert [gate.list for gate in gates_set] == [None, None]
    assert serving.gates_wait() == LACKING


def test_a_stream_that_a_client_adds_lets_the_gates_of_others_wait_on(bridge):
    serving = started(bridge, POLICED)
    more = stream_identities(named(), named(index=9, **{"destination-mac": "02-54-53-4E-00-09"}))
    serving.change(Request("ieee802-dot1cb-stream-identification", 1), POLICED | more)
    assert stream_gate(bridge).list is None
    assert serving.gates_wait() == LACKING


TOLD = {
    "name": "p1",
    "tsn-end-station:talker": {"base-time-ns": "1000000000", "stream": [TREE_STREAM]},
}


def test_talkers_are_told_their_offsets_once_the_clock_has_settled(kernel):
    """By a wrong clock their frames would take the windows of others."""
    serving = started(kernel, tree(TOLD))
    assert kernel.states["p1"][OffsetState].newest is None
    assert serving.gates_wait() == LACKING

    kernel.unsettled = None
    assert serving.end_wait(kernel.read())
    assert kernel.states["p1"][OffsetState].newest is not None
    assert serving.gates_wait() is None


def test_talkers_that_know_their_offsets_are_left_alone_by_an_agent_that_starts_again(kernel):
    kernel.unsettled = None
    assert started(kernel, tree(TOLD)).end_wait(kernel.read())
    kernel.unsettled = LACKING
    restarted = started(kernel, tree(TOLD))
    assert kernel.states["p1"][OffsetState].newest is not None
    assert restarted.gates_wait() is None


def test_an_offset_that_a_client_changes_is_published_at_once(kernel):
    serving = started(kernel, tree(TOLD))
    moved = {"base-time-ns": "2000000000", "stream": [TREE_STREAM | {"offset-ns": "90000"}]}
    serving.change(Request(INTERFACES, 1), tree({"name": "p1", "tsn-end-station:talker": moved}))
    assert kernel.states["p1"][OffsetState].newest is not None
    assert serving.gates_wait() is None
