"""A push to a foreign switch that reports which list runs: read back before it is confirmed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from cnc import intent as intents
from cnc.errors import RolloutError
from cnc.model import NS_PER_S, Plan
from cnc.planner import plan as compute
from cnc.rollout import push, status
from cnc.rollout.history import History
from tests.intent_documents import DEFAULTS, class_of, stream
from tests.unit.reporting_switch import HELLO, Script
from tests.unit.strange_switch import StrangeSwitch, strange_switch

PROFILE = {
    "name": "reporting",
    "gates-tree": "ieee802-dot1q-sched-bridge",
    "commit": "candidate",
    "reads-back": True,
    "reports-clock": True,
    "has-startup": True,
    "forwards": True,
}


@dataclass(frozen=True)
class Network:
    """t1 ── s1 ── l1 and its operator."""

    script: Script
    switch: StrangeSwitch
    history: History

    def plan(self, octets: int = 200) -> Plan:
        management = {"address": "127.0.0.1", "port": self.switch.port, "user": "operator"}
        document = {
            "name": "reporting",
            "forwarding": "bridged",
            "addresses": {"vlans": [10]},
            "defaults": DEFAULTS,
            "classes": {
                "cyclic": class_of(6, "scheduled"),
                "best-effort": class_of(1, "best-effort", priority=0),
            },
            "switches": {
                "s1": {"management": management, "profile": PROFILE, "ports": ["l1", "t1"]}
            },
            "end-stations": {"t1": {}, "l1": {}},
            "links": [["t1/eth0", "s1/t1"], ["s1/l1", "l1/eth0"]],
            "streams": {"motion": stream("t1", "l1", octets=octets)},
        }
        return compute(intents.from_document(document, "reporting"))

    def push(self, plan: Plan) -> Any:
        return push(plan, connect=self.switch.options(), history=self.history)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    script = Script(("l1", "t1"))
    with (
        strange_switch(tmp_path, answer=script.answer, hello=HELLO) as switch,
        History(tmp_path / "history.sqlite") as history,
    ):
        yield Network(script, switch, history)


def test_a_list_that_is_pending_is_read_back_with_its_base_time(network: Network) -> None:
    plan = network.plan()
    report = network.push(plan)
    assert 14 * NS_PER_S < report.starts_in_ns < 17 * NS_PER_S
    asked = [each for each in network.script.asked if each in {"edit-config", "commit", "get"}]
    assert asked[asked.index("commit") :] == ["commit", "get"]
    assert "copy-config" in network.script.asked
    (port,) = (each for each in status(plan, connect=network.switch.options()) if each.intended)
    assert port.agrees
    assert port.pending
    assert port.verdict == "pending"


def test_a_switch_that_stores_a_list_and_does_nothing_gets_its_former_back(
    network: Network,
) -> None:
    former = network.plan()
    network.push(former)
    stored = etree.tostring(network.script.running)
    network.script.reports = lambda _table: None
    with pytest.raises(RolloutError, match="port l1 does not run what was committed") as failed:
        network.push(network.plan(octets=400))
    assert "is its profile right?" in str(failed.value.hint)
    assert etree.tostring(network.script.running) == stored
