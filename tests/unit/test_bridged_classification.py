"""The filters of bridged ports: when they are asked for, and how they are reported."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.mechanism import BRIDGE_PORT, TAPRIO, ReportContext
from agent.mechanisms.bridged_classification import BRIDGED_CLASSIFICATION as MECHANISM
from agent.mechanisms.bridged_classification.model import BridgedConfig, BridgedState
from agent.model import PortConfig
from tests.stack.recording_kernel import port

BRIDGED = replace(port("p1"), bridge="br0")
ASKED = PortConfig("p1", (BridgedConfig({46: 6}),))
CONTEXT = ReportContext(lambda _clock: 0)


def test_the_rules_are_those_of_the_port():
    rules = {"tsn-linux:dscp-rule": [{"dscp": 46, "priority": 6}]}
    assert MECHANISM.configured({"name": "p1", BRIDGE_PORT: rules}, None) == BridgedConfig({46: 6})
    assert MECHANISM.configured({"name": "p1"}, None) == BridgedConfig()


@pytest.mark.parametrize(
    ("state", "difference"),
    [
        (port("p1"), None),
        (BRIDGED, "DSCP 46 to priority 6 is missing for bridged frames"),
        (BRIDGED.with_part(BridgedState({46: 6})), None),
        (
            BRIDGED.with_part(BridgedState({46: 5})),
            (
                "DSCP 46 to priority 6 is missing for bridged frames, "
                "DSCP 46 to priority 5 is not configured for bridged frames"
            ),
        ),
        (
            port("p1").with_part(BridgedState({46: 6})),
            "DSCP 46 to priority 6 is not configured for bridged frames",
        ),
    ],
)
def test_filters_are_asked_for_while_the_port_is_a_member_of_a_bridge(state, difference):
    assert [change.difference for change in MECHANISM.diff(ASKED, state)] == (
        [difference] if difference else []
    )


def test_a_port_without_a_bridge_reports_nothing_and_one_with_a_bridge_all_rules_or_none():
    def reported(state):
        nodes = MECHANISM.operational(state, CONTEXT)
        return nodes and nodes[BRIDGE_PORT][TAPRIO]["kernel"]["bridged-frames"]

    assert reported(port("p1")) == {}
    assert reported(BRIDGED) == {"dscp-rule": []}
    rules = {"dscp-rule": [{"dscp": 46, "priority": 6}]}
    assert reported(BRIDGED.with_part(BridgedState({46: 6}))) == rules
