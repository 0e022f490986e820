"""A change is kept when it lands and taken back when it does not, whoever dies in between."""

from __future__ import annotations

import errno
import time
from dataclasses import replace

import pytest

from agent.datastore.changes import Changes
from agent.datastore.memory import Memory, MemoryFile
from agent.datastore.open_change import Request
from agent.mechanisms.gates.desired import BRIDGE_GATE_TABLE
from agent.mechanisms.gates.model import GateConfig, GateState
from agent.model import AgentError
from tests.stack.recording_kernel import RecordingKernel, altered, port

NOW_NS = 10_000_000_000


def tree(base_time_s=20):
    """Port p1 with a cycle of 1 ms; its base time tells one tree from another."""
    entry = {
        "index": 0,
        "operation-name": "ieee802-dot1q-sched:set-gate-states",
        "gate-states-value": 255,
        "time-interval-value": 1_000_000,
    }
    gates = {
        "gate-enabled": True,
        "config-change": True,
        "admin-control-list": {"gate-control-entry": [entry]},
        "admin-cycle-time": {"numerator": 1, "denominator": 1000},
        "admin-base-time": {"seconds": str(base_time_s)},
    }
    content = {"ieee802-dot1q-sched-bridge:gate-parameter-table": gates}
    interface = {"name": "p1", "ieee802-dot1q-bridge:bridge-port": content}
    return {"ietf-interfaces:interfaces": {"interface": [interface]}}


@pytest.fixture
def kernel():
    return RecordingKernel(port("p1"), now_ns=NOW_NS)


@pytest.fixture
def running():
    """What the running datastore holds; a test changes it in place."""
    return {}


@pytest.fixture
def changes(kernel, running):
    serving = Changes(kernel, lambda: dict(running), settle_timeout_s=60)
    yield serving
    serving.close()


def request(number, module="ietf-interfaces"):
    return Request(module, number)


def base_time_s(kernel):
    taprio = kernel.states["p1"][GateState].taprio
    return taprio and taprio.schedule.base_time_ns // 10**9


def test_a_change_is_applied_before_it_is_confirmed(changes, kernel):
    changes.change(request(1), tree())
    assert base_time_s(kernel) == 20
    assert changes.memory.last_change is None


def test_a_change_that_nobody_ends_is_taken_back_before_its_list_would_start(kernel, monkeypatch):
    """The NETCONF server died in the middle of it; its list is to start in 0.55 s."""
    monkeypatch.setattr("agent.datastore.changes.SETTLE_MIN_S", 0.01)
    serving = Changes(kernel, dict, settle_timeout_s=60)
    kernel.time_ns = 20 * 10**9 - 550_000_000
    serving.change(request(1), tree(base_time_s=20))
    deadline_s = time.monotonic() + 30
    while base_time_s(kernel) is not None:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    serving.close()


def test_a_change_that_landed_stays_and_is_reported(changes, kernel):
    changes.change(request(1), tree())
    changes.done(request(1), tree)
    assert base_time_s(kernel) == 20
    assert changes.memory.last_change.ports == 1


def test_an_aborted_change_is_taken_back(changes, kernel):
    changes.change(request(1), tree())
    changes.abort(request(1))
    assert base_time_s(kernel) is None
    assert changes.memory.last_change is None


def test_a_base_time_that_no_kernel_takes_is_refused_though_the_same_list_runs(changes, kernel):
    """Whole cycles away it asks for nothing new, until the switch has to set it after a boot."""
    changes.change(request(1), tree())
    changes.done(request(1), tree)
    kernel.time_ns = 30 * 10**9
    with pytest.raises(AgentError, match=r"port p1: base time \d+ ns is not within"):
        changes.change(request(2), tree(base_time_s=2**64 - 1))
    assert base_time_s(kernel) == 20


def test_an_abort_of_a_change_we_refused_touches_nothing(changes, kernel):
    kernel.refuse = "port p1: no"
    with pytest.raises(AgentError):
        changes.change(request(1), tree())
    changes.abort(request(1))
    assert kernel.log == []


def test_a_change_that_nobody_ends_is_taken_back_by_the_timer(kernel):
    changes = Changes(kernel, dict, settle_timeout_s=0.05)
    changes.change(request(1), tree())
    wait_until(lambda: kernel.log == ["apply p1", "undo p1"])


