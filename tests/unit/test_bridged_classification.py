"""The priority of bridged frames: what is asked for, when, and how it is reported."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.mechanism import BRIDGE_PORT, TAPRIO, ReportContext
from agent.mechanisms.bridged_classification import BRIDGED_CLASSIFICATION as MECHANISM
from agent.mechanisms.bridged_classification.model import BridgedConfig, BridgedState
from agent.mechanisms.received_priority import RECEIVED_PRIORITY
from agent.mechanisms.received_priority.model import PriorityTable, ReceivedPriorityConfig
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


@pytest.mark.parametrize(
    ("nodes", "table"),
    [
        ({}, None),
        ({"default-priority": 3}, PriorityTable(default=3)),
        (
            {"priority-regeneration": {"priority0": 1, "priority7": 0}},
            PriorityTable((1, 1, 2, 3, 4, 5, 6, 0)),
        ),
    ],
)
def test_received_frames_keep_their_code_point_where_nothing_else_is_configured(nodes, table):
    found = RECEIVED_PRIORITY.configured({"name": "p1", BRIDGE_PORT: nodes}, None)
    assert found == ReceivedPriorityConfig(table)


def test_priorities_of_received_frames_matter_on_a_port_of_a_bridge_only():
    asked = PortConfig("p1", (ReceivedPriorityConfig(PriorityTable(default=3)),))
    assert list(RECEIVED_PRIORITY.diff(asked, port("p1"))) == []
    (change,) = RECEIVED_PRIORITY.diff(asked, BRIDGED)
    assert change.difference == (
        "received frames get priority 0, "
        "not the priorities 0, 1, 2, 3, 4, 5, 6, 7 by code point, 3 without a tag"
    )
    done = RECEIVED_PRIORITY.memory.applied(
        BRIDGED, [each.content for each in change.after], lambda _c: 0
    )
    assert list(RECEIVED_PRIORITY.diff(asked, done)) == []
    reported = RECEIVED_PRIORITY.operational(done, CONTEXT)[BRIDGE_PORT]
    assert reported["default-priority"] == 3
    assert reported["priority-regeneration"]["priority5"] == 5
    assert RECEIVED_PRIORITY.operational(BRIDGED, CONTEXT) == {}
