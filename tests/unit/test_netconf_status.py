"""`cnc status`: what is said of ports whose kernel, configuration and plan part."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc.model import PortRef
from cnc.rollout import compare, status
from cnc.switch import ConnectOptions
from tests.unit.watched_switches import PLAN, poll, report

CONNECT = ConnectOptions(Path("key"), Path("known_hosts"))
WITHOUT_GATES = PortRef("s2", "s1")
LEFTOVER = (
    "differs: a gate control list is still there (taprio), which is not configured either, "
    "so a push would change nothing: restart tsn-agent, which removes it"
)


@pytest.fixture
def gates_where_none_are_planned(monkeypatch):
    """The port `WITHOUT_GATES` runs a list; with `is_configured`, its switch is told to."""

    def arrange(*, is_configured):
        wanted = poll("s2").stored.ports["s3"]

        class Switch:
            def __init__(self, bridge, _options):
                self.seen = poll(bridge.name, ports=self.ports, stored=self.configured)

            def ports(self, reports):
                if WITHOUT_GATES.port not in reports or "s3" not in reports:
                    return reports
                return {**reports, WITHOUT_GATES.port: report(wanted.configuration)}

            def configured(self, stored):
                return {**stored, WITHOUT_GATES.port: wanted} if is_configured else stored

            def __enter__(self):
                return self

            def __exit__(self, *_):
                """There is nothing to close."""

            def state(self, _ports):
                return self.seen.state

            def stored(self, _ports):
                return self.seen.stored

        monkeypatch.setattr(compare, "Device", Switch)

    return arrange


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