def test_a_change_that_nobody_ends_is_taken_back_although_running_could_not_be_read_at_first(
    kernel, monkeypatch, caplog
):
    monkeypatch.setattr("agent.datastore.changes.SETTLE_MIN_S", 0.01)
    answers = iter([TimeoutError("sysrepo: Timeout expired"), {}])

    def read_running():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    changes = Changes(kernel, read_running, settle_timeout_s=0.01)
    changes.change(request(1), tree())
    wait_until(lambda: kernel.log == ["apply p1", "undo p1"])
    assert "Timeout expired" in caplog.text


def test_a_change_that_landed_without_done_is_kept_by_the_timer(kernel):
    changes = Changes(kernel, tree, settle_timeout_s=0.05)
    changes.change(request(1), tree())
    wait_until(lambda: changes.memory.last_change is not None)
    assert kernel.log == ["apply p1"]


def test_the_next_change_takes_an_unended_one_back_first(changes, kernel):
    changes.change(request(1), tree(20))
    changes.change(request(2), tree(30))
    assert kernel.log == ["apply p1", "undo p1", "apply p1"]
    changes.abort(request(2))
    assert base_time_s(kernel) is None


def test_the_next_change_keeps_an_unended_one_that_landed(changes, kernel, running):
    changes.change(request(1), tree(20))
    running.update(tree(20))
    changes.change(request(2), tree(30))
    changes.abort(request(2))
    assert base_time_s(kernel) == 20


def test_a_change_that_lands_after_it_was_taken_back_is_applied_again(changes, kernel):
    changes.change(request(1), tree(20))
    changes.change(request(2), tree(30))
    changes.abort(request(2))
    changes.done(request(1), tree)
    assert base_time_s(kernel) == 20


def test_a_change_that_lands_late_is_what_is_wanted_also_when_the_kernel_refuses_it(
    changes, kernel
):
    changes.change(request(1), tree(20))
    changes.change(request(2), tree(30))
    kernel.refuse = "port p1: no"
    changes.done(request(1), lambda: tree(20))
    assert changes.desired["p1"][GateConfig].taprio.schedule.base_time_ns == 20 * 10**9


def test_reconciling_what_already_agrees_does_nothing(changes, kernel):
    changes.reconcile(tree())
    kernel.log.clear()
    changes.reconcile(tree())
    assert kernel.log == []


def test_a_running_configuration_the_switch_cannot_do_is_logged(changes, kernel, caplog):
    kernel.refuse = "port p1: needs 8 TX queues"
    changes.reconcile(tree())
    assert "port p1: needs 8 TX queues" in caplog.text


@pytest.mark.parametrize("p9_can", [True, False])
def test_a_port_that_cannot_do_what_it_is_to_keeps_no_other_from_losing_its_old_gates(
    kernel, p9_can, caplog
):
    """p9 is gone, or asks what taprio has not; p1 was taken out while no agent ran."""
    Changes(kernel, dict).reconcile(tree(20))
    impossible = tree()
    (p9,) = impossible["ietf-interfaces:interfaces"]["interface"]
    p9["name"] = "p9"
    if not p9_can:
        gates = p9["ieee802-dot1q-bridge:bridge-port"][BRIDGE_GATE_TABLE]
        gates["admin-cycle-time-extension"] = 5
        kernel.states["p9"] = by_hand = replace(kernel.states["p1"], name="p9", ifindex=9)
    Changes(kernel, dict).reconcile(impossible)
    assert "port p9" in caplog.text
    assert base_time_s(kernel) is None
    assert p9_can or kernel.states["p9"] == by_hand


def test_a_change_of_others_is_taken_while_a_port_is_gone(changes, kernel):
    changes.change(request(1), tree())
    changes.done(request(1), tree)
    gone = kernel.states.pop("p1")
    kernel.states["p2"] = port("p2", 3)
    both = tree()
    interfaces = both["ietf-interfaces:interfaces"]["interface"]
    interfaces.append(interfaces[0] | {"name": "p2"})
    changes.change(request(2), both)
    changes.done(request(2), lambda: both)
    assert kernel.states["p2"][GateState].taprio is not None
    kernel.states["p1"] = altered(gone, ifindex=9, taprio=None, running=None, pending=None)
    assert changes.apply_to_new_ports(kernel.read())
    assert base_time_s(kernel) == 20
    assert kernel.states["p2"][GateState].taprio is not None


def both(first, second):
    """p1 configured as in one tree, p2 as in another."""
    (p1,), (p2,) = (each["ietf-interfaces:interfaces"]["interface"] for each in (first, second))
    return {"ietf-interfaces:interfaces": {"interface": [p1, p2 | {"name": "p2"}]}}


