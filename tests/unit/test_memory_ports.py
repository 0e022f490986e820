"""Ports in memory do what a kernel's would: they take, refuse, wait, go back."""

from __future__ import annotations

import dataclasses

import pytest

from agent import main as program
from agent.kernel import clock
from agent.mechanisms import MECHANISMS
from agent.mechanisms.classification.model import DscpState
from agent.mechanisms.gates.model import GateEntry, GateSchedule, GateState, Taprio, TaprioMode
from agent.memory_ports import MemoryPorts, PollMonitor, rehearsal_ports
from agent.model import AgentError, Clock
from agent.switch import Switch
from agent.traffic_classes import QueueRange
from tests.stack.recording_kernel import configured

CYCLE_NS = 1_000_000
NOW_NS = 100 * CYCLE_NS


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch) -> Switch:
    """p1 and p2, at the time NOW_NS."""
    monkeypatch.setattr(clock, "now_ns", lambda _: NOW_NS)
    return Switch(MemoryPorts(MECHANISMS, rehearsal_ports(["p1", "p2"])))


def gates(base_time_ns: int = 0, open_ns: int = 400_000) -> Taprio:
    entries = (GateEntry(2, open_ns), GateEntry(1, CYCLE_NS - open_ns))
    return Taprio(
        priority_map=(0, 1, *(0,) * 14),
        queues=(QueueRange(1, 0), QueueRange(1, 1)),
        mode=TaprioMode.SOFTWARE,
        clock=Clock.TAI,
        schedule=GateSchedule(base_time_ns, CYCLE_NS, entries),
    )


def test_a_list_runs_and_the_other_port_stays_as_it_was(ports: Switch):
    wanted = configured("p1", gates(), {16: 1})
    applied = ports.apply({"p1": wanted})
    state = ports.read()["p1"]
    assert (state[GateState].taprio, state[GateState].running, state[GateState].pending) == (
        gates(),
        gates().schedule,
        None,
    )
    assert (state.root_qdisc, state[DscpState].priorities, len(state[GateState].counters)) == (
        "taprio",
        {16: 1},
        2,
    )
    assert applied.ports == {"p1"}
    assert ports.read()["p2"][GateState].taprio is None


def test_a_list_waits_for_its_base_time_beside_the_one_that_runs(
    ports: Switch, monkeypatch: pytest.MonkeyPatch
):
    ports.apply({"p1": configured("p1", gates())})
    later = gates(NOW_NS + CYCLE_NS, open_ns=500_000)
    ports.apply({"p1": configured("p1", later)})
    state = ports.read()["p1"]
    assert (state[GateState].running, state[GateState].pending) == (
        gates().schedule,
        later.schedule,
    )
    monkeypatch.setattr(clock, "now_ns", lambda _: NOW_NS + CYCLE_NS)
    state = ports.read()["p1"]
    assert (state[GateState].running, state[GateState].pending) == (later.schedule, None)


def test_what_is_there_already_takes_no_step(ports: Switch):
    ports.apply({"p1": configured("p1", gates())})
    assert not ports.apply({"p1": configured("p1", gates())}).steps


def test_undo_brings_back_what_was_there(ports: Switch):
    ports.apply({"p1": configured("p1", gates())})
    before = ports.read()
    ports.apply({"p2": configured("p2", gates())}).undo()
    assert ports.read() == before


def test_a_port_that_is_not_configured_any_more_has_no_gates(ports: Switch):
    untouched = ports.read()
    ports.apply({"p1": configured("p1", gates(), {16: 1})})
    ports.apply({})
    assert ports.read() == untouched


def test_what_a_kernel_would_refuse_is_refused_and_changes_nothing(ports: Switch):
    too_long = dataclasses.replace(gates(), schedule=GateSchedule(0, CYCLE_NS, (GateEntry(1, 1),)))
    untouched = ports.read()
    with pytest.raises(AgentError, match="port p2: the gate control list lasts 1 ns") as refused:
        ports.apply({"p1": configured("p1", gates()), "p2": configured("p2", too_long)})
    assert "port p1" not in str(refused.value)
    assert ports.read() == untouched


def test_a_port_that_it_does_not_have_is_refused(ports: Switch):
    with pytest.raises(AgentError, match="port p9: no such interface; this switch has p1, p2"):
        ports.apply({"p9": configured("p9", gates())})


def test_a_poll_monitor_that_is_stopped_ends_its_wait():
    monitor = PollMonitor()
    monitor.stop()
    assert monitor.wait() is False


@pytest.mark.parametrize("names", ["", "p1,", "p1,p1"])
def test_names_that_are_no_ports_are_a_bad_argument(names: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="2"):
        program.main(["--rehearse", names])
    assert f"{names!r}: expected names that differ" in capsys.readouterr().err


def test_rehearsed_ports_can_be_those_of_a_bridge():
    *ports, bridge = rehearsal_ports(["p1", "p2"], "br0")
    assert [port.bridge for port in ports] == ["br0", "br0"]
    assert bridge.as_bridge.ports == {"p1": 1, "p2": 2}
    assert len({each.ifindex for each in (*ports, bridge)}) == 3


def test_a_bridge_is_rehearsed_only_with_ports(capsys):
    with pytest.raises(SystemExit) as ended:
        program.main(["--rehearse-bridge", "br0"])
    assert ended.value.code == 2
    assert "only with --rehearse" in capsys.readouterr().err


def test_a_port_reports_the_rate_of_its_link_where_one_is_stated():
    ports = rehearsal_ports(["p1", "p2"], rates_bps={"p1": 100_000_000})
    assert [port.link_speed_bps for port in ports] == [100_000_000, 10_000_000_000]
