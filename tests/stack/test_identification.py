"""The agent on a real sysrepo: entries of the Stream identity table reach the ports they name."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest
import sysrepo

from agent.datastore.subscriptions import Datastore
from agent.mechanisms.forwarding.model import ForwardingState
from agent.mechanisms.gates.model import GateState
from agent.mechanisms.identification.model import (
    IdentificationState,
    IdentificationTable,
    Incoming,
    Match,
    Named,
    Outgoing,
)
from tests.stack.filtering_entries import PORTS, bridges, entry, interfaces, switch
from tests.stack.netconfd_process import wait_until
from tests.stack.recording_kernel import port
from tests.stack.stream_identities import (
    STREAM_IDENTITY,
    TO_LISTENER,
    TO_STREAM,
    identified,
    named,
    restored,
    rewritten,
    stream_identities,
)
from tests.stack.sysrepo_client import gated

STREAM_IDENTITIES = f"/{STREAM_IDENTITY}"
MATCH = Match(ip_destination="10.0.1.77", protocol="udp", destination_port=5000)
INCOMING = Incoming(7, 1, 2, MATCH, TO_STREAM, 10, 1)
OUTGOING = Outgoing(7, 3, TO_STREAM, 10, TO_LISTENER)

pytestmark = pytest.mark.usefixtures("agent")


@pytest.fixture
def kernel():
    return switch()


WHOLE = interfaces(*PORTS) | stream_identities(identified(), rewritten(), restored())


def table(kernel, name):
    return kernel.states[name][IdentificationState].table


def test_entries_reach_the_ports_that_they_name(client, kernel):
    client.merge(WHOLE)
    assert table(kernel, "p1") == IdentificationTable(frozenset({INCOMING}))
    assert table(kernel, "p2") == IdentificationTable(outgoing=frozenset({OUTGOING}))
    assert table(kernel, "p3") == IdentificationTable()
    client.delete(STREAM_IDENTITIES)
    assert table(kernel, "p1") == table(kernel, "p2") == IdentificationTable()


def test_entries_gates_and_forwarding_of_one_commit_are_one_change(client, kernel):
    to_stream = bridges(entry(TO_STREAM, "p2"))
    gates = {"ietf-interfaces:interfaces": {"interface": [gated("p3")]}}
    client.merge(WHOLE)
    client.delete(STREAM_IDENTITIES)
    before = client.read("/tsn-linux:agent")["tsn-linux:agent"]["last-change"]["time"]
    kernel.log.clear()
    client.merge(gates | to_stream | stream_identities(identified(), rewritten(), restored()))
    assert sorted(kernel.log) == ["apply br0", "apply p1", "apply p2", "apply p3"]
    last = client.read("/tsn-linux:agent")["tsn-linux:agent"]["last-change"]
    assert last["time"] != before
    assert last["ports"] == 4


def test_entries_that_are_refused_refuse_the_rest_of_their_commit(client, kernel):
    client.merge(interfaces("p1"))
    gates = {"ietf-interfaces:interfaces": {"interface": [gated("p3")]}}
    why = client.refusal(gates | bridges(entry(TO_STREAM, "p2")) | stream_identities(identified()))
    assert "port p1: entry 1 of stream-identity: frames of stream 7 are identified, but no" in why
    assert kernel.states["p3"][GateState].taprio is None
    assert not kernel.states["br0"][ForwardingState].table
    assert not table(kernel, "p1")


def test_a_restarted_agent_finds_nothing_to_do(client, kernel, agent):
    client.merge(WHOLE)
    agent.close()
    done = list(kernel.log)
    Datastore(kernel).close()
    assert kernel.log == done


def test_a_port_that_joins_its_bridge_after_the_agent_has_started_gets_its_streams(
    client, kernel, agent
):
    client.merge(WHOLE)
    agent.close()
    kernel.states["p1"] = replace(port("p1"), bridge=None)  # as after a reboot
    with closing(Datastore(kernel)):
        assert not table(kernel, "p1")
        assert table(kernel, "p2").outgoing == {OUTGOING}
        kernel.changed(replace(kernel.states["p1"], bridge="br0"))
        assert wait_until(lambda: table(kernel, "p1").incoming == {INCOMING})


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (
            interfaces("p9") | stream_identities(identified(port="p9"), rewritten(port="p9")),
            "port p9: no such interface",
        ),
        (
            interfaces("br0") | stream_identities(identified(port="br0"), rewritten(port="br0")),
            "port br0: it is no port of a bridge",
        ),
        (stream_identities(identified(port="p8"), rewritten(port="p8")), "p8"),
        (
            interfaces("p1") | stream_identities(identified(), rewritten(vlan=4095)),
            "port p1: stream 7 (entry 1 of stream-identity): VLAN 4095 is none that a tag can name",
        ),
        (
            interfaces("p1") | stream_identities(identified() | {"out-facing": {}}),
            "an entry of stream-identity names at least one port",
        ),
    ],
)
def test_what_a_port_cannot_do_is_refused_with_the_reason(client, kernel, data, why):
    assert why in client.refusal(data)
    assert not any(table(kernel, name) for name in PORTS)


@pytest.mark.parametrize(
    ("number", "path", "value", "why"),
    [
        (0, "tagged", "all", "only frames without a VLAN tag are identified: tagged is priority"),
        (0, "vlan", 10, "only frames without a VLAN tag are identified: vlan is 0"),
        (1, "down/tagged", "priority", "frames of a stream have a VLAN tag inside the network"),
        (2, "up/tagged", "tagged", "the listener gets frames without a VLAN tag: tagged is prio"),
        (2, "up/vlan", 10, "the listener gets frames without a VLAN tag: vlan is 0"),
        (2, "up/priority", 3, "the listener gets frames without a VLAN tag: priority is 0"),
    ],
)
def test_nothing_but_frames_without_a_tag_are_identified(  # noqa: PLR0917
    client, kernel, number, path, value, why
):
    entries = [identified(), rewritten(), restored()]
    (kind,) = (name for name in entries[number] if name.endswith("-identification"))
    *containers, leaf = path.split("/")
    node = entries[number][kind]
    for container in containers:
        node = node[container]
    node[leaf] = value
    assert why in client.refusal(interfaces(*PORTS) | stream_identities(*entries))
    assert not table(kernel, "p1")


@pytest.mark.parametrize(
    ("kind", "address", "beside", "reason"),
    [
        ("null", "destination-mac", {"tagged": "all"}, "tagged is tagged or priority"),
        ("null", "destination-mac", {"vlan": 10}, "frames without a VLAN tag are of no VLAN"),
        ("smac-vlan", "source-mac", {"tagged": "tagged"}, "only frames without a VLAN tag are"),
        ("smac-vlan", "source-mac", {"vlan": 10}, "only frames without a VLAN tag are"),
    ],
)
def test_by_a_mac_address_no_other_frames_are_identified(  # noqa: PLR0917
    client, kernel, kind, address, beside, reason
):
    known = {address: "02-AA-00-00-00-01"}
    entry_ = identified(kind=kind, **known, **beside)
    why = client.refusal(interfaces("p1") | stream_identities(entry_, rewritten()))
    assert reason in why
    client.merge(
        interfaces("p1") | stream_identities(identified(kind=kind, vlan=0, **known), rewritten())
    )
    (stream,) = table(kernel, "p1").incoming
    assert "02-AA-00-00-00-01" in stream.match


def test_an_entry_that_only_names_tagged_frames_reaches_its_port(client, kernel):
    client.merge(interfaces("p1") | stream_identities(named()))
    assert table(kernel, "p1").named == {Named(7, 1, TO_STREAM, 10, is_out_facing=True)}
    (listed,) = client.read(STREAM_IDENTITIES)[STREAM_IDENTITY]
    assert listed["out-facing"] == {"input-port": ["p1"]}
    assert listed["null-stream-identification"]["vlan"] == 10


def test_the_operational_datastore_has_the_entries_of_the_kernel(client, kernel):
    client.merge(WHOLE)
    listed = client.read(STREAM_IDENTITIES)[STREAM_IDENTITY]
    assert [each["index"] for each in listed] == [1, 2, 3]
    assert listed[0]["ip-stream-identification"]["ip-destination"] == "10.0.1.77"
    assert listed[0]["ip-stream-identification"]["identification-type"]["type-number"] == "ip"
    assert listed[2]["in-facing"] == {"input-port": ["p2"]}
    kernel.states["p2"] = kernel.states["p2"].with_part(IdentificationState())
    assert [each["index"] for each in client.read(STREAM_IDENTITIES)[STREAM_IDENTITY]] == [1, 2]
    kernel.states["p1"] = kernel.states["p1"].with_part(IdentificationState())
    with pytest.raises(sysrepo.SysrepoNotFoundError):
        client.read(STREAM_IDENTITIES)


def test_the_operational_datastore_has_the_frames_that_were_identified(client, kernel):
    client.merge(WHOLE)
    state = kernel.states["p1"]
    counted = IdentificationState(state[IdentificationState].table, {INCOMING: 5})
    kernel.states["p1"] = state.with_part(counted)
    path = "/ietf-interfaces:interfaces/interface[name='p1']/statistics"
    (shown,) = client.read(path)["ietf-interfaces:interfaces"]["interface"]
    counters = shown["statistics"]["ieee802-dot1cb-stream-identification:stream-id"]
    assert counters["per-port-counters"] == {"input-pkts": "5", "output-pkts": "5"}
    assert shown["statistics"]["in-octets"] == str(2**40)