NEVER = tree(base_time_s=2**64 - 1)  # no kernel takes it
NOTHING = {"ietf-interfaces:interfaces": {"interface": [{}]}}
FOREIGN = port("p2", 3, foreign_qdisc="pfifo 1:")


@pytest.mark.parametrize(
    ("stored", "p2", "why"),
    [(NEVER, port("p2", 3), "base time"), (tree(20), FOREIGN, "its root qdisc pfifo 1: was not")],
)
def test_what_a_port_cannot_do_since_the_boot_is_told_and_keeps_no_other_from_a_change(
    changes, kernel, stored, p2, why
):
    kernel.states["p2"] = p2
    changes.reconcile(both(tree(20), stored))
    assert list(changes.not_applied()) == ["p2"]
    assert changes.not_applied()["p2"].startswith(why)

    changes.change(request(1), both(tree(30), stored))
    changes.change(request(1, "tsn-linux"), both(tree(30), stored))
    changes.done(request(1), dict)
    changes.done(request(1, "tsn-linux"), dict)

    assert base_time_s(kernel) == 30
    assert kernel.states["p2"] == p2
    assert list(changes.not_applied()) == ["p2"]


@pytest.mark.parametrize(("stored", "p2"), [(NEVER, port("p2", 3)), (tree(20), FOREIGN)])
def test_what_a_port_cannot_do_is_refused_if_it_is_asked_for_anew(changes, kernel, stored, p2):
    kernel.states["p2"] = p2
    changes.reconcile(both(tree(20), stored))
    with pytest.raises(AgentError, match="port p2: "):
        changes.change(request(1), both(tree(20), tree(2**64 - 2)))
    changes.change(request(2), both(tree(20), NOTHING))
    changes.done(request(2), dict)
    assert changes.not_applied() == {}
    with pytest.raises(AgentError, match="port p2: "):
        changes.change(request(3), both(tree(20), stored))


def test_a_change_that_is_taken_back_leaves_a_port_as_impossible_as_it_was(changes, kernel):
    kernel.states["p2"] = port("p2", 3)
    changes.reconcile(both(tree(20), NEVER))
    changes.change(request(1), both(tree(20), tree(20)))
    changes.abort(request(1))
    assert list(changes.not_applied()) == ["p2"]
    changes.change(request(2), both(tree(30), NEVER))
    assert base_time_s(kernel) == 30


def test_a_port_that_is_gone_cannot_be_given_something_new(changes, kernel):
    changes.change(request(1), tree(20))
    changes.done(request(1), tree)
    del kernel.states["p1"]
    with pytest.raises(AgentError, match="port p1: no such interface"):
        changes.change(request(2), tree(30))


def test_a_port_is_met_once(changes, kernel):
    changes.reconcile(tree())
    kernel.states["p1"] = port("p1")
    assert not changes.apply_to_new_ports(kernel.read())
    kernel.states["p1"] = port("p1", ifindex=9)
    assert changes.apply_to_new_ports(kernel.read())
    assert not changes.apply_to_new_ports(kernel.read())


def test_what_a_port_could_not_do_it_is_asked_again_when_its_link_has_another_speed(
    changes, kernel
):
    kernel.states["p1"] = replace(kernel.states["p1"], link_speed_bps=None)
    kernel.refuse = "the kernel wants 48000 ns"
    changes.reconcile(tree(20))
    assert not changes.apply_to_new_ports(kernel.read())  # the same link: it would be refused again
    kernel.refuse = None
    kernel.states["p1"] = replace(kernel.states["p1"], link_speed_bps=1_000_000_000)

    assert changes.apply_to_new_ports(kernel.read())

    assert base_time_s(kernel) == 20
    kernel.states["p1"] = replace(kernel.states["p1"], link_speed_bps=100_000_000)
    assert not changes.apply_to_new_ports(kernel.read())  # it does what it is to


def test_a_port_whose_foreign_qdisc_was_removed_gets_its_configuration(changes, kernel):
    kernel.states["p1"] = port("p1", foreign_qdisc="pfifo 1:")
    kernel.refuse = "port p1: its root qdisc pfifo 1: was set by somebody else"
    changes.reconcile(tree(20))
    assert not changes.apply_to_new_ports(kernel.read())
    kernel.refuse = None
    kernel.states["p1"] = port("p1")
    assert changes.apply_to_new_ports(kernel.read())
    assert base_time_s(kernel) == 20


