"""`cnc status`: what is said of ports whose kernel, configuration and plan part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cnc.model import PortRef, StoredGates
from cnc.rollout import compare, status
from cnc.switch import ConnectOptions
from tests.unit.watched_switches import PLAN, poll, report

CONNECT = ConnectOptions(Path("key"), Path("known_hosts"))
WITHOUT_GATES = PortRef("s2", "s1")
LEFTOVER = (
    "differs: a gate control list is still there (taprio), which is not configured either, "
    "so a push would change nothing: restart tsn-agent, which removes it"
)


def answer(monkeypatch, seen):
    """Each switch answers what the poll of it that `seen` makes has."""

    class Switch:
        def __init__(self, bridge, _options):
            self.name = bridge.name

        def __enter__(self):
            return self

        def __exit__(self, *_):
            """There is nothing to close."""

        def state(self, _ports):
            return seen(self.name).state

        def stored(self, _ports):
            return seen(self.name).stored

    monkeypatch.setattr(compare, "Device", Switch)


@pytest.fixture
def gates_where_none_are_planned(monkeypatch):
    """The port `WITHOUT_GATES` runs a list; with `is_configured`, its switch is told to."""

    def arrange(*, is_configured):
        wanted = poll("s2").stored.ports["s3"]

        def ports(reports):
            if WITHOUT_GATES.port not in reports or "s3" not in reports:
                return reports
            return {**reports, WITHOUT_GATES.port: report(wanted[StoredGates].configuration)}

        def configured(stored):
            return {**stored, WITHOUT_GATES.port: wanted} if is_configured else stored

        answer(monkeypatch, lambda name: poll(name, ports=ports, stored=configured))

    return arrange


@pytest.mark.parametrize(
    ("port", "streams", "agrees"),
    [
        pytest.param("s1/s2", {"motion"}, False, id="they leave by it"),
        pytest.param("s2/s1", {"motion"}, False, id="they come in by it"),
        pytest.param("s1/t1", {"motion"}, False, id="from their talker"),
        pytest.param("s1/t2", {"motion"}, True, id="those of another talker"),
    ],
)
def test_a_link_that_is_down_is_a_problem_where_frames_of_streams_are_to_pass(
    monkeypatch, port, streams, agrees
):
    switch, _, down = port.partition("/")

    def ports(reports):
        return {**reports, down: replace(reports[down], oper_status="lower-layer-down")}

    answer(monkeypatch, lambda name: poll(name, ports=ports) if name == switch else poll(name))
    plan = replace(PLAN, streams={name: PLAN.streams[name] for name in streams})
    (found,) = [each for each in status(plan, connect=CONNECT) if str(each.port) == port]
    assert found.agrees is agrees
    assert found.verdict.endswith("; the link is lower-layer-down")
    assert found.hints == (f"check the cable and the far end; ip link set {down} up",)
    others = [each for each in status(plan, connect=CONNECT) if str(each.port) != port]
    assert all(each.agrees for each in others)


@pytest.mark.parametrize(
    ("is_configured", "verdict"),
    [(False, LEFTOVER), (True, "differs: a gate control list is still there (taprio)")],
    ids=["nowhere", "on the switch"],
)
def test_gates_that_neither_plan_nor_switch_is_configured_for_are_the_agents_to_remove(
    gates_where_none_are_planned, is_configured, verdict
):
    gates_where_none_are_planned(is_configured=is_configured)
    differing = {
        port.port: port.verdict for port in status(PLAN, connect=CONNECT) if not port.agrees
    }
    assert differing == {WITHOUT_GATES: verdict}
