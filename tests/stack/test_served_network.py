"""A controller that owns a network: what is touched alone, at once, and nobody else's.

Against real agents and NETCONF servers with ports in memory.
"""

from __future__ import annotations

import pytest

from agent.mechanisms.gates.model import GateState
from cnc.data_tree.tree import KeptTerm
from cnc.errors import RolloutError
from cnc.planner import plan as compute
from cnc.rollout import Term, claim, push
from cnc.rollout.history import History
from cnc.switch.device import Device, DeviceError
from tests.scale.orders import AGENT
from tests.scale.simulation import simulated_switches

TOUCHED = {"s2", "s3"}


@pytest.fixture(scope="module")
def simulation():
    with simulated_switches(4) as running:
        yield running


@pytest.fixture(scope="module")
def plans(simulation):
    """The whole plan, and that without the streams between the stations at s2 and s3."""
    whole = compute(simulation.intent())
    fewer = compute(simulation.intent(without={"h2-h3", "h3-h2"}), keep=whole)
    return whole, fewer


@pytest.fixture
def history(tmp_path):
    with History(tmp_path / "history.sqlite") as opened:
        yield opened


@pytest.fixture
def asked(monkeypatch):
    """The switches to which sessions were opened."""
    names = []
    opened = Device.__init__

    def noted(device, switch, options):
        names.append(switch.name)
        opened(device, switch, options)

    monkeypatch.setattr(Device, "__init__", noted)
    return names


def running(simulation, name):
    """The gates of the ports of a switch, as its kernel has them."""
    ports = simulation.switches[name].kernel.ports
    return {port: state[GateState] for port, state in ports.items()}


def owner(simulation, history, plan, number, **options):
    """A push of the service that owns the network."""
    term = Term(plan.intent.name, number)
    return push(plan, connect=simulation.connect, history=history, term=term, **options)


def test_a_change_at_once_speaks_to_what_it_touches_and_runs_when_it_returns(
    simulation, plans, history, asked
):
    whole, fewer = plans
    owner(simulation, history, whole, 1, take_over=True)
    asked.clear()
    report = owner(simulation, history, fewer, 1, touched=True, at_once=True)
    assert set(asked) == {change.port.node for change in report.changes} == TOUCHED
    assert report.all_start_in_ns < 0
    lists = [change.port for change in report.changes if change.after]
    assert lists
    for port in lists:
        schedule = running(simulation, port.node)[port.port].taprio.schedule
        cycle_ns = schedule.cycle_time_ns
        assert 0 <= schedule.base_time_ns - report.base_time_ns < cycle_ns
        assert schedule.base_time_ns % cycle_ns == 0
    asked.clear()
    assert owner(simulation, history, fewer, 1, touched=True, at_once=True).changes == ()
    assert asked == []


def test_an_agent_that_does_not_answer_elsewhere_does_not_hold_a_change_up(
    simulation, plans, history
):
    whole, fewer = plans
    owner(simulation, history, whole, 2, take_over=True)
    simulation.switches["s4"].freeze(AGENT)
    try:
        report = owner(simulation, history, fewer, 2, touched=True, at_once=True)
    finally:
        simulation.switches["s4"].thaw(AGENT)
    assert {change.port.node for change in report.changes} == TOUCHED


def test_a_laptop_is_refused_until_it_takes_over_and_the_service_from_then_on(
    simulation, plans, history, tmp_path
):
    whole, fewer = plans
    owner(simulation, history, whole, 3, take_over=True)
    with pytest.raises(RolloutError) as error:
        push(fewer, connect=simulation.connect)
    assert f"belongs to network {whole.intent.name}, for which " in str(error.value)
    assert "(term 3)" in str(error.value)
    assert "`cnc push --take-over`" in str(error.value)
    assert "no switch was changed" in str(error.value)

    with History(tmp_path / "laptop.sqlite") as laptop:
        assert push(fewer, connect=simulation.connect, history=laptop, take_over=True).changes
    with pytest.raises(RolloutError, match=r"comes with term 3, and .* another has taken over"):
        owner(simulation, history, whole, 3, take_over=True)
    assert owner(simulation, history, whole, 5, take_over=True).changes


def test_a_leader_whose_term_has_passed_changes_nothing_though_it_knows_the_network(
    simulation, plans, history
):
    whole, fewer = plans
    for plan in (fewer, whole):
        owner(simulation, history, plan, 7, take_over=True)
    before = {name: running(simulation, name) for name in TOUCHED}
    with pytest.raises(RolloutError, match="comes with term 6") as error:
        owner(simulation, history, fewer, 6, touched=True, at_once=True)
    assert "no switch was changed" in str(error.value)
    assert {name: running(simulation, name) for name in TOUCHED} == before


def claims(simulation, number, **options):
    """What switches keep when a new leader has named its term."""
    network = simulation.intent().network.managed.values()
    made = claim(network, Term("line4", number), connect=simulation.connect, **options)
    return {name: kept.term for name, kept in made.items() if isinstance(kept, KeptTerm)}, made


def test_a_leader_names_its_term_before_it_decides_and_nothing_else_changes(
    simulation, plans, history
):
    whole, fewer = plans
    for plan in (fewer, whole):
        owner(simulation, history, plan, 20, take_over=True)
    before = {name: its.kernel.log for name, its in simulation.switches.items()}
    assert claims(simulation, 21)[0] == dict.fromkeys(simulation.switches, 21)
    assert {name: its.kernel.log for name, its in simulation.switches.items()} == before
    assert claims(simulation, 20)[0] == dict.fromkeys(simulation.switches, 21)

    with pytest.raises(RolloutError, match="comes with term 20"):
        owner(simulation, history, fewer, 20, touched=True, at_once=True)
    assert owner(simulation, history, fewer, 21, touched=True, at_once=True).changes


def test_a_switch_of_another_network_is_claimed_only_by_who_takes_it_over(simulation, plans):
    network = simulation.intent().network.managed["s1"]
    kept = claims(simulation, 1)[1]["s1"]
    other = Term("lab", kept.term + 1)
    made = claim([network], other, connect=simulation.connect)["s1"]
    assert isinstance(made, DeviceError)
    assert "belongs to network line4" in str(made)
    made = claim([network], other, connect=simulation.connect, take_over=True)["s1"]
    assert (made.network, made.term) == ("lab", kept.term + 1)
    back = Term("line4", kept.term + 2)
    made = claim([network], back, connect=simulation.connect, take_over=True)["s1"]
    assert made.network == "line4"