def test_a_port_is_asked_again_after_a_while_whatever_was_in_its_way(changes, kernel, monkeypatch):
    kernel.refuse = "port p1: this kernel has no sch_taprio"
    changes.reconcile(tree(20))
    kernel.refuse = None
    assert not changes.apply_to_new_ports(kernel.read())
    monkeypatch.setattr("agent.datastore.failed_ports.RETRY_S", 0.0)
    assert changes.apply_to_new_ports(kernel.read())
    assert base_time_s(kernel) == 20
    assert not changes.apply_to_new_ports(kernel.read())


def test_what_a_port_cannot_do_is_said_once_for_each_reason(changes, kernel, monkeypatch, caplog):
    monkeypatch.setattr("agent.datastore.failed_ports.RETRY_S", 0.0)
    kernel.refuse = "port p1: this kernel has no sch_taprio"
    changes.reconcile(tree(20))
    caplog.clear()
    assert changes.apply_to_new_ports(kernel.read())
    assert caplog.text == ""
    kernel.refuse = "port p1: Operation not permitted (EPERM)"
    assert changes.apply_to_new_ports(kernel.read())
    assert changes.apply_to_new_ports(kernel.read())
    assert caplog.text.count("EPERM") == 1


def test_an_error_of_the_system_keeps_a_port_from_its_configuration_no_longer_than_it_lasts(
    changes, kernel, monkeypatch, caplog
):
    def without_memory(*_):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr("agent.datastore.failed_ports.RETRY_S", 0.0)
    with monkeypatch.context() as broken:
        broken.setattr(kernel, "apply", without_memory)
        changes.reconcile(tree(20))
        assert changes.apply_to_new_ports(kernel.read())
    assert "Cannot allocate memory" in caplog.text
    assert changes.apply_to_new_ports(kernel.read())
    assert base_time_s(kernel) == 20


def test_a_port_that_is_no_longer_configured_is_left_alone_however_it_was_refused(
    changes, kernel, monkeypatch
):
    monkeypatch.setattr("agent.datastore.failed_ports.RETRY_S", 0.0)
    kernel.refuse = "port p1: no"
    changes.reconcile(tree(20))
    kernel.refuse = None
    changes.change(request(1), {})
    changes.done(request(1), dict)
    assert not changes.apply_to_new_ports(kernel.read())


def test_a_port_that_comes_back_as_the_same_interface_is_met_again(changes, kernel):
    changes.reconcile(tree())
    changes.apply_to_new_ports({})
    kernel.states["p1"] = port("p1")
    assert changes.apply_to_new_ports(kernel.read())
    assert base_time_s(kernel) == 20


def test_a_port_that_comes_while_a_change_is_open_gets_what_that_asks_and_loses_nothing(
    changes, kernel, running
):
    changes.reconcile(tree(20))
    changes.change(request(1), tree(30))
    kernel.states["p1"] = port("p1", ifindex=9)
    changes.apply_to_new_ports(kernel.read())
    assert base_time_s(kernel) == 30
    changes.done(request(1), lambda: tree(30))
    assert changes.desired["p1"][GateConfig].taprio.schedule.base_time_ns == 30 * 10**9


def test_a_port_that_was_replugged_right_before_a_change_does_what_it_did_if_that_is_taken_back(
    changes, kernel
):
    changes.reconcile(tree(20))
    kernel.states["p1"] = port("p1", ifindex=9)
    changes.change(request(1), {})
    changes.abort(request(1))
    assert changes.apply_to_new_ports(kernel.read())
    assert base_time_s(kernel) == 20


def test_a_port_that_comes_while_a_change_is_open_loses_what_that_asked_if_it_is_taken_back(
    changes, kernel
):
    changes.reconcile({})
    changes.change(request(1), tree(30))
    kernel.states["p1"] = port("p1", ifindex=9)
    changes.apply_to_new_ports(kernel.read())
    assert base_time_s(kernel) == 30
    changes.abort(request(1))
    assert changes.apply_to_new_ports(kernel.read())
    assert base_time_s(kernel) is None


