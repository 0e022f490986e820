"""The code points of frames that a bridge sends: what is asked for, when, and how it is reported.
And the decoding of those that it receives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.mechanism import BRIDGE_PORT, TAPRIO, ReportContext
from agent.mechanisms.received_priority import RECEIVED_PRIORITY
from agent.mechanisms.received_priority.kernel import filters_of
from agent.mechanisms.received_priority.model import (
    PriorityTable,
    ReceivedPriorityConfig,
    ReceivedPriorityState,
)
from agent.mechanisms.sent_priority import SENT_PRIORITY
from agent.mechanisms.sent_priority.model import SentPriorityConfig, SentPriorityState
from agent.model import PortConfig
from tests.stack.recording_kernel import port

BRIDGED = replace(port("p1"), bridge="br0")
CONTEXT = ReportContext(lambda _clock: 0)
SWAPPED = (0, 1, 2, 3, 4, 6, 5, 7)
ROWS = [
    {"priority": 5, "dei": False, "priority-code-point": 6},
    {"priority": 6, "dei": False, "priority-code-point": 5},
]


def encoding(*rows):
    return {"pcp-encoding-table": {"pcp-encoding-map": [{"pcp": "8P0D", "priority-map": [*rows]}]}}


def decoding(by_code_point):
    rows = [{"priority-code-point": p, "priority": d} for p, d in by_code_point.items()]
    return {"pcp-decoding-table": {"pcp-decoding-map": [{"pcp": "8P0D", "priority-map": rows}]}}


@pytest.mark.parametrize(
    ("nodes", "code_points"),
    [
        ({}, None),
        ({"default-priority": 3}, None),
        (encoding(), tuple(range(8))),
        (encoding(*ROWS), SWAPPED),
    ],
)
def test_a_priority_without_a_row_is_sent_as_it_is_and_without_a_table_no_tag_changes(
    nodes, code_points
):
    found = SENT_PRIORITY.configured({"name": "p1", BRIDGE_PORT: nodes}, None)
    assert found == SentPriorityConfig(code_points)


def test_code_points_are_written_while_the_port_is_a_member_of_a_bridge():
    asked = PortConfig("p1", (SentPriorityConfig(SWAPPED),))
    assert list(SENT_PRIORITY.diff(asked, port("p1"))) == []
    (change,) = SENT_PRIORITY.diff(asked, BRIDGED)
    assert change.difference == (
        "sent frames have the code points with which they came, "
        "not the code points 0, 1, 2, 3, 4, 6, 5, 7 by priority"
    )
    done = SENT_PRIORITY.memory.applied(
        BRIDGED, [each.content for each in change.after], lambda _c: 0
    )
    assert list(SENT_PRIORITY.diff(asked, done)) == []
    (gone,) = SENT_PRIORITY.diff(asked, replace(done, bridge=None))
    assert gone.after == ()


def test_what_is_sent_is_reported_as_the_table_and_as_what_the_kernel_does():
    assert SENT_PRIORITY.operational(BRIDGED, CONTEXT) == {}
    state = BRIDGED.with_part(SentPriorityState(SWAPPED))
    node = SENT_PRIORITY.operational(state, CONTEXT)[BRIDGE_PORT]
    (table,) = node["pcp-encoding-table"]["pcp-encoding-map"]
    assert table["pcp"] == "8P0D"
    assert [row for row in table["priority-map"] if row["priority"] in {5, 6}] == ROWS
    sent = node[TAPRIO]["kernel"]["bridged-frames"]["sent-code-point"]
    assert [row["code-point"] for row in sent] == [*SWAPPED]


def test_a_received_code_point_is_decoded_and_then_regenerated():
    nodes = decoding({5: 3, 3: 3}) | {"priority-regeneration": {"priority3": 1, "priority5": 7}}
    found = RECEIVED_PRIORITY.configured({"name": "p1", BRIDGE_PORT: nodes}, None)
    table = PriorityTable((0, 1, 2, 1, 4, 1, 6, 7), 0, (0, 1, 2, 3, 4, 3, 6, 7))
    assert found == ReceivedPriorityConfig(table)


def test_decoding_and_regeneration_are_reported_apart():
    table = PriorityTable((0, 1, 2, 1, 4, 1, 6, 7), 2, (0, 1, 2, 3, 4, 3, 6, 7))
    state = BRIDGED.with_part(ReceivedPriorityState(table))
    node = RECEIVED_PRIORITY.operational(state, CONTEXT)[BRIDGE_PORT]
    # No code point stands for priority 5: what it would become does not show.
    assert node["priority-regeneration"] == {
        f"priority{p}": 1 if p == 3 else p for p in range(8) if p != 5
    }
    (decoded,) = node["pcp-decoding-table"]["pcp-decoding-map"]
    assert [row["priority"] for row in decoded["priority-map"]] == [*table.decoded]
    in_kernel = node[TAPRIO]["kernel"]["bridged-frames"]
    assert [row["priority"] for row in in_kernel["received-priority"]] == [*table.regenerated]
    assert in_kernel["default-priority"] == 2


def test_a_table_that_is_not_decoded_is_reported_without_a_decoding_table():
    state = BRIDGED.with_part(ReceivedPriorityState(PriorityTable()))
    node = RECEIVED_PRIORITY.operational(state, CONTEXT)[BRIDGE_PORT]
    assert "pcp-decoding-table" not in node


def test_filters_keep_what_a_code_point_stands_for_only_where_it_is_another_value():
    filters = filters_of(PriorityTable((0, 1, 2, 1, 4, 1, 6, 7), 0, (0, 1, 2, 3, 4, 3, 6, 7)))
    assert [each.label for each in filters] == [None] * 5 + [4] + [None] * 3
