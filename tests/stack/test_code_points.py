"""The agent on a real sysrepo: tables that decode and encode priority code points."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.mechanisms.received_priority.model import PriorityTable, ReceivedPriorityState
from agent.mechanisms.sent_priority.model import SentPriorityState
from tests.stack.recording_kernel import RecordingKernel, port
from tests.stack.sysrepo_client import NOW_NS

PORT = "/ietf-interfaces:interfaces/interface[name='p1']/ieee802-dot1q-bridge:bridge-port"

pytestmark = pytest.mark.usefixtures("agent")


@pytest.fixture
def kernel():
    return RecordingKernel(replace(port("p1"), bridge="br0"), now_ns=NOW_NS)


def interfaces(bridge_port):
    node = {"name": "p1", "type": "iana-if-type:ethernetCsmacd"}
    node["ieee802-dot1q-bridge:bridge-port"] = bridge_port
    return {"ietf-interfaces:interfaces": {"interface": [node]}}


def decoding(row, pcp="8P0D"):
    return {"pcp-decoding-table": {"pcp-decoding-map": [{"pcp": pcp, "priority-map": [row]}]}}


def encoding(row, pcp="8P0D"):
    return {"pcp-encoding-table": {"pcp-encoding-map": [{"pcp": pcp, "priority-map": [row]}]}}


RECEIVED = {"priority-code-point": 5, "priority": 3}
SENT = {"priority": 3, "dei": False, "priority-code-point": 6}


def test_tables_reach_the_port_and_are_reported_as_the_kernel_has_them(client, kernel):
    client.merge(interfaces({"pcp-selection": "8P0D", **decoding(RECEIVED), **encoding(SENT)}))
    by_code_point = (0, 1, 2, 3, 4, 3, 6, 7)
    table = PriorityTable(by_code_point, 0, by_code_point)
    assert kernel.states["p1"][ReceivedPriorityState].table == table
    assert kernel.states["p1"][SentPriorityState].code_points == (0, 1, 2, 6, 4, 5, 6, 7)
    (reported,) = client.read(PORT, "operational")["ietf-interfaces:interfaces"]["interface"]
    bridge_port = reported["ieee802-dot1q-bridge:bridge-port"]
    (decoded,) = bridge_port["pcp-decoding-table"]["pcp-decoding-map"]
    (encoded,) = bridge_port["pcp-encoding-table"]["pcp-encoding-map"]
    assert {"drop-eligible": False, **RECEIVED} in decoded["priority-map"]
    assert SENT in encoded["priority-map"]
    frames = bridge_port["tsn-linux:taprio"]["kernel"]["bridged-frames"]
    assert {"code-point": 5, "priority": 3} in frames["received-priority"]
    assert {"priority": 3, "code-point": 6} in frames["sent-code-point"]


def test_what_the_kernel_lost_is_not_reported_of_it(client, kernel):
    client.merge(interfaces(encoding(SENT)))
    kernel.states["p1"] = kernel.states["p1"].with_part(SentPriorityState())
    (reported,) = client.read(PORT, "operational")["ietf-interfaces:interfaces"]["interface"]
    frames = reported["ieee802-dot1q-bridge:bridge-port"]["tsn-linux:taprio"]["kernel"]
    assert "sent-code-point" not in frames["bridged-frames"]


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        ({"pcp-selection": "7P1D"}, "pcp-selection is 8P0D: Linux knows no drop eligibility"),
        (decoding(RECEIVED, "7P1D"), "the table of 8P0D is in use: Linux knows no drop eligib"),
        (encoding(SENT, "5P3D"), "the table of 8P0D is in use: Linux knows no drop eligibility"),
        (decoding({**RECEIVED, "drop-eligible": True}), "drop-eligible is false: Linux knows no"),
        (encoding({**SENT, "dei": True}), "dei is false: Linux knows no drop eligibility"),
        (decoding({"priority-code-point": 5}), 'Mandatory node "priority" instance does not exist'),
        (encoding({"priority": 5, "dei": False}), 'Mandatory node "priority-code-point" instance'),
    ],
)
def test_drop_eligibility_is_refused(client, kernel, tables, why):
    """And a row that would have no effect."""
    assert why in client.refusal(interfaces(tables))
    assert kernel.states["p1"][ReceivedPriorityState].table is None
    assert kernel.states["p1"][SentPriorityState].code_points is None


def test_a_value_that_is_the_default_counts_from_when_it_is_configured(client, kernel):
    client.merge(interfaces({}))
    client.merge(interfaces({"default-priority": 0}))
    assert kernel.states["p1"][ReceivedPriorityState].table == PriorityTable()
    client.delete(f"{PORT}/default-priority")
    assert kernel.states["p1"][ReceivedPriorityState].table is None