@pytest.mark.parametrize(("before", "base_time_before_s"), [(tree(20), 20), ({}, None)])
def test_a_change_that_the_kernel_did_not_let_go_of_is_taken_back_at_the_next_look(
    changes, kernel, before, base_time_before_s
):
    changes.reconcile(before)
    changes.change(request(1), tree(30))
    kernel.refuse = "Cannot allocate memory"
    changes.abort(request(1))
    assert base_time_s(kernel) == 30
    kernel.refuse = None
    assert changes.apply_to_new_ports(kernel.read())
    assert base_time_s(kernel) == base_time_before_s
    assert not changes.apply_to_new_ports(kernel.read())


def test_what_a_refused_change_left_behind_is_removed_at_the_next_look(
    changes, kernel, monkeypatch
):
    def half_done(*ports):
        RecordingKernel.apply(kernel, *ports)
        raise AgentError("port p2: no\nnot restored: port p1: no")

    changes.reconcile(tree(20))
    with monkeypatch.context() as broken:
        broken.setattr(kernel, "apply", half_done)
        with pytest.raises(AgentError, match="not restored"):
            changes.change(request(1), tree(30))
    assert base_time_s(kernel) == 30
    assert changes.apply_to_new_ports(kernel.read())
    assert base_time_s(kernel) == 20


def test_what_somebody_did_to_a_port_is_left_when_a_change_is_taken_back(changes, kernel):
    changes.reconcile(tree(20))
    by_hand = port("p1", ifindex=kernel.states["p1"].ifindex)
    kernel.states["p1"] = by_hand
    changes.change(request(1), tree(30))
    changes.abort(request(1))
    assert not changes.apply_to_new_ports(kernel.read())
    assert kernel.states["p1"] == by_hand


def test_what_is_wanted_goes_back_with_a_change_that_is_taken_back(changes):
    changes.reconcile(tree(20))
    changes.change(request(1), tree(30))
    assert changes.desired["p1"][GateConfig].taprio.schedule.base_time_ns == 30 * 10**9
    changes.abort(request(1))
    assert changes.desired["p1"][GateConfig].taprio.schedule.base_time_ns == 20 * 10**9


def test_a_change_that_was_taken_back_leaves_no_history(changes):
    changes.change(request(1), tree())
    changes.abort(request(1))
    assert changes.memory.history == {}


def test_what_a_change_left_is_known_to_the_next_agent(kernel, running, tmp_path):
    file = MemoryFile(tmp_path / "memory.json")
    serving = Changes(kernel, lambda: dict(running), memory_file=file)
    serving.change(request(1), tree())
    assert file.read() == Memory()
    serving.done(request(1), tree)
    serving.close()
    successor = Changes(kernel, lambda: dict(running), memory_file=file)
    assert successor.memory == serving.memory
    assert successor.memory.history["p1"].change_time_ns == 20_000_000_000


def test_a_change_of_nothing_leaves_the_file_alone(kernel, tmp_path):
    path = tmp_path / "memory.json"
    serving = Changes(kernel, dict, memory_file=MemoryFile(path))
    serving.reconcile(tree())
    path.unlink()
    serving.reconcile(tree())
    assert not path.exists()


def wait_until(condition):
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


BRIDGES = {"ieee802-dot1q-bridge:bridges": {}}
COMMIT = (request(1), request(7, "ieee802-dot1q-bridge"))


def test_a_commit_of_two_modules_is_one_change(changes, kernel, caplog):
    changes.change(COMMIT[0], tree())
    changes.change(COMMIT[1], BRIDGES)  # where the interfaces are still what they were
    for each in COMMIT:
        assert base_time_s(kernel) == 20
        changes.done(each, tree)
    assert kernel.log == ["apply p1"]
    assert changes.desired.keys() == {"p1"}
    assert changes.memory.last_change.ports == 1
    assert not caplog.records


def test_a_commit_of_two_modules_is_reverted_as_a_whole(changes, kernel):
    changes.change(COMMIT[1], BRIDGES)
    changes.change(COMMIT[0], tree())
    for each in COMMIT:
        changes.abort(each)
    assert kernel.states["p1"][GateState].taprio is None
    assert kernel.log == ["apply p1", "undo p1"]


def test_of_a_commit_that_never_ends_what_landed_is_applied(kernel, running):
    changes = Changes(kernel, lambda: dict(running), settle_timeout_s=0.1)
    changes.change(COMMIT[0], tree())
    running.update(tree())
    changes.change(COMMIT[1], BRIDGES)  # a client that dies then: its bridges never land
    changes.done(COMMIT[0], tree)
    wait_until(lambda: kernel.log == ["apply p1", "undo p1", "apply p1"])
    changes.close()
